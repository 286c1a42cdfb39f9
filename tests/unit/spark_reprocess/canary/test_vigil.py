import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.canary.vigil import Redelivery, Vigil
from spark_reprocess.queue_counts import QueueCounts

POLICY = '{"maxReceiveCount":%s,"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:1:dlq"}'


def vigil() -> Vigil:
    """Sent at 1,000; waits 100 s; the main queue hides messages for 30 s."""
    return Vigil(1000.0, 100.0, Redelivery(30, 3, "arn"))


def started(looks: list[tuple[float, int, int]]) -> float | None:
    one = vigil()
    for now, visible, in_flight in looks:
        one.see(now, QueueCounts(visible, in_flight, 0))
    return one.started_at


@pytest.mark.parametrize(
    ("looks", "start"),
    [
        ([], None),
        ([(1000, 0, 0)], None),
        ([(1000, 0, 0), (1005, 0, 0)], 1005),
        ([(1000, 0, 0), (1005, 3, 0), (1010, 0, 0)], None),
        ([(1000, 5, 0), (1005, 0, 0), (1010, 0, 0), (1015, 9, 9)], 1010),
        # In flight at the time of sending: they may come back and stand before ours.
        ([(1000, 0, 7), (1005, 0, 7)], None),
        ([(1000, 0, 7), (1005, 0, 0), (1010, 0, 0)], 1010),
        # With steady traffic something is always in flight; after a visibility timeout that is
        # none of what was in flight when the canaries were sent.
        ([(1025, 0, 7), (1030, 0, 7), (1035, 0, 8)], 1035),
        ([(1030, 1, 0), (1035, 1, 0), (1099, 1, 0)], None),
    ],
)
def test_clock_starts_when_the_backlog_is_gone(
    looks: list[tuple[float, int, int]], start: float | None
) -> None:
    assert started(looks) == start


def test_wait_counts_from_the_start_of_the_clock() -> None:
    one = vigil()
    for now in (1050.0, 1055.0):
        one.see(now, QueueCounts(0, 0, 9))

    assert one.seconds_left(1060) == 95
    assert not one.is_over(1154.9)
    assert one.is_over(1155)
    assert not one.has_given_up(5000)


def test_backlog_that_never_goes_is_given_up() -> None:
    one = vigil()
    one.see(1050, QueueCounts(3, 0, 0))

    assert not one.has_given_up(1099.9)
    assert one.has_given_up(1100)
    assert not one.is_over(5000)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=60))
def test_verdict_never_comes_before_the_whole_wait(depths: list[tuple[int, int]]) -> None:
    one = vigil()
    for index, depth in enumerate(depths):
        now = 1000.0 + 5 * index
        one.see(now, QueueCounts(*depth, 0))
        empty = [i for i, (visible, _) in enumerate(depths[: index + 1]) if visible == 0]
        if one.is_over(now):
            assert now - (1000.0 + 5 * empty[1]) >= 100
        assert not (one.is_over(now) and one.has_given_up(now))


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


def test_failures_behind_one_another_add_up() -> None:
    assert Redelivery(30, 3, "arn").least_wait_seconds(3) == 330


@pytest.mark.parametrize("attributes", [{}, {"RedrivePolicy": ""}, {"RedrivePolicy": "{}"}])
def test_queue_without_a_redrive_policy_has_no_dlq(attributes: dict[str, str]) -> None:
    assert Redelivery.of(attributes).dead_letter_arn == ""


def test_clock_does_not_start_while_the_queue_itself_delays() -> None:
    one = Vigil(1000.0, 100.0, Redelivery.of({"DelaySeconds": "60", "RedrivePolicy": POLICY % 3}))
    for now in (1005, 1010, 1059):
        one.see(now, QueueCounts(0, 0, 9))

    assert one.started_at is None
    for now in (1060, 1065):
        one.see(now, QueueCounts(0, 0, 9))
    assert one.started_at == 1065
