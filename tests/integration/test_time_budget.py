"""The time budget of ``redrive`` and ``run``, on a clock that moves with the work itself."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dlq.archive.ledger.stop import Stop, StopCause, recorded_stop
from dlq.archive.lock import LockHolder, LockUse, archive_lock
from dlq.archive.storage.files import open_archive
from dlq.cli.verb import NOT_ALL_SENT
from dlq.cli.verbs.redrive import exit_code_of
from dlq.engine import Engine
from dlq.redrive.sending.stop_signals import Clock
from dlq.scheduled_run import RunSummary, run
from tests.integration.desk import SEND, Desk, MakeDesk, ScheduledRuns
from tests.integration.spark_world import parked, receive_all
from tests.support.ledgers import attempts_of

if TYPE_CHECKING:
    from tests.integration.conftest import MakeQueue

BUDGET_SECONDS = 3600.0


def clock(is_over: Callable[[], object]) -> Callable[[], float]:
    """A clock that stands still until then, and is past the budget from then on."""
    return lambda: 2 * BUDGET_SECONDS if is_over() else 0.0


def is_free(desk: Desk) -> bool:
    """Return whether another plan could be carried out at once."""
    with archive_lock(desk.archive, LockHolder("another", LockUse.SEND, "another plan", "me")):
        return True


@pytest.mark.both_engines
@pytest.mark.parametrize("name", ["main", "main.fifo"])
def test_budget_that_ends_in_the_middle_leaves_nothing_unconfirmed(
    make_desk: MakeDesk, name: str
) -> None:
    messages = [parked(2 * n, MessageGroupId=f"g-{n % 7}") for n in range(600)]
    desk = make_desk(messages, name)

    now_seconds = clock(lambda: desk.world.front.log.count(SEND) >= 20)
    summary = desk.redrive(
        max_rate=50.0, time_budget_seconds=BUDGET_SECONDS, now_seconds=now_seconds
    )
    before = desk.arrived()

    assert 0 < summary.count("sent") == len(before) < 600
    assert summary.count("sent") + summary.count("not_reached", "waits") == 600
    stop = Stop(StopCause.TIME_OVER)
    assert (summary.stopped_by, exit_code_of(summary)) == (stop, NOT_ALL_SENT)
    assert recorded_stop(desk.archive, summary.plan_id, summary.run_id) == stop
    assert all(attempt.results for attempt in attempts_of(desk.archive))
    assert is_free(desk)

    again = desk.redrive()
    assert again.count("sent") + again.count("sent_before") == 600
    assert recorded_stop(desk.archive, again.plan_id, again.run_id) is None
    assert before + desk.arrived() == Counter({message.message_id: 1 for message in messages})


@pytest.fixture
def start(
    engine: Engine, make_queue: "MakeQueue", tmp_path: Path, quick_drains: None
) -> Callable[..., tuple[RunSummary, int]]:
    """Start ``run`` over twelve parked messages; return its summary and how many arrived."""
    runs = ScheduledRuns(engine, make_queue, tmp_path)
    for numbers in (range(10), range(10, 12)):
        runs.park(*(parked(2 * n) for n in numbers))
    options = runs.options(time_budget_seconds=BUDGET_SECONDS)

    def start(folder: str) -> tuple[RunSummary, int]:
        """The time is over when the archive has something in this folder."""
        archive = open_archive(runs.archive, creates=True)
        summary = run(engine, archive, options, clock=Clock(clock(lambda: archive.list(folder))))
        return summary, len(receive_all(runs.main))

    return start


@pytest.mark.parametrize("step", ["messages", "reports"])
def test_run_whose_budget_ends_before_the_redrive_leaves_it_to_the_next(
    start: Callable[..., tuple[RunSummary, int]], step: str
) -> None:
    summary, arrived = start(step)

    assert (summary.drained[0].archived, arrived, summary.pending.messages) == (12, 0, 12)
    assert summary.findings is not None
    assert (summary.redriven, summary.postponed) == (None, "its time budget is over")

    _, arrived = start("nothing")
    assert arrived == 12


def test_run_whose_budget_ends_in_the_redrive_says_what_was_not_reached(
    start: Callable[..., tuple[RunSummary, int]],
) -> None:
    summary, arrived = start("ledger/runs")

    assert arrived == 0
    assert summary.redriven is not None
    assert (summary.redriven.count("not_reached"), summary.redriven.stopped_by) == (
        12,
        Stop(StopCause.TIME_OVER),
    )
    assert summary.pending.messages == 12
