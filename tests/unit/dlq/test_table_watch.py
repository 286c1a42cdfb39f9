"""A driver that sends while the failure table does not answer."""

import math
from collections.abc import Iterator

import pytest

from dlq.archive.ledger.stop import Stop, StopCause
from dlq.aws.clients import Limit
from dlq.redrive.sending.stop_signals import Clock, Deadline, TableWatch, fallen
from dlq.redrive.sending.waiting import wait_for_limit
from local_sqs.clock import VirtualClock

DENIED = Limit(fault="AccessDeniedException")
PAUSED = Limit(1, "limited to 1 replay a minute")
WAITS = Stop(StopCause.BREAKER, "limited to 1 replay a minute")


def lost_for(time: str) -> Stop:
    why = f"it could not be read for {time}: AccessDeniedException"
    return Stop(StopCause.FAILURE_TABLE, why)


LOST = lost_for("1 min")
EVERY_SECONDS = 10


@pytest.mark.parametrize(
    ("began", "now", "stop"),
    [
        (Limit(), Limit(), None),
        (Limit(90), Limit(90), None),
        (Limit(90), Limit(120), None),
        (Limit(90), Limit(), None),
        (Limit(90), PAUSED, WAITS),
        (Limit(), PAUSED, WAITS),
        # What is not known has not fallen; that it is not known is another question.
        (Limit(90), DENIED, None),
    ],
)
def test_a_send_stops_where_the_limit_falls(began: Limit, now: Limit, stop: Stop | None) -> None:
    assert fallen(began, now) == stop


def watch_of(
    clock: VirtualClock, answers: Iterator[Limit], patience_seconds: float | None = 60
) -> TableWatch:
    return TableWatch(lambda: next(answers), clock.time, patience_seconds)


@pytest.mark.parametrize(
    ("answers", "patience_seconds", "stops"),
    [
        # Six looks of 10 s are a minute.
        ([DENIED] * 7, 60, [None] * 5 + [LOST, lost_for("1 min 10 s")]),
        ([*[DENIED] * 5, Limit(), *[DENIED] * 5], 60, [None] * 11),
        ([DENIED] * 99, None, [None] * 99),
        # A limit that falls counts in any case.
        ([DENIED, PAUSED], None, [None, WAITS]),
    ],
)
def test_a_table_that_nobody_can_read_for_a_minute_stops_a_send_that_needs_it(
    answers: list[Limit], patience_seconds: float | None, stops: list[Stop | None]
) -> None:
    clock = VirtualClock()
    watch = watch_of(clock, iter(answers), patience_seconds)
    seen = []
    for _ in answers:
        clock.advance(EVERY_SECONDS)
        seen.append(watch.trouble(Limit()))

    assert seen == stops


@pytest.mark.parametrize(
    ("answers", "patience_seconds", "limit", "stop"),
    [
        ([Limit()], 60, Limit(), None),
        ([PAUSED], 60, PAUSED, WAITS),
        ([Limit(90, "90")], 60, Limit(90, "90"), None),
        ([*[DENIED] * 3, Limit(90)], 60, Limit(90), None),
        ([DENIED] * 9, 60, DENIED, LOST),
        ([DENIED], None, DENIED, None),
    ],
)
def test_nothing_is_sent_before_the_limit_is_known(
    answers: list[Limit], patience_seconds: float | None, limit: Limit, stop: Stop | None
) -> None:
    clock = VirtualClock()
    watch = watch_of(clock, iter(answers), patience_seconds)
    deadline = Deadline(math.inf, Clock(clock.time, lambda _, seconds: clock.advance(seconds)))

    assert wait_for_limit(watch, EVERY_SECONDS, deadline) == (limit, stop)


def test_wait_for_a_limit_ends_with_the_time_of_the_run() -> None:
    clock = VirtualClock()
    deadline = Deadline(clock.time() + 15, Clock(clock.time, lambda _, s: clock.advance(s)))
    watch = watch_of(clock, iter([DENIED] * 9))

    assert wait_for_limit(watch, EVERY_SECONDS, deadline) == (DENIED, Stop(StopCause.TIME_OVER))
