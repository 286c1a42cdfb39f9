import json
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spark_reprocess.archive.files import Archive, open_archive
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


@pytest.fixture
def archive(tmp_path: Path) -> FaultyArchive:
    return FaultyArchive(str(tmp_path))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def run(run_id: str, claims: str) -> LockHolder:
    return LockHolder(run_id, claims, f"plan {claims}", "me@here")


def take(archive: Archive, holder: LockHolder, clock: Clock) -> PlanLock:
    """Take the lock, as a process does that is killed before it renews or releases it."""
    return PlanLock(archive, holder, LOCK_SECONDS, clock)


def is_free(archive: Archive, holder: LockHolder, clock: Clock) -> bool:
    try:
        take(archive, holder, clock).release()
    except BusyError:
        return False
    return True


def test_another_plan_is_refused_with_who_and_what_and_times(
    archive: Archive, clock: Clock
) -> None:
    with (
        plan_lock(archive, run("r-1", "p-1"), now_seconds=clock),
        pytest.raises(BusyError) as refusal,
    ):
        take(archive, run("r-2", "p-2"), clock)

    assert str(refusal.value) == (
        "plan p-1 is being carried out by me@here since 2023-11-14T22:13:20.000+00:00 (run r-1); "
        "it acts on the same messages, so this run has to wait for its end. If it was killed, it "
        "counts as dead from 2023-11-14T22:15:20.000+00:00 on"
    )


def test_runs_of_one_plan_share_the_lock(archive: Archive, clock: Clock) -> None:
    with (
        plan_lock(archive, run("r-1", "p-1"), now_seconds=clock) as first,
        plan_lock(archive, run("r-2", "p-1"), now_seconds=clock) as second,
    ):
        for lock in (first, second):
            lock.renew()
            assert lock.trouble() == ""
            assert LockObserver(archive, lock.view, clock).trouble() == ""
        assert not is_free(archive, run("r-3", "p-2"), clock)

    assert is_free(archive, run("r-3", "p-2"), clock)


def test_lock_is_free_again_only_when_the_last_run_of_the_plan_has_ended(
    archive: Archive, clock: Clock
) -> None:
    first = take(archive, run("r-1", "p-1"), clock)
    second = take(archive, run("r-2", "p-1"), clock)

    second.release()
    assert not is_free(archive, run("r-3", "p-2"), clock)
    first.release()
    assert is_free(archive, run("r-3", "p-2"), clock)


def test_refused_run_writes_nothing(archive: Archive, clock: Clock) -> None:
    take(archive, run("r-1", "p-1"), clock)
    before = archive.list("")

    assert not is_free(archive, run("r-2", "p-2"), clock)
    assert archive.list("") == before


def test_lock_is_released_when_the_run_fails(archive: Archive, clock: Clock) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        plan_lock(archive, run("r-1", "p-1"), now_seconds=clock),
    ):
        raise ZeroDivisionError

    assert is_free(archive, run("r-2", "p-2"), clock)


def test_killed_run_counts_as_alive_until_its_life_is_over(archive: Archive, clock: Clock) -> None:
    take(archive, run("r-1", "p-1"), clock)

    clock.now += LOCK_SECONDS - 0.001
    assert not is_free(archive, run("r-2", "p-2"), clock)
    assert is_free(archive, run("r-3", "p-1"), clock)
    clock.now += 0.001
    assert is_free(archive, run("r-2", "p-2"), clock)


def test_run_that_renews_its_lock_stays_alive(archive: Archive, clock: Clock) -> None:
    lock = take(archive, run("r-1", "p-1"), clock)
    for _ in range(5):
        clock.now += LOCK_SECONDS - 1
        lock.renew()
        assert lock.trouble() == ""
        assert not is_free(archive, run("r-2", "p-2"), clock)


def test_thread_renews_the_lock(archive: Archive) -> None:
    with plan_lock(archive, run("r-1", "p-1"), lock_seconds=5) as lock:
        first = archive.read(lock.view.path)
        until(lambda: archive.read(lock.view.path) != first)


def until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def test_of_many_plans_that_start_together_exactly_one_goes_on(
    tmp_path: Path, clock: Clock
) -> None:
    with ThreadPoolExecutor(8) as executor:
        for attempt in range(10):
            archive = open_archive(str(tmp_path / str(attempt)))
            holders = [run(f"r-{number}", f"p-{number}") for number in range(24)]
            won = executor.map(lambda one, a=archive: is_taken_by(a, one, clock), holders)
            assert sum(won) == 1


