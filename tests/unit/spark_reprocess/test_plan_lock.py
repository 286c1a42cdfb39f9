import json
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spark_reprocess.archive.local import LocalArchive
from spark_reprocess.archive.plan_lock import (
    ANALYZE,
    LOCK_SECONDS,
    LockHolder,
    LockObserver,
    PlanLock,
    erase_holder,
    plan_lock,
)
from spark_reprocess.errors import ArchiveError, BusyError
from tests.builders import NOW

ANALYSIS = LockHolder("a-1", ANALYZE, "an analysis", "me@here")
ERASE = erase_holder("e-1", "me@here")


class Clock:
    def __init__(self, now: float = NOW) -> None:
        self.now = float(now)

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class FaultyArchive(LocalArchive):
    """Refuses to write or read, or lets others act just before it creates or writes a file."""

    cannot_write: set[str] = field(default_factory=set)
    cannot_read: set[str] = field(default_factory=set)
    unlisted: set[str] = field(default_factory=set)
    before_create: list[Callable[[], object]] = field(default_factory=list)
    before_write: list[Callable[[], object]] = field(default_factory=list)

    def create(self, path: str, content: bytes) -> bool:
        if self.before_create:
            self.before_create.pop()()
        return super().create(path, content)

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
    clock: Clock = field(default_factory=Clock)

    def hold(self, holder: LockHolder) -> AbstractContextManager[PlanLock]:
        return plan_lock(self.archive, holder, now_seconds=self.clock)

    def take(self, holder: LockHolder) -> PlanLock:
        """Take the lock, as a process does that is killed before it renews or releases it."""
        return PlanLock(self.archive, holder, LOCK_SECONDS, self.clock)

    def try_to_take(self, holder: LockHolder) -> PlanLock | None:
        with suppress(BusyError):
            return self.take(holder)
        return None

    def is_free(self, holder: LockHolder) -> bool:
        if lock := self.try_to_take(holder):
            lock.release()
        return lock is not None

    def observer(self, lock: PlanLock) -> LockObserver:
        return LockObserver(self.archive, lock.view, self.clock)


@pytest.fixture
def locks(tmp_path: Path) -> Locks:
    return Locks(FaultyArchive(str(tmp_path)))


def run(run_id: str, claims: str) -> LockHolder:
    return LockHolder(run_id, claims, f"plan {claims}", "me@here")


def test_another_plan_is_refused_with_who_and_what_and_times_and_writes_nothing(
    locks: Locks,
) -> None:
    locks.take(run("r-1", "p-1"))
    before = locks.archive.list("")

    with pytest.raises(BusyError) as refusal:
        locks.take(run("r-2", "p-2"))

    assert locks.archive.list("") == before
    assert str(refusal.value) == (
        "plan p-1 is being carried out by me@here since 2023-11-14T22:13:20.000+00:00 (run r-1); "
        "it acts on the same messages, so this run has to wait for its end. If it was killed, it "
        "counts as dead from 2023-11-14T22:15:20.000+00:00 on"
    )


def test_runs_of_one_plan_share_the_lock_until_the_last_has_ended(locks: Locks) -> None:
    first, second = locks.take(run("r-1", "p-1")), locks.take(run("r-2", "p-1"))
    for lock in (first, second):
        lock.renew()
        assert lock.trouble() == ""
        assert locks.observer(lock).trouble() == ""
    for lock in (second, first):
        assert not locks.is_free(run("r-3", "p-2"))
        lock.release()
    assert locks.is_free(run("r-3", "p-2"))


def test_lock_is_released_when_the_run_fails(locks: Locks) -> None:
    with pytest.raises(ZeroDivisionError), locks.hold(run("r-1", "p-1")):
        raise ZeroDivisionError

    assert locks.is_free(run("r-2", "p-2"))


