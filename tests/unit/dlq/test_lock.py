"""The archive lock, and what a task sees of its run: this lock and the stop marker."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from dlq.archive.ledger.claims import RunState, list_runs
from dlq.archive.ledger.run_results import write_result_files
from dlq.archive.ledger.stop import Stop, StopCause
from dlq.archive.lock import (
    LOCK_SECONDS,
    ArchiveLock,
    Life,
    LockClock,
    LockHolder,
    LockObserver,
    LockUse,
    _Lock,
    archive_lock,
    life_of,
    require_newest,
)
from dlq.archive.storage.files import Archive
from dlq.archive.storage.local import LocalArchive
from dlq.archive.storage.records import record_bytes
from dlq.aws.clients import Limit
from dlq.errors import ArchiveError, BusyError
from dlq.redrive.sending.stop_signals import LOOK_SECONDS, StopSignals, stop_marker
from local_sqs.clock import VirtualClock
from tests.support.builders import NOW
from tests.support.golden import assert_stored, stored_rows
from tests.support.ledgers import DisturbedArchive, begin


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


RENEWAL_SECONDS = LOCK_SECONDS / 10


@dataclass
class Locks:
    """The locks of an archive, at a time. While one run waits, those that live renew theirs."""

    archive: FaultyArchive
    clock: VirtualClock = field(default_factory=VirtualClock)
    living: dict[str, ArchiveLock] = field(default_factory=dict)
    renewed_at: dict[str, float] = field(default_factory=dict)

    def clock_of(self, ahead_seconds: float = 0) -> LockClock:
        """The clock of a machine. Nobody else's has its moments."""

        def now() -> float:
            return self.clock.time() + ahead_seconds

        return LockClock(now, self._sleep, now)

    def _sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for run_id, lock in self.living.items():
            if self.clock.time() - self.renewed_at[run_id] >= RENEWAL_SECONDS:
                self.renewed_at[run_id] = self.clock.time()
                with suppress(ArchiveError):
                    lock.renew()

    def hold(self, holder: LockHolder) -> AbstractContextManager[ArchiveLock]:
        return archive_lock(self.archive, holder, clock=self.clock_of())

    def take(self, holder: LockHolder, ahead_seconds: float = 0) -> ArchiveLock:
        """Take the lock, as a process does that is killed before it renews or releases it."""
        return ArchiveLock(self.archive, holder, clock=self.clock_of(ahead_seconds))

    def live(self, run_id: str, lock: ArchiveLock) -> None:
        self.living[run_id] = lock
        self.renewed_at[run_id] = self.clock.time()


@pytest.fixture
def locks(tmp_path: Path) -> Locks:
    return Locks(FaultyArchive(str(tmp_path)))


def run(run_id: str, claims: str) -> LockHolder:
    match claims:
        case "analyze":
            return LockHolder(run_id, LockUse.ANALYZE, "an analysis", "me@here")
        case "erase":
            return LockHolder(run_id, LockUse.ERASE, "an erase", "me@here")
    return LockHolder(run_id, LockUse.SEND, f"plan {claims}", "me@here")