def test_of_many_runs_of_one_plan_that_start_together_all_go_on(
    archive: Archive, clock: Clock
) -> None:
    holders = [run(f"r-{number}", "p-1") for number in range(24)]
    with ThreadPoolExecutor(8) as executor:
        assert all(executor.map(lambda one: is_taken_by(archive, one, clock), holders))


def is_taken_by(archive: Archive, holder: LockHolder, clock: Clock) -> bool:
    try:
        take(archive, holder, clock)
    except BusyError:
        return False
    return True


def test_plan_that_comes_between_look_and_creation_wins(
    archive: FaultyArchive, clock: Clock
) -> None:
    archive.before_create.append(lambda: take(archive, run("r-1", "p-1"), clock))

    with pytest.raises(BusyError, match="plan p-1"):
        take(archive, run("r-2", "p-2"), clock)


def test_sharer_that_comes_between_look_and_creation_does_not_lose(
    archive: FaultyArchive, clock: Clock
) -> None:
    archive.before_create.append(lambda: take(archive, run("r-1", "p-1"), clock))

    assert take(archive, run("r-2", "p-1"), clock).view.path == "locks/000002.json"


def test_another_plan_that_comes_before_a_sharer_wins(archive: FaultyArchive, clock: Clock) -> None:
    """The first run of the plan ends after the sharer has seen it."""
    first = take(archive, run("r-1", "p-1"), clock)

    def end_and_take() -> None:
        first.release()
        take(archive, run("r-2", "p-2"), clock)

    archive.before_create.append(end_and_take)

    with pytest.raises(BusyError, match="plan p-2"):
        take(archive, run("r-3", "p-1"), clock)


def test_sharer_that_comes_before_another_plan_wins(archive: FaultyArchive, clock: Clock) -> None:
    """The first run of the plan is over, and a second one starts beside another plan."""
    take(archive, run("r-1", "p-1"), clock)
    clock.now += LOCK_SECONDS
    archive.before_create.append(lambda: take(archive, run("r-3", "p-1"), clock))

    with pytest.raises(BusyError, match=r"plan p-1 .* \(run r-3\)"):
        take(archive, run("r-2", "p-2"), clock)


def test_run_that_ended_between_look_and_creation_is_in_nobodys_way(
    archive: FaultyArchive, clock: Clock
) -> None:
    archive.before_create.append(lambda: take(archive, run("r-1", "p-1"), clock).release())

    assert take(archive, run("r-2", "p-2"), clock).view.path == "locks/000002.json"


def test_analysis_and_erase_wait_for_each_other(archive: Archive, clock: Clock) -> None:
    with plan_lock(archive, ANALYSIS, now_seconds=clock):
        assert not is_free(archive, ERASE, clock)
    with (
        plan_lock(archive, ERASE, now_seconds=clock),
        pytest.raises(BusyError, match="an erase is being carried out by me@here"),
    ):
        take(archive, ANALYSIS, clock)
    assert is_free(archive, ANALYSIS, clock)


def test_analyses_share_the_lock_with_each_other_and_with_plans(
    archive: Archive, clock: Clock
) -> None:
    other = LockHolder("a-2", ANALYZE, "an analysis", "you@there")
    with ExitStack() as held:
        locks = [
            held.enter_context(plan_lock(archive, one, now_seconds=clock))
            for one in (ANALYSIS, run("r-1", "p-1"), other)
        ]
        for lock in locks:
            lock.renew()
            assert lock.trouble() == ""
            assert LockObserver(archive, lock.view, clock).trouble() == ""
        assert not is_free(archive, run("r-2", "p-2"), clock)
        assert not is_free(archive, ERASE, clock)


def test_erases_and_plans_wait_for_each_other(archive: Archive, clock: Clock) -> None:
    with plan_lock(archive, ERASE, now_seconds=clock):
        assert not is_free(archive, run("r-1", "p-1"), clock)
        assert not is_free(archive, erase_holder("e-2", "me"), clock)
    with plan_lock(archive, run("r-1", "p-1"), now_seconds=clock):
        assert not is_free(archive, ERASE, clock)