def test_killed_run_counts_as_alive_until_its_life_is_over(locks: Locks) -> None:
    locks.take(run("r-1", "p-1"))

    locks.clock.now += LOCK_SECONDS - 0.001
    assert not locks.is_free(run("r-2", "p-2"))
    assert locks.is_free(run("r-3", "p-1"))
    locks.clock.now += 0.001
    assert locks.is_free(run("r-2", "p-2"))


def test_run_that_renews_its_lock_stays_alive(locks: Locks) -> None:
    lock = locks.take(run("r-1", "p-1"))
    for _ in range(5):
        locks.clock.now += LOCK_SECONDS - 1
        lock.renew()
        assert lock.trouble() == ""
        assert not locks.is_free(run("r-2", "p-2"))


def test_thread_renews_the_lock_and_no_renewal_is_written_after_the_release(locks: Locks) -> None:
    renews = threading.Event()

    def renew_slowly() -> None:
        renews.set()
        time.sleep(0.2)

    with plan_lock(locks.archive, run("r-1", "p-1"), lock_seconds=5) as lock:
        locks.archive.before_write.append(renew_slowly)
        assert renews.wait(30)

    assert "ended" in json.loads(locks.archive.read(lock.view.path) or b"")


def test_of_many_plans_that_start_together_exactly_one_goes_on(tmp_path: Path) -> None:
    holders = [run(f"r-{number}", f"p-{number}") for number in range(24)]
    with ThreadPoolExecutor(8) as executor:
        for attempt in range(10):
            locks = Locks(FaultyArchive(str(tmp_path / str(attempt))))
            assert len([*filter(None, executor.map(locks.try_to_take, holders))]) == 1


def test_of_many_runs_of_one_plan_that_start_together_all_go_on(locks: Locks) -> None:
    holders = [run(f"r-{number}", "p-1") for number in range(24)]
    with ThreadPoolExecutor(8) as executor:
        assert all(executor.map(locks.try_to_take, holders))


def test_plan_that_comes_between_look_and_creation_wins(locks: Locks) -> None:
    locks.archive.before_create.append(lambda: locks.take(run("r-1", "p-1")))

    with pytest.raises(BusyError, match="plan p-1"):
        locks.take(run("r-2", "p-2"))


def test_another_plan_that_comes_before_a_sharer_wins(locks: Locks) -> None:
    """The first run of the plan ends after the sharer has seen it."""
    first = locks.take(run("r-1", "p-1"))

    def end_and_take() -> None:
        first.release()
        locks.take(run("r-2", "p-2"))

    locks.archive.before_create.append(end_and_take)

    with pytest.raises(BusyError, match="plan p-2"):
        locks.take(run("r-3", "p-1"))


def test_sharer_that_comes_before_another_plan_wins(locks: Locks) -> None:
    """The first run of the plan is over, and a second one starts beside another plan."""
    locks.take(run("r-1", "p-1"))
    locks.clock.now += LOCK_SECONDS
    locks.archive.before_create.append(lambda: locks.take(run("r-3", "p-1")))

    with pytest.raises(BusyError, match=r"plan p-1 .* \(run r-3\)"):
        locks.take(run("r-2", "p-2"))


@pytest.mark.parametrize("plan_id", ["p-1", "p-2"])
def test_sharer_and_run_that_ended_between_look_and_creation_are_in_nobodys_way(
    locks: Locks, plan_id: str
) -> None:
    def come() -> None:
        lock = locks.take(run("r-1", "p-1"))
        if plan_id == "p-2":
            lock.release()

    locks.archive.before_create.append(come)

    assert locks.take(run("r-2", plan_id)).view.path == "locks/000002.json"


PLAN = run("r-1", "p-1")


@pytest.mark.parametrize(
    ("holder", "other"),
    [
        (ANALYSIS, ERASE),
        (ERASE, ANALYSIS),
        (ERASE, PLAN),
        (ERASE, erase_holder("e-2", "me")),
        (PLAN, ERASE),
    ],
)
def test_erases_wait_for_all_others_and_these_for_them(
    locks: Locks, holder: LockHolder, other: LockHolder
) -> None:
    with (
        locks.hold(holder),
        pytest.raises(BusyError, match=f"{holder.what} is being carried out by me@here"),
    ):
        locks.take(other)
    assert locks.is_free(other)