@dataclass
class Story:
    """Steps of runs and of time with the locks of an archive: ``r-1 takes p-1; +60; r-1 renews``.

    A run takes the lock for a plan, for ``analyze`` or for ``erase``; ``ahead N`` is by a clock
    that is N s ahead. While a run waits, the others renew their locks until they end or die. The
    steps behind ``while``, joined by ``and``, happen just before the next file is created or
    written. ``task of`` asks the observer that ``is observed`` has made.
    """

    locks: Locks
    held: dict[str, ArchiveLock] = field(default_factory=dict)
    observers: dict[str, LockObserver] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    waited: float = 0

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
            self.waited = 0
            try:
                result = self._do(step.split())
            except (ArchiveError, BusyError) as error:
                result = f"{type(error).__name__}: {error}"
            if self.waited:
                step = f"{step} (after {self.waited:g} s)"  # noqa: PLW2901
            text = (result or "").replace(self.locks.archive.root, "ARCHIVE")
            self.lines.append(f"{step}: {text}" if text else step)

    def _do(self, words: list[str]) -> str | None:  # noqa: C901, PLR0912 - one for each kind of step
        archive = self.locks.archive
        match words:
            case [seconds] if seconds.startswith("+"):
                self.locks.clock.advance(float(seconds))
            case [run_id, "takes", claims, *ahead]:
                began_at = self.locks.clock.time()
                try:
                    lock = self.locks.take(run(run_id, claims), float(ahead[1]) if ahead else 0)
                finally:
                    self.waited = self.locks.clock.time() - began_at
                self.held[run_id] = lock
                self.locks.live(run_id, lock)
                return lock.view.path
            case [run_id, "dies"]:
                del self.locks.living[run_id]
            case [run_id, "renews"]:
                self.held[run_id].renew()
            case [run_id, "retakes"]:
                self.held[run_id].take_again()
                return self.held[run_id].view.path
            case [run_id, "releases"]:
                self.locks.living.pop(run_id, None)
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
    "a second run of the same plan is refused": "r-1 takes p-1; r-2 takes p-1; r-1 renews; "
    "r-1 trouble; r-2 takes p-1; r-1 releases; r-2 takes p-1",
    "a killed run counts as dead after the whole life of its lock": "r-1 takes p-1; r-1 dies; "
    "r-3 takes p-1; r-3 releases; r-2 takes p-2; r-2 releases; r-4 takes p-4",
    "a run that was killed long ago is watched all the same": "r-1 takes p-1; r-1 dies; +3600; "
    "r-2 takes p-2",
    "clocks that are days apart": "r-1 takes p-1 ahead 259200; r-2 takes p-2 ahead -86400; "
    "r-1 dies; r-2 takes p-2 ahead -86400; r-3 takes p-3 ahead 259200",
    "of two that wait for a dead run one goes on": "r-1 takes p-1; r-1 dies; "
    "r-2 takes p-2 while r-3 takes p-3",
    "a run that renews its lock stays alive": "r-1 takes p-1; +119; r-1 renews; r-1 trouble; +119; "
    "r-1 renews; r-1 trouble; r-2 takes p-2",
    "a plan that comes between look and creation wins": "r-2 takes p-2 while r-1 takes p-1",
    "a sharer that comes before another plan is in nobody's way": "r-1 takes p-1; r-1 dies; "
    "r-2 takes p-2 while a-1 takes analyze",
    "a sharer that comes first is in nobody's way": "a-2 takes analyze while a-1 takes analyze",
    "of two runs of one plan that start together the first wins": "r-2 takes p-1 while "
    "r-1 takes p-1",
    "a run that ended meanwhile is in nobody's way": "r-2 takes p-2 while r-1 takes p-1 and "
    "r-1 releases",
    "analyze and erase wait for each other": "x-1 takes analyze; x-2 takes erase; "
    "x-1 releases; x-2 takes erase; x-1 takes analyze",
    "erase and p-1 wait for each other": "x-1 takes erase; x-2 takes p-1; "
    "x-1 releases; x-2 takes p-1; x-1 takes erase",
    "erase and erase wait for each other": "x-1 takes erase; x-2 takes erase; "
    "x-1 releases; x-2 takes erase; x-1 takes erase",
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
    "a run whose renewals nobody sees loses the lock": "r-1 takes p-1; r-1 is observed; "
    "task of r-1; cannot_write r-1; r-2 takes p-2; r-1 trouble; task of r-1; r-1 releases; "
    "r-3 takes p-1; r-2 trouble",
    "a lock that cannot be released": "r-1 takes p-1; cannot_write r-1; r-1 releases; "
    "r-2 takes p-2",
    "reads that fail show no renewal": "r-1 takes p-1; r-1 is observed; cannot_read r-1; +59; "
    "r-1 renews; task of r-1; +1; task of r-1; readable; task of r-1",
    "a frozen task finds that another plan took the lock": "r-1 takes p-1; r-1 is observed; "
    "task of r-1; r-1 dies; a-1 takes analyze; r-2 takes p-2; task of r-1; r-2 releases; "
    "task of r-1",
    "a frozen task goes on if its run still holds the lock": "r-1 takes p-1; r-1 is observed; "
    "task of r-1; +60; r-1 renews; +60; r-1 renews; +60; r-1 renews; task of r-1",
    "a task stops when its run has ended": "r-1 takes p-1; r-1 is observed; task of r-1; "
    "r-1 releases; task of r-1",
    "a broken newer lock shows no renewal": "r-1 takes p-1; r-1 is observed; "
    "break locks/000002.json; +60; r-1 renews; r-1 trouble; task of r-1",
    "a lock that was created while the folder was listed": "r-1 takes p-1; unlisted r-1; "
    "a-1 takes analyze; r-2 takes p-2",
    "a run that has released its lock does not renew it": "r-1 takes p-1; r-1 releases; "
    "r-1 renews; r-2 takes p-2; r-1 releases",
    "a run that gave its lock back takes it again under a new number": "r-1 takes p-1; "
    "r-1 releases; r-1 retakes; r-1 trouble; r-2 takes p-2; r-1 releases; r-2 takes p-2; "
    "r-1 retakes; r-2 releases; r-1 retakes",
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

    with archive_lock(locks.archive, run("r-1", "p-1"), lock_seconds=5) as lock:
        locks.archive.before_write.append(renew_slowly)
        assert renews.wait(30)

    assert json.loads(locks.archive.read(lock.view.path) or b"")["ended"]