def test_run_that_cannot_renew_its_lock_stops_at_half_its_life(
    archive: FaultyArchive, clock: Clock
) -> None:
    lock = take(archive, run("r-1", "p-1"), clock)
    archive.cannot_write.add(lock.view.path)

    clock.now += LOCK_SECONDS / 2 - 1
    with pytest.raises(ArchiveError):
        lock.renew()
    assert lock.trouble() == ""
    clock.now += 1
    assert lock.trouble() == (
        "locks/000001.json was not renewed for 60 s (the archive cannot be written, or this "
        "machine slept), so another run may have begun"
    )


def test_machine_that_slept_within_the_life_of_its_lock_goes_on(
    archive: Archive, clock: Clock
) -> None:
    lock = take(archive, run("r-1", "p-1"), clock)
    clock.now += LOCK_SECONDS * 0.9

    assert lock.trouble() != ""
    lock.renew()
    assert lock.trouble() == ""


def test_machine_that_slept_past_the_life_of_its_lock_does_not_get_it_back(
    archive: Archive, clock: Clock
) -> None:
    """Another plan may have begun since, and may act on the same messages."""
    lock = take(archive, run("r-1", "p-1"), clock)
    clock.now += 3600

    lock.renew()

    assert "was not renewed for 3600 s" in lock.trouble()
    assert is_free(archive, run("r-2", "p-2"), clock)


def test_renewal_whose_write_ends_after_the_life_of_the_lock_does_not_count(
    archive: FaultyArchive, clock: Clock
) -> None:
    lock = take(archive, run("r-1", "p-1"), clock)
    clock.now += LOCK_SECONDS - 1

    def write_slowly() -> None:
        clock.now += 30
        take(archive, run("r-2", "p-2"), clock)

    archive.before_write.append(write_slowly)
    lock.renew()

    assert "was not renewed for 149 s" in lock.trouble()


def test_run_whose_lock_was_taken_learns_of_it_and_takes_nothing_back(
    archive: Archive, clock: Clock
) -> None:
    """The other machine's clock is wrong by more than the life of a lock."""
    lock = take(archive, run("r-1", "p-1"), clock)
    observer = LockObserver(archive, lock.view, clock)
    assert observer.trouble() == ""
    other = take(archive, run("r-2", "p-2"), Clock(NOW + 600))

    lock.renew()

    reason = (
        "another run has taken the lock (locks/000002.json: plan p-2 by me@here), because this "
        "run seemed dead"
    )
    assert (lock.trouble(), observer.trouble()) == (reason, reason)
    lock.release()
    assert not is_free(archive, run("r-1", "p-1"), clock)
    assert other.trouble() == LockObserver(archive, other.view, clock).trouble() == ""


def test_lock_that_cannot_be_released_ends_with_its_life(
    archive: FaultyArchive, clock: Clock
) -> None:
    with plan_lock(archive, run("r-1", "p-1"), now_seconds=clock) as lock:
        archive.cannot_write.add(lock.view.path)

    assert not is_free(archive, run("r-2", "p-2"), clock)
    clock.now += LOCK_SECONDS
    assert is_free(archive, run("r-2", "p-2"), clock)


def test_view_travels_to_tasks(archive: Archive, clock: Clock) -> None:
    view = take(archive, run("r-1", "p-1"), clock).view

    assert pickle.loads(pickle.dumps(view)) == view  # noqa: S301 - our own bytes
    assert view.path == "locks/000001.json"


def test_observer_counts_renewals_on_its_own_clock(archive: Archive, clock: Clock) -> None:
    lock = take(archive, run("r-1", "p-1"), clock)
    task_clock = Clock(NOW - 86_400)
    observer = LockObserver(archive, lock.view, task_clock)
    for _ in range(5):
        clock.now += 50
        task_clock.now += 50
        lock.renew()
        assert observer.trouble() == ""

    task_clock.now += 59
    assert observer.trouble() == ""
    task_clock.now += 1
    assert observer.trouble() == "the driver has not renewed locks/000001.json for 60 s"
    lock.renew()
    clock.now += 1
    lock.renew()
    assert observer.trouble() == ""


def test_reads_that_fail_show_no_renewal(archive: FaultyArchive, clock: Clock) -> None:
    lock = take(archive, run("r-1", "p-1"), clock)
    observer = LockObserver(archive, lock.view, clock)
    archive.cannot_read.add(lock.view.path)

    clock.now += LOCK_SECONDS / 2 - 1
    lock.renew()
    assert observer.trouble() == ""
    clock.now += 1
    assert observer.trouble() == "the driver has not renewed locks/000001.json for 60 s"
    archive.cannot_read.clear()
    assert observer.trouble() == ""


