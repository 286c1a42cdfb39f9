import math

import pytest

from dlq_cli.simulate.bill import EVENT_SECONDS, MESSAGE_SECONDS, Bill, bill_of
from dlq_cli.simulate.flow import simulate
from dlq_cli.simulate.prices import format_dollars
from dlq_cli.simulate.scenario import Scenario, policy_of


def bill(count: int, message_bytes: int = 100) -> Bill:
    """Of messages that arrive together, fail twice, and come through with their first replay."""
    one = Scenario(
        outage_seconds=20,
        arrivals_per_second=0,
        burst_count=count,
        policy=policy_of(1, 0.001, 0),
        visibility_timeout_seconds=10,
        max_receive_count=2,
        message_bytes=message_bytes,
    )
    return bill_of(simulate(one))


def test_one_message_has_every_request_to_itself() -> None:
    assert bill(1).replay_requests == pytest.approx(3)
    assert bill(1).consumer_requests == pytest.approx(2 + 1 + 1)
    assert bill(1).invocations == pytest.approx(1)


def test_messages_of_one_second_share_requests_and_invocations() -> None:
    assert bill(100).replay_requests == pytest.approx(30)
    assert bill(100).consumer_requests == pytest.approx(40)
    assert bill(100).invocations == pytest.approx(1)
    assert bill(250).invocations == pytest.approx(3)


def test_a_request_is_billed_for_every_64_kib() -> None:
    small, large = bill(100, message_bytes=6553), bill(100, message_bytes=65_536)

    assert small.billed_requests == pytest.approx(70)
    # A delete carries nothing: two by ten of the seven times ten requests.
    assert large.billed_requests == pytest.approx(10 * 50 + 20)


def test_dollars_follow_requests_and_time() -> None:
    one = bill(100)
    seconds = EVENT_SECONDS + 100 * MESSAGE_SECONDS

    assert one.function_seconds == pytest.approx(seconds)
    assert one.peak_concurrency == pytest.approx(seconds)
    assert one.sqs_dollars == pytest.approx(70 * 0.40e-6)
    assert one.lambda_dollars == pytest.approx(0.20e-6 + seconds * 0.25 * 0.0000133334)


def test_the_bill_grows_with_the_messages_and_no_faster() -> None:
    assert math.isclose(bill(10_000).billed_requests, 100 * bill(100).billed_requests)


def test_dollars_are_formatted_to_the_cent() -> None:
    assert ["$1,234.50", "$0.01", "<$0.01"] == [format_dollars(n) for n in (1234.5, 0.01, 0.0099)]