def test_lock_that_was_released_is_not_renewed(locks: Locks) -> None:
    """Observers, and whoever waits, would take it for alive."""
    lock = locks.take(run("r-1", "p-1"))
    lock.release()
    lock.renew()

    assert json.loads(locks.archive.read(lock.view.path) or b"")["ended"]


@dataclass
class Together(Locks):
    """Many take the lock at once; each lock is renewed whenever somebody waits."""

    def _sleep(self, seconds: float) -> None:
        del seconds
        for lock in list(self.living.values()):
            lock.renew()

    def try_to_take(self, holder: LockHolder) -> ArchiveLock | None:
        with suppress(BusyError):
            lock = self.take(holder)
            self.live(holder.run_id, lock)
            return lock
        return None


def test_of_many_plans_that_start_together_exactly_one_goes_on(tmp_path: Path) -> None:
    holders = [run(f"r-{number}", f"p-{number}") for number in range(24)]
    with ThreadPoolExecutor(8) as executor:
        for attempt in range(10):
            locks = Together(FaultyArchive(str(tmp_path / str(attempt))))
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


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"run_id": "x"}', b'{"lock_seconds": 3}'])
def test_file_that_somebody_changed_is_named(locks: Locks, content: bytes) -> None:
    path = "locks/000003.json"
    locks.archive.write(path, content)

    with pytest.raises(ArchiveError, match=rf"{path} cannot be read .* if no run is going on, rem"):
        locks.take(run("r-2", "p-2"))


def test_files_say_who_does_what_and_unreleased_ones_alone_are_read(locks: Locks) -> None:
    with locks.hold(run("r-1", "p-1")) as lock:
        content = json.loads(locks.archive.read(lock.view.path) or b"")

    assert content == {
        "holder": {"run_id": "r-1", "use": "send", "purpose": "plan p-1", "who": "me@here"},
        "since": "2023-11-14T22:13:20.000+00:00",
        "lock_seconds": 120.0,
        "renewals": 0,
        "ended": None,
    }
    assert locks.archive.list("") == ["locks/000001.end.json", "locks/000001.json"]
    locks.archive.cannot_read.add("locks/000001.json")
    locks.take(run("r-2", "p-2"))


HELD = _Lock(run("r-1", "p-1"), "2023-11-14T22:13:20.000+00:00", 120.0, renewals=7)


