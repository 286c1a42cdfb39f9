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


@given(st.lists(st.sampled_from([CLEAR, BACKLOG, NO_ANSWER]), max_size=80))
def test_verdict_comes_only_after_a_whole_wait_without_a_lasting_backlog(
    readings: list[Reading],
) -> None:
    # Sent at 1,000; readings count from 1,060 on; waits 100 s.
    one = ObservationWindow(1000.0, 60.0, 100.0)
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
