from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.canary.options import Redelivery
from spark_reprocess.canary.watch import ObservationWindow
from spark_reprocess.clients import QueueCounts

POLICY = '{"maxReceiveCount":%s,"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:1:dlq"}'

CLEAR = 0, 99
BACKLOG = 3, 0
NO_ANSWER = None
Reading = tuple[int, int] | None


def window(*readings: tuple[float, Reading]) -> ObservationWindow:
    """Sent at 1,000; readings count from 1,060 on; waits 100 s."""
    one = ObservationWindow(1000.0, 60.0, 100.0)
    for now, depth in readings:
        one.record(now, None if depth is None else QueueCounts(*depth, 0))
    return one


@pytest.mark.parametrize(
    ("readings", "start"),
    [
        ([], None),
        # Counts that lag by a minute may be older than the canaries.
        ([(1000, CLEAR), (1005, CLEAR), (1055, CLEAR), (1060, CLEAR)], None),
        ([(1060, CLEAR), (1065, CLEAR)], 1065),
        ([(1060, CLEAR), (1065, BACKLOG), (1070, CLEAR)], None),
        ([(1060, CLEAR), (1065, NO_ANSWER), (1070, CLEAR)], None),
        ([(1060, BACKLOG), (1065, CLEAR), (1070, CLEAR)], 1070),
        # A message that is received a moment later is no backlog.
        ([(1060, CLEAR), (1065, CLEAR), (1070, BACKLOG), (1075, CLEAR), (1080, BACKLOG)], 1065),
        # A backlog of two readings restarts the wait, and so do two without an answer.
        ([(1060, CLEAR), (1065, CLEAR), (1070, BACKLOG), (1075, BACKLOG)], None),
        ([(1060, CLEAR), (1065, CLEAR), (1070, BACKLOG), (1075, NO_ANSWER)], None),
        (
            [
                *[(1060, CLEAR), (1065, CLEAR), (1070, BACKLOG), (1075, BACKLOG)],
                *[(1080, CLEAR), (1085, CLEAR)],
            ],
            1085,
        ),
    ],
)
def test_clock_starts_when_the_backlog_is_gone(
    readings: list[tuple[float, Reading]], start: float | None
) -> None:
    assert window(*readings).started_at == start


def test_wait_counts_from_the_start_of_the_clock() -> None:
    one = window((1060, CLEAR), (1065, CLEAR))

    assert one.seconds_left(1100) == 65
    assert not one.is_over(1164.9)
    assert one.is_over(1165)
    assert not one.has_given_up(5000)


@pytest.mark.parametrize("last", [BACKLOG, NO_ANSWER])
def test_wait_does_not_end_while_messages_may_wait_to_be_received(last: Reading) -> None:
    one = window((1060, CLEAR), (1065, CLEAR), (1165, last))
    assert not one.is_over(1165)

    one.record(1170, QueueCounts(*CLEAR, 0))
    assert one.is_over(1170)


@pytest.mark.parametrize(
    ("one", "since"),
    [
        (window((1060, BACKLOG)), 1060),
        (window((1060, CLEAR), (1065, CLEAR), (1070, BACKLOG), (1075, BACKLOG)), 1075),
    ],
)
def test_backlog_that_stays_is_given_up(one: ObservationWindow, since: float) -> None:
    assert not one.has_given_up(since + 99.9)
    assert one.has_given_up(since + 100)
    assert not one.is_over(5000)


def test_backlog_that_comes_back_for_the_fourth_time_is_given_up() -> None:
    one = window()
    for number in range(4):
        assert not one.has_given_up(1060 + 20 * number)
        for step, depth in enumerate((CLEAR, CLEAR, BACKLOG, BACKLOG)):
            one.record(1060 + 20 * number + 5 * step, QueueCounts(*depth, 0))

    assert one.restarts == 4
    assert one.has_given_up(1135)


@given(st.lists(st.sampled_from([CLEAR, BACKLOG, NO_ANSWER]), max_size=80))
def test_verdict_comes_only_after_a_whole_wait_without_a_lasting_backlog(
    readings: list[Reading],
) -> None:
    one = window()
    for index, depth in enumerate(readings):
        now = 1000.0 + 5 * index
        one.record(now, None if depth is None else QueueCounts(*depth, 0))
        assert not (one.is_over(now) and one.has_given_up(now))
        if one.is_over(now):
            waited = [reading == CLEAR for reading in readings[index - 21 : index + 1]]
            assert len(waited) == 22
            assert now - 21 * 5 >= 1060
            assert waited[0]
            assert waited[1]
            assert waited[-1]
            assert all(before or after for before, after in pairwise(waited))


@pytest.mark.parametrize(
    ("attributes", "wait"),
    [
        ({"RedrivePolicy": POLICY % 3, "VisibilityTimeout": "30"}, 150),
        ({"RedrivePolicy": POLICY % '"5"', "VisibilityTimeout": "120"}, 660),
        ({"RedrivePolicy": POLICY % 3, "VisibilityTimeout": "0"}, 60),
        ({"RedrivePolicy": POLICY % 2}, 120),
    ],
)
def test_least_wait_is_every_receive_and_a_margin(attributes: dict[str, str], wait: int) -> None:
    assert Redelivery.of(attributes).least_wait_seconds() == wait


@pytest.mark.parametrize(
    ("rows", "longest", "wait"),
    [(3, 0, 330), (1, 0, 150), (1, 29, 150), (1, 31, 153), (1, 300, 960)],
)
def test_failures_add_up_and_a_consumer_that_hides_messages_for_longer_lengthens_the_wait(
    rows: int, longest: int, wait: int
) -> None:
    assert Redelivery(30, 3, "arn").least_wait_seconds(rows, longest) == wait


@pytest.mark.parametrize("attributes", [{}, {"RedrivePolicy": ""}, {"RedrivePolicy": "{}"}])
def test_queue_without_a_redrive_policy_has_no_dlq(attributes: dict[str, str]) -> None:
    assert Redelivery.of(attributes).dead_letter_arn == ""


@pytest.mark.parametrize(("attributes", "seconds"), [({}, 60), ({"DelaySeconds": "45"}, 105)])
def test_first_reading_counts_when_counts_lag_no_more_and_the_queue_delays_no_more(
    attributes: dict[str, str], seconds: int
) -> None:
    assert Redelivery.of(attributes).stale_seconds == seconds