@pytest.mark.parametrize(
    ("latest", "unchanged_seconds", "life"),
    [
        (HELD, 0, Life.UNKNOWN),
        (HELD, 119.999, Life.UNKNOWN),
        (HELD, 120, Life.DEAD),
        (HELD, 1e9, Life.DEAD),
        (replace(HELD, renewals=8), 0, Life.ALIVE),
        # Renewed once, and maybe dead since: who waits begins again.
        (replace(HELD, renewals=8), 1e9, Life.ALIVE),
        (replace(HELD, ended="2023-11-14T22:13:21.000+00:00"), 0, Life.ENDED),
        (replace(HELD, renewals=9, ended="2023-11-14T22:13:21.000+00:00"), 1e9, Life.ENDED),
        (None, 0, Life.ENDED),
    ],
)
def test_life_of_a_holder_follows_from_two_looks(
    latest: _Lock | None, unchanged_seconds: float, life: Life
) -> None:
    assert life_of(HELD, latest, unchanged_seconds) is life


def test_life_that_counts_is_that_of_the_lock_which_is_watched(locks: Locks) -> None:
    ArchiveLock(locks.archive, run("r-1", "p-1"), 30, locks.clock_of())
    began_at = locks.clock.time()

    locks.take(run("r-2", "p-2"))

    assert 30 <= locks.clock.time() - began_at < 31


def test_run_that_waits_for_the_lock_says_for_whom_and_how_long(locks: Locks) -> None:
    locks.take(run("r-1", "p-1"))
    lines = []

    @contextmanager
    def progress(label: str, status: Callable[[], str]) -> Iterator[None]:
        lines.append(f"{label}: {status()}")
        yield
        lines.append(f"{label}: {status()}")

    ArchiveLock(locks.archive, run("r-2", "p-2"), clock=locks.clock_of(), progress=progress)

    first, last = lines
    assert first == (
        "waiting: plan p-1 by me@here (run r-1) holds the archive lock, and counts as dead if it "
        "does not renew it for 120 s more"
    )
    assert last == "waiting: "
    lines.clear()
    ArchiveLock(locks.archive, run("a-1", "analyze"), clock=locks.clock_of(), progress=progress)
    assert lines == []


@pytest.mark.parametrize("taker", ["p-1", "p-2", "erase"])
def test_whoever_takes_the_lock_closes_all_runs_that_have_not_ended(
    locks: Locks, taker: str
) -> None:
    """Of every plan, and before anything else: then no run sends what it claims later."""
    archive = locks.archive
    for plan_id, run_id in (("p-1", "r-1"), ("p-2", "r-2"), ("p-2", "r-3")):
        begin(archive, plan_id, run_id)
    assert write_result_files(archive, ("p-2", "r-3")) == ()
    with locks.hold(run("a-1", "analyze")):
        assert set(list_runs(archive).values()) == {RunState.OPEN, RunState.CLOSED}

    with locks.hold(run("r-4", taker)):
        assert list_runs(archive) == {
            ("p-1", "r-1"): RunState.CLOSING,
            ("p-2", "r-2"): RunState.CLOSING,
            ("p-2", "r-3"): RunState.CLOSED,
        }


def test_run_that_takes_the_lock_again_closes_the_others_and_not_itself(locks: Locks) -> None:
    with locks.hold(run("r-1", "p-1")) as lock:
        begin(locks.archive, "p-1", "r-1")
        lock.release()
        begin(locks.archive, "p-2", "r-2")
        lock.take_again()

        assert list_runs(locks.archive) == {
            ("p-1", "r-1"): RunState.OPEN,
            ("p-2", "r-2"): RunState.CLOSING,
        }
    with locks.hold(run("r-3", "p-1")):
        assert set(list_runs(locks.archive).values()) == {RunState.CLOSING}


def test_run_that_cannot_close_the_others_releases_the_lock(locks: Locks) -> None:
    def fail() -> None:
        raise ArchiveError("no room")

    begin(locks.archive, "p-1", "r-1")
    locks.archive.before_create.extend([fail, lambda: None])

    with pytest.raises(ArchiveError, match="no room"), locks.hold(run("r-2", "p-1")):
        raise AssertionError("it must not begin")

    with locks.hold(run("r-3", "p-1")):
        pass


