"""The plan lock, and what a task sees of its run in the archive: this lock and the stop marker."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from local_sqs.clock import VirtualClock
from spark_reprocess.archive.plan_lock import (
    ANALYZE,
    LOCK_SECONDS,
    LockHolder,
    LockObserver,
    PlanLock,
    erase_holder,
    plan_lock,
)
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.archive.storage.local import LocalArchive
from spark_reprocess.aws.clients import Limit
from spark_reprocess.errors import ArchiveError, BusyError
from spark_reprocess.redrive.sending.stop_signals import LOOK_SECONDS, StopSignals, stop_marker
from tests.support.builders import NOW
from tests.support.golden import assert_stored, stored_rows
from tests.support.ledgers import DisturbedArchive


@dataclass(frozen=True)
class FaultyArchive(DisturbedArchive):
    """Refuses to write or read, or lets others act just before it creates or writes a file."""

    cannot_write: set[str] = field(default_factory=set)
    cannot_read: set[str] = field(default_factory=set)
    unlisted: set[str] = field(default_factory=set)
    before_write: list[Callable[[], object]] = field(default_factory=list)

    def write(self, path: str, content: bytes) -> None:
        if self.before_write:
            self.before_write.pop()()
        if path in self.cannot_write:
            raise ArchiveError("no room")
        super().write(path, content)

    def read(self, path: str) -> bytes | None:
        if path in self.cannot_read:
            raise ArchiveError("no answer")
        return super().read(path)

    def list(self, folder: str) -> "list[str]":
        return [path for path in super().list(folder) if path not in self.unlisted]


@dataclass
class Locks:
    """The locks of an archive, at a time."""

    archive: FaultyArchive
    clock: VirtualClock = field(default_factory=VirtualClock)

    def hold(self, holder: LockHolder) -> AbstractContextManager[PlanLock]:
        return plan_lock(self.archive, holder, now_seconds=self.clock.time)

    def take(self, holder: LockHolder) -> PlanLock:
        """Take the lock, as a process does that is killed before it renews or releases it."""
        return PlanLock(self.archive, holder, LOCK_SECONDS, self.clock.time)

    def try_to_take(self, holder: LockHolder) -> PlanLock | None:
        with suppress(BusyError):
            return self.take(holder)
        return None


@pytest.fixture
def locks(tmp_path: Path) -> Locks:
    return Locks(FaultyArchive(str(tmp_path)))


def run(run_id: str, claims: str) -> LockHolder:
    match claims:
        case "analyze":
            return LockHolder(run_id, ANALYZE, "an analysis", "me@here")
        case "erase":
            return erase_holder(run_id, "me@here")
    return LockHolder(run_id, claims, f"plan {claims}", "me@here")


@dataclass
class Story:
    """What happens to the locks of an archive, told in steps: ``r-1 takes p-1; +60; r-1 renews``.

    A run takes the lock for a plan, for ``analyze`` or for ``erase``; ``ahead N`` is by a clock
    that is N s ahead. What stands behind ``while``, joined by ``and``, happens just before the
    next file is created or written. ``task of`` asks the observer that ``is observed`` has made.
    """

    locks: Locks
    held: dict[str, PlanLock] = field(default_factory=dict)
    observers: dict[str, LockObserver] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def tell(self, steps: str) -> str:
        for step in steps.split("; "):
            step_, _, meanwhile = step.partition(" while ")
            if meanwhile:
                before = partial(self._all, meanwhile.split(" and "))
                hooks = self.locks.archive.before_write
                (hooks if "renews" in step_ else self.locks.archive.before_create).append(before)
            self._all([step_])
        return "\n".join([*self.lines, f"files: {' '.join(self.locks.archive.list(''))}"])

    def _all(self, steps: Sequence[str]) -> None:
        for step in steps:
            try:
                result = self._do(step.split())
            except (ArchiveError, BusyError) as error:
                result = f"{type(error).__name__}: {error}"
            text = (result or "").replace(self.locks.archive.root, "ARCHIVE")
            self.lines.append(f"{step}: {text}" if text else step)

    def _do(self, words: list[str]) -> str | None:  # noqa: C901 - one for each kind of step
        archive = self.locks.archive
        match words:
            case [seconds] if seconds.startswith("+"):
                self.locks.clock.advance(float(seconds))
            case [run_id, "takes", claims, *ahead]:
                clock = self.locks.clock
                if ahead:
                    clock = VirtualClock(clock.now_ms() + 1000 * int(ahead[1]))
                lock = PlanLock(archive, run(run_id, claims), LOCK_SECONDS, clock.time)
                self.held[run_id] = lock
                return lock.view.path
            case [run_id, "renews"]:
                self.held[run_id].renew()
            case [run_id, "releases"]:
                self.held[run_id].release()
            case [run_id, "trouble"]:
                self.held[run_id].require()
                return "none"
            case [run_id, "is", "observed"]:
                self.observers[run_id] = LockObserver(
                    archive, self.held[run_id].view, self.locks.clock.time
                )
            case ["task", "of", run_id]:
                return self.observers[run_id].trouble() or "none"
            case ["readable"]:
                archive.cannot_read.clear()
            case ["remove", run_id]:
                archive.remove(self.held[run_id].view.path)
            case ["break", path]:
                archive.write(path, b"{")
            case [kind, run_id]:
                paths: set[str] = getattr(archive, kind)
                paths.add(self.held[run_id].view.path)
        return None


STORIES = {
    "another plan is refused": "r-1 takes p-1; r-2 takes p-2",
    "runs of one plan share the lock until the last has ended": "r-1 takes p-1; r-2 takes p-1; "
    "r-1 renews; r-1 trouble; r-2 trouble; r-3 takes p-2; r-2 releases; r-3 takes p-2; "
    "r-1 releases; r-3 takes p-2",
    "a killed run counts as alive until its life is over": "r-1 takes p-1; +119.999; "
    "r-2 takes p-2; r-3 takes p-1; r-3 releases; +0.001; r-2 takes p-2",
    "a run that renews its lock stays alive": "r-1 takes p-1; +119; r-1 renews; r-1 trouble; +119; "
    "r-1 renews; r-1 trouble; r-2 takes p-2",
    "a plan that comes between look and creation wins": "r-2 takes p-2 while r-1 takes p-1",
    "another plan that comes before a sharer wins": "r-1 takes p-1; "
    "r-3 takes p-1 while r-1 releases and r-2 takes p-2",
    "a sharer that comes before another plan wins": "r-1 takes p-1; +120; "
    "r-2 takes p-2 while r-3 takes p-1",
    "a sharer that comes first is in nobody's way": "r-2 takes p-1 while r-1 takes p-1",
    "a run that ended meanwhile is in nobody's way": "r-2 takes p-2 while r-1 takes p-1 and "
    "r-1 releases",
    **{
        f"{first} and {second} wait for each other": f"x-1 takes {first}; x-2 takes {second}; "
        f"x-1 releases; x-2 takes {second}; x-1 takes {first}"
        for first, second in (("analyze", "erase"), ("erase", "p-1"), ("erase", "erase"))
    },
    "analyses share the lock with each other and with plans": "a-1 takes analyze; r-1 takes p-1; "
    "a-2 takes analyze; a-1 is observed; a-1 renews; a-1 trouble; r-1 trouble; task of a-1; "
    "r-2 takes p-2; e-1 takes erase",
    "a run that cannot renew its lock stops at half its life": "r-1 takes p-1; cannot_write r-1; "
    "+59; r-1 renews; r-1 trouble; +1; r-1 trouble",
    "a machine that slept within the life of its lock": "r-1 takes p-1; +108; r-1 trouble; "
    "r-1 renews; r-1 trouble",
    # Another plan may have begun since, and may act on the same messages.
    "a machine that slept past the life of its lock": "r-1 takes p-1; +3600; r-1 renews; "
    "r-1 trouble; r-2 takes p-2",
    "a renewal whose write ends after the life of the lock": "r-1 takes p-1; +119; "
    "r-1 renews while +30 and r-2 takes p-2; r-1 trouble",
    "such a renewal before the next run has come": "r-1 takes p-1; +119; r-1 renews while +30; "
    "r-1 trouble",
    "a lock that was taken by a clock that is wrong": "r-1 takes p-1; r-1 is observed; "
    "task of r-1; r-2 takes p-2 ahead 600; r-1 renews; r-1 trouble; task of r-1; r-1 releases; "
    "r-3 takes p-1; r-2 trouble",
    "a lock that cannot be released": "r-1 takes p-1; cannot_write r-1; r-1 releases; "
    "r-2 takes p-2; +120; r-2 takes p-2",
    "reads that fail show no renewal": "r-1 takes p-1; r-1 is observed; cannot_read r-1; +59; "
    "r-1 renews; task of r-1; +1; task of r-1; readable; task of r-1",
    "a frozen task finds that another plan took the lock": "r-1 takes p-1; r-1 is observed; "
    "task of r-1; +120; a-1 takes analyze; r-2 takes p-2; task of r-1; r-2 releases; task of r-1",
    "a frozen task goes on if its run still holds the lock": "r-1 takes p-1; r-1 is observed; "
    "task of r-1; +60; r-1 renews; +60; r-1 renews; +60; r-1 renews; task of r-1",
    "a task stops when its run has ended": "r-1 takes p-1; r-1 is observed; task of r-1; "
    "r-1 releases; task of r-1",
    "a broken newer lock shows no renewal": "r-1 takes p-1; r-1 is observed; "
    "break locks/000002.json; +60; r-1 renews; r-1 trouble; task of r-1",
    "a lock that was created while the folder was listed": "r-1 takes p-1; unlisted r-1; "
    "a-1 takes analyze; r-2 takes p-2",
    "removed files give no number twice": "r-1 takes p-1; r-1 releases; remove r-1; "
    "r-2 takes p-2; r-3 takes p-3",
}


@stored_rows("locks", STORIES)
def test_locks_are_taken_as_it_is_stored(locks: Locks, name: str) -> None:
    assert_stored("locks", name, Story(locks).tell(STORIES[name]))


def test_lock_is_released_when_the_run_fails(locks: Locks) -> None:
    with pytest.raises(ZeroDivisionError), locks.hold(run("r-1", "p-1")):
        raise ZeroDivisionError

    locks.take(run("r-2", "p-2"))


def test_thread_renews_the_lock_and_no_renewal_is_written_after_the_release(locks: Locks) -> None:
    renews = threading.Event()

    def renew_slowly() -> None:
        renews.set()
        time.sleep(0.2)

    with plan_lock(locks.archive, run("r-1", "p-1"), lock_seconds=5) as lock:
        locks.archive.before_write.append(renew_slowly)
        assert renews.wait(30)

    assert json.loads(locks.archive.read(lock.view.path) or b"")["ended"]


def test_of_many_plans_that_start_together_exactly_one_goes_on(tmp_path: Path) -> None:
    holders = [run(f"r-{number}", f"p-{number}") for number in range(24)]
    with ThreadPoolExecutor(8) as executor:
        for attempt in range(10):
            locks = Locks(FaultyArchive(str(tmp_path / str(attempt))))
            assert len([*filter(None, executor.map(locks.try_to_take, holders))]) == 1


def test_observer_counts_renewals_on_its_own_clock(locks: Locks) -> None:
    lock = locks.take(run("r-1", "p-1"))
    task_clock = VirtualClock((NOW - 86_400) * 1000)
    observer = LockObserver(locks.archive, lock.view, task_clock.time)
    for _ in range(5):
        locks.clock.advance(50)
        task_clock.advance(50)
        lock.renew()
        assert observer.trouble() == ""

    task_clock.advance(59)
    assert observer.trouble() == ""
    task_clock.advance(1)
    assert observer.trouble() == "the driver has not renewed locks/000001.json for 60 s"
    lock.renew()
    locks.clock.advance(1)
    lock.renew()
    assert observer.trouble() == ""


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"run_id": "x"}', b'{"alive_until": 3}'])
def test_file_that_somebody_changed_is_named(locks: Locks, content: bytes) -> None:
    path = "locks/000003.json"
    locks.archive.write(path, content)

    with pytest.raises(ArchiveError, match=rf"{path} cannot be read .* if no run is going on, rem"):
        locks.take(run("r-2", "p-2"))


def test_files_say_who_does_what_and_unreleased_ones_alone_are_read(locks: Locks) -> None:
    with locks.hold(run("r-1", "p-1")) as lock:
        content = json.loads(locks.archive.read(lock.view.path) or b"")

    assert content == {
        "holder": {"run_id": "r-1", "claims": "p-1", "what": "plan p-1", "who": "me@here"},
        "since": "2023-11-14T22:13:20.000+00:00",
        "alive_until": "2023-11-14T22:15:20.000+00:00",
        "ended": None,
    }
    assert locks.archive.list("") == ["locks/000001.end.json", "locks/000001.json"]
    locks.archive.cannot_read.add("locks/000001.json")
    locks.take(run("r-2", "p-2"))


MARKER = stop_marker("p-1", "r-1", "s-1")


def test_marker_stops_a_task_before_its_next_claim_and_between_calls_within_a_second(
    archive: Archive,
) -> None:
    clock = VirtualClock()
    claiming, calling = (StopSignals(archive, MARKER, None, clock.time) for _ in range(2))
    for run, stage in (("r-2", "s-1"), ("r-1", "s-2")):
        archive.create(stop_marker("p-1", run, stage), b"of others")
    assert claiming.look()
    assert calling.look()
    archive.create(MARKER, b"interrupted")

    assert not claiming.look()
    clock.advance(LOOK_SECONDS)
    assert not calling.may_go_on()
    assert not StopSignals(archive, MARKER, None).may_go_on()

    claiming.stop("and the disk is full")
    assert claiming.stopped_by == calling.stopped_by == "interrupted"


def test_task_can_stop_all_others(archive: Archive) -> None:
    one, other = StopSignals(archive, MARKER, None), StopSignals(archive, MARKER, None)

    one.stop("the queue is gone")

    assert not other.look()
    assert one.stopped_by == other.stopped_by == "the queue is gone"


def test_task_stops_itself_where_the_marker_cannot_be_written() -> None:
    signals = StopSignals(LocalArchive("/proc/no such folder"), MARKER, None)

    signals.stop("the disk is full")

    assert signals.stopped_by == "the disk is full"
    assert not signals.may_go_on()


def test_damaged_marker_stops_too(archive: Archive) -> None:
    archive.write(MARKER, b"\xff")

    assert not StopSignals(archive, MARKER, None).look()


def test_dead_or_frozen_driver_stops_its_tasks_within_half_the_life_of_its_lock(
    locks: Locks,
) -> None:
    with locks.hold(run("r-1", "p-1")) as lock:
        signals = StopSignals(locks.archive, MARKER, lock.view, locks.clock.time)
        for _ in range(10):
            locks.clock.advance(LOCK_SECONDS / 3)
            lock.renew()
            assert signals.may_go_on()
        assert signals.stopped_by == ""

        locks.clock.advance(LOCK_SECONDS / 2 + 1)

        assert not signals.may_go_on()
        assert "has not renewed" in signals.stopped_by


def test_stop_ends_a_wait(archive: Archive) -> None:
    signals = StopSignals(archive, MARKER, None)
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(signals.wait, 3600.0)
        signals.stop("interrupted")
        waiting.result(60)


@pytest.mark.parametrize(
    ("began", "now", "is_stopped"),
    [
        *((None, Limit(), False), (90, Limit(90), False), (90, Limit(120), False)),
        *((90, Limit(), False), (90, Limit(1, "limited"), True), (None, Limit(1, "limited"), True)),
        (90, Limit(1, fault="no way to the table"), False),
    ],
)
def test_a_task_stops_where_the_limit_falls(
    archive: Archive, began: int | None, now: Limit, *, is_stopped: bool
) -> None:
    signals = StopSignals(archive, MARKER, None)

    signals.keep_to(Limit(began), now)
    assert signals.stopped_by == ("waiting for the breaker: limited" if is_stopped else "")


def test_a_limit_is_a_rate() -> None:
    assert (Limit(90).least_rate(None), Limit(90).least_rate(1)) == (1.5, 1)
    assert (Limit().least_rate(None), Limit().least_rate(7)) == (None, 7)
