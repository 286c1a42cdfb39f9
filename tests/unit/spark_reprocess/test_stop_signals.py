"""What a task sees of its run in the archive: the stop marker and the plan lock."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from local_sqs.clock import VirtualClock
from spark_reprocess.archive.plan_lock import LockHolder, PlanLock, plan_lock
from spark_reprocess.archive.storage.files import Archive, open_archive
from spark_reprocess.archive.storage.local import LocalArchive
from spark_reprocess.aws.clients import Limit
from spark_reprocess.redrive.sending.stop_signals import (
    LOOK_SECONDS,
    StopSignals,
    stop_marker,
)

MARKER = stop_marker("p-1", "r-1", "s-1")
LIFE = 60.0


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def lock(archive: Archive, clock: VirtualClock) -> Iterator[PlanLock]:
    """Renewed by the tests alone: its thread's next turn comes when they are long over."""
    holder = LockHolder("r-1", "p-1", "plan p-1", "me")
    with plan_lock(archive, holder, LIFE, clock.time) as held:
        yield held


def test_task_goes_on_while_all_is_well(
    archive: Archive, lock: PlanLock, clock: VirtualClock
) -> None:
    signals = StopSignals(archive, MARKER, lock.view, clock.time)

    for _ in range(10):
        clock.advance(LIFE / 3)
        lock.renew()
        assert signals.may_go_on()
    assert signals.stopped_by == ""


def test_marker_stops_a_task_before_its_next_claim_and_between_calls_within_a_second(
    archive: Archive, clock: VirtualClock
) -> None:
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
    archive: Archive, lock: PlanLock, clock: VirtualClock
) -> None:
    signals = StopSignals(archive, MARKER, lock.view, clock.time)
    assert signals.may_go_on()

    clock.advance(LIFE / 2 + 1)

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