def test_task_that_was_frozen_finds_that_another_plan_has_the_lock(
    archive: Archive, clock: Clock
) -> None:
    lock = take(archive, run("r-1", "p-1"), clock)
    observer = LockObserver(archive, lock.view, clock)
    assert observer.trouble() == ""

    clock.now += 3600
    take(archive, run("r-2", "p-2"), clock)

    assert "plan p-2 by me@here" in observer.trouble()


def test_task_that_was_frozen_finds_it_even_when_the_other_plan_has_ended(
    archive: Archive, clock: Clock
) -> None:
    lock = take(archive, run("r-1", "p-1"), clock)
    observer = LockObserver(archive, lock.view, clock)
    clock.now += LOCK_SECONDS
    take(archive, ANALYSIS, clock)
    take(archive, run("r-2", "p-2"), clock).release()

    assert "plan p-2 by me@here" in observer.trouble()


def test_task_that_was_frozen_goes_on_if_its_run_still_holds_the_lock(
    archive: Archive, clock: Clock
) -> None:
    lock = take(archive, run("r-1", "p-1"), clock)
    observer = LockObserver(archive, lock.view, clock)
    assert observer.trouble() == ""

    for _ in range(60):
        clock.now += 60
        lock.renew()

    assert observer.trouble() == ""


def test_task_stops_when_its_run_has_ended(archive: Archive, clock: Clock) -> None:
    with plan_lock(archive, run("r-1", "p-1"), now_seconds=clock) as lock:
        observer = LockObserver(archive, lock.view, clock)
        assert observer.trouble() == ""

    assert observer.trouble() == "locks/000001.json says that the run has ended"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"run_id": "x"}', b'{"alive_until": 3}'])
def test_file_that_somebody_changed_is_named(
    archive: Archive, clock: Clock, content: bytes
) -> None:
    path = "locks/000003.json"
    archive.write(path, content)

    with pytest.raises(ArchiveError, match=rf"{path} cannot be read .* if no run is going on, rem"):
        take(archive, run("r-2", "p-2"), clock)


def test_broken_newer_lock_shows_no_renewal(archive: Archive, clock: Clock) -> None:
    lock = take(archive, run("r-1", "p-1"), clock)
    observer = LockObserver(archive, lock.view, clock)
    archive.write("locks/000002.json", b"{")
    clock.now += LOCK_SECONDS / 2

    with pytest.raises(ArchiveError, match=r"locks/000002\.json cannot be read"):
        lock.renew()
    assert "was not renewed for 60 s" in lock.trouble()
    assert observer.trouble() == "the driver has not renewed locks/000001.json for 60 s"


def test_lock_that_was_created_while_the_folder_was_listed_counts(
    archive: FaultyArchive, clock: Clock
) -> None:
    archive.unlisted.add(take(archive, run("r-1", "p-1"), clock).view.path)
    take(archive, ANALYSIS, clock)

    assert not is_free(archive, run("r-2", "p-2"), clock)


def test_removed_files_give_no_number_twice(archive: Archive, clock: Clock) -> None:
    take(archive, run("r-1", "p-1"), clock).release()
    archive.remove("locks/000001.json")

    lock = take(archive, run("r-2", "p-2"), clock)

    assert lock.view.path == "locks/000002.json"
    assert not is_free(archive, run("r-3", "p-3"), clock)


def test_files_say_who_does_what_and_unreleased_ones_alone_are_read(
    archive: FaultyArchive, clock: Clock
) -> None:
    with plan_lock(archive, run("r-1", "p-1"), now_seconds=clock) as lock:
        content = json.loads(archive.read(lock.view.path) or b"")

    assert content == {
        "run_id": "r-1",
        "claims": "p-1",
        "what": "plan p-1",
        "who": "me@here",
        "since": "2023-11-14T22:13:20.000+00:00",
        "alive_until": "2023-11-14T22:15:20.000+00:00",
    }
    assert archive.list("") == ["locks/000001.end.json", "locks/000001.json"]
    archive.cannot_read.add("locks/000001.json")
    assert is_free(archive, run("r-2", "p-2"), clock)