def test_run_that_lost_the_lock_before_it_wrote_its_record_finds_that_out(locks: Locks) -> None:
    """Whoever took the lock may have listed the runs before. Tasks might look too late."""
    first = locks.take(run("r-1", "p-1"))
    locks.take(run("a-1", "analyze"))
    require_newest(locks.archive, first.view)
    locks.take(run("r-2", "p-2"))

    with pytest.raises(ArchiveError, match="another run has taken the lock"):
        require_newest(locks.archive, first.view)
    locks.archive.cannot_read.add("locks/000002.json")
    with pytest.raises(ArchiveError, match="no answer"):
        require_newest(locks.archive, first.view)


MARKER = stop_marker("p-1", "r-1", "s-1")
INTERRUPTED = Stop(StopCause.INTERRUPTED)
DISK_IS_FULL = Stop(StopCause.ARCHIVE, "the disk is full")


def test_marker_stops_a_task_before_its_next_claim_and_between_calls_within_a_second(
    archive: Archive,
) -> None:
    clock = VirtualClock()
    claiming, calling = (StopSignals(archive, MARKER, None, clock.time) for _ in range(2))
    for run, stage in (("r-2", "s-1"), ("r-1", "s-2")):
        archive.create(stop_marker("p-1", run, stage), b"of others")
    assert claiming.look()
    assert calling.look()
    archive.create(MARKER, record_bytes(INTERRUPTED))

    assert not claiming.look()
    clock.advance(LOOK_SECONDS)
    assert not calling.may_go_on()
    assert not StopSignals(archive, MARKER, None).may_go_on()

    claiming.stop(DISK_IS_FULL)
    assert claiming.stopped_by == calling.stopped_by == INTERRUPTED


def test_task_can_stop_all_others(archive: Archive) -> None:
    first = StopSignals(archive, MARKER, None)
    second = StopSignals(archive, MARKER, None)
    is_gone = Stop(StopCause.QUEUE, "the queue is gone")

    first.stop(is_gone)

    assert not second.look()
    assert first.stopped_by == second.stopped_by == is_gone


def test_task_stops_itself_where_the_marker_cannot_be_written() -> None:
    signals = StopSignals(LocalArchive("/proc/no such folder"), MARKER, None)

    signals.stop(DISK_IS_FULL)

    assert signals.stopped_by == DISK_IS_FULL
    assert not signals.may_go_on()


@pytest.mark.parametrize("content", [b"", b"\xff", b"please stop", b'{"cause": "of tomorrow"}'])
def test_damaged_or_foreign_marker_stops_too(archive: Archive, content: bytes) -> None:
    archive.write(MARKER, content)
    signals = StopSignals(archive, MARKER, None)

    assert not signals.look()
    assert signals.stopped_by
    assert signals.stopped_by.cause is StopCause.UNKNOWN


def test_dead_or_frozen_driver_stops_its_tasks_within_half_the_life_of_its_lock(
    locks: Locks,
) -> None:
    with locks.hold(run("r-1", "p-1")) as lock:
        signals = StopSignals(locks.archive, MARKER, lock.view, locks.clock.time)
        for _ in range(10):
            locks.clock.advance(LOCK_SECONDS / 3)
            lock.renew()
            assert signals.may_go_on()
        assert signals.stopped_by is None

        locks.clock.advance(LOCK_SECONDS / 2 + 1)

        assert not signals.may_go_on()
        assert signals.stopped_by
        assert signals.stopped_by.cause is StopCause.LOCK_LOST
        assert "has not renewed" in signals.stopped_by.detail


def test_stop_ends_a_wait(archive: Archive) -> None:
    signals = StopSignals(archive, MARKER, None)
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(signals.wait, 3600.0)
        signals.stop(INTERRUPTED)
        waiting.result(60)


def test_a_limit_is_a_rate() -> None:
    assert (Limit(90).least_rate(None), Limit(90).least_rate(1)) == (1.5, 1)
    assert (Limit().least_rate(None), Limit().least_rate(7)) == (None, 7)