def test_analyses_share_the_lock_with_each_other_and_with_plans(locks: Locks) -> None:
    other = LockHolder("a-2", ANALYZE, "an analysis", "you@there")
    with ExitStack() as held:
        shared = [
            held.enter_context(locks.hold(one)) for one in (ANALYSIS, run("r-1", "p-1"), other)
        ]
        for lock in shared:
            lock.renew()
            assert lock.trouble() == ""
            assert locks.observer(lock).trouble() == ""
        assert not locks.is_free(run("r-2", "p-2"))
        assert not locks.is_free(ERASE)


def test_run_that_cannot_renew_its_lock_stops_at_half_its_life(locks: Locks) -> None:
    lock = locks.take(run("r-1", "p-1"))
    locks.archive.cannot_write.add(lock.view.path)

    locks.clock.now += LOCK_SECONDS / 2 - 1
    with pytest.raises(ArchiveError):
        lock.renew()
    assert lock.trouble() == ""
    locks.clock.now += 1
    assert lock.trouble() == (
        "locks/000001.json was not renewed for 60 s (the archive cannot be written, or this "
        "machine slept), so another run may have begun"
    )


def test_machine_that_slept_within_the_life_of_its_lock_goes_on(locks: Locks) -> None:
    lock = locks.take(run("r-1", "p-1"))
    locks.clock.now += LOCK_SECONDS * 0.9

    assert lock.trouble() != ""
    lock.renew()
    assert lock.trouble() == ""


def test_machine_that_slept_past_the_life_of_its_lock_does_not_get_it_back(locks: Locks) -> None:
    """Another plan may have begun since, and may act on the same messages."""
    lock = locks.take(run("r-1", "p-1"))
    locks.clock.now += 3600

    lock.renew()

    assert "was not renewed for 3600 s" in lock.trouble()
    assert locks.is_free(run("r-2", "p-2"))


def test_renewal_whose_write_ends_after_the_life_of_the_lock_does_not_count(locks: Locks) -> None:
    lock = locks.take(run("r-1", "p-1"))
    locks.clock.now += LOCK_SECONDS - 1

    def write_slowly() -> None:
        locks.clock.now += 30
        locks.take(run("r-2", "p-2"))

    locks.archive.before_write.append(write_slowly)
    lock.renew()

    assert "was not renewed for 149 s" in lock.trouble()


def test_run_whose_lock_was_taken_learns_of_it_and_takes_nothing_back(locks: Locks) -> None:
    """The other machine's clock is wrong by more than the life of a lock."""
    lock = locks.take(run("r-1", "p-1"))
    observer = locks.observer(lock)
    assert observer.trouble() == ""
    other = Locks(locks.archive, Clock(NOW + 600)).take(run("r-2", "p-2"))

    lock.renew()

    reason = (
        "another run has taken the lock (locks/000002.json: plan p-2 by me@here), because this "
        "run seemed dead"
    )
    assert (lock.trouble(), observer.trouble()) == (reason, reason)
    lock.release()
    assert not locks.is_free(run("r-1", "p-1"))
    assert other.trouble() == locks.observer(other).trouble() == ""


def test_lock_that_cannot_be_released_ends_with_its_life(locks: Locks) -> None:
    with locks.hold(run("r-1", "p-1")) as lock:
        locks.archive.cannot_write.add(lock.view.path)

    assert not locks.is_free(run("r-2", "p-2"))
    locks.clock.now += LOCK_SECONDS
    assert locks.is_free(run("r-2", "p-2"))


def test_view_travels_to_tasks(locks: Locks) -> None:
    view = locks.take(run("r-1", "p-1")).view

    assert pickle.loads(pickle.dumps(view)) == view  # noqa: S301 - our own bytes
    assert view.path == "locks/000001.json"


def test_observer_counts_renewals_on_its_own_clock(locks: Locks) -> None:
    lock = locks.take(run("r-1", "p-1"))
    task_clock = Clock(NOW - 86_400)
    observer = LockObserver(locks.archive, lock.view, task_clock)
    for _ in range(5):
        locks.clock.now += 50
        task_clock.now += 50
        lock.renew()
        assert observer.trouble() == ""

    task_clock.now += 59
    assert observer.trouble() == ""
    task_clock.now += 1
    assert observer.trouble() == "the driver has not renewed locks/000001.json for 60 s"
    lock.renew()
    locks.clock.now += 1
    lock.renew()
    assert observer.trouble() == ""


def test_reads_that_fail_show_no_renewal(locks: Locks) -> None:
    lock = locks.take(run("r-1", "p-1"))
    observer = locks.observer(lock)
    locks.archive.cannot_read.add(lock.view.path)

    locks.clock.now += LOCK_SECONDS / 2 - 1
    lock.renew()
    assert observer.trouble() == ""
    locks.clock.now += 1
    assert observer.trouble() == "the driver has not renewed locks/000001.json for 60 s"
    locks.archive.cannot_read.clear()
    assert observer.trouble() == ""


@pytest.mark.parametrize("has_ended", [False, True])
def test_task_that_was_frozen_finds_that_another_plan_took_the_lock(
    locks: Locks, *, has_ended: bool
) -> None:
    observer = locks.observer(locks.take(run("r-1", "p-1")))
    assert observer.trouble() == ""
    locks.clock.now += LOCK_SECONDS
    locks.take(ANALYSIS)
    other = locks.take(run("r-2", "p-2"))
    if has_ended:
        other.release()

    assert "plan p-2 by me@here" in observer.trouble()


def test_task_that_was_frozen_goes_on_if_its_run_still_holds_the_lock(locks: Locks) -> None:
    lock = locks.take(run("r-1", "p-1"))
    observer = locks.observer(lock)
    assert observer.trouble() == ""

    for _ in range(60):
        locks.clock.now += 60
        lock.renew()

    assert observer.trouble() == ""


def test_task_stops_when_its_run_has_ended(locks: Locks) -> None:
    with locks.hold(run("r-1", "p-1")) as lock:
        observer = locks.observer(lock)
        assert observer.trouble() == ""

    assert observer.trouble() == "locks/000001.json says that the run has ended"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"run_id": "x"}', b'{"alive_until": 3}'])
def test_file_that_somebody_changed_is_named(locks: Locks, content: bytes) -> None:
    path = "locks/000003.json"
    locks.archive.write(path, content)

    with pytest.raises(ArchiveError, match=rf"{path} cannot be read .* if no run is going on, rem"):
        locks.take(run("r-2", "p-2"))


def test_broken_newer_lock_shows_no_renewal(locks: Locks) -> None:
    lock = locks.take(run("r-1", "p-1"))
    observer = locks.observer(lock)
    locks.archive.write("locks/000002.json", b"{")
    locks.clock.now += LOCK_SECONDS / 2

    with pytest.raises(ArchiveError, match=r"locks/000002\.json cannot be read"):
        lock.renew()
    assert "was not renewed for 60 s" in lock.trouble()
    assert observer.trouble() == "the driver has not renewed locks/000001.json for 60 s"


def test_lock_that_was_created_while_the_folder_was_listed_counts(locks: Locks) -> None:
    locks.archive.unlisted.add(locks.take(run("r-1", "p-1")).view.path)
    locks.take(ANALYSIS)

    assert not locks.is_free(run("r-2", "p-2"))


def test_removed_files_give_no_number_twice(locks: Locks) -> None:
    locks.take(run("r-1", "p-1")).release()
    locks.archive.remove("locks/000001.json")

    lock = locks.take(run("r-2", "p-2"))

    assert lock.view.path == "locks/000002.json"
    assert not locks.is_free(run("r-3", "p-3"))


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
    assert locks.is_free(run("r-2", "p-2"))
