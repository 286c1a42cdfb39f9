"""Visibility timeouts on the virtual clock. SQSDeveloperGuide, "Amazon SQS visibility timeout"."""

import pytest

from local_sqs.clock import VirtualClock
from local_sqs.driver import Driver, refusal, refusal_code
from local_sqs.front import Front

HOUR = 3600


def test_received_message_is_hidden_until_its_timeout(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(VisibilityTimeout=30)
    queue.send()
    first = queue.receive_one()
    clock.advance(29.999)
    assert queue.receive() == []

    clock.advance(0.001)
    second = queue.receive_one()
    assert second["MessageId"] == first["MessageId"]
    assert second["ReceiptHandle"] != first["ReceiptHandle"]
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"


def test_receive_may_ask_for_twelve_hours(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue()
    queue.send()
    queue.receive(VisibilityTimeout=12 * HOUR)
    clock.advance(12 * HOUR - 1)
    assert queue.receive() == []

    clock.advance(1)
    assert len(queue.receive()) == 1


def test_extensions_end_twelve_hours_after_receive(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue()
    queue.send()
    clock.advance(HOUR)
    message = queue.receive_one(VisibilityTimeout=2 * HOUR)
    clock.advance(HOUR)
    queue.change(message, 11 * HOUR)
    code, text = refusal(queue.change, message, 11 * HOUR + 1)

    assert code == "InvalidParameterValue"
    assert "Total VisibilityTimeout for the message is beyond the limit" in text


def test_refused_extension_leaves_the_timeout_alone(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(VisibilityTimeout=60)
    queue.send()
    message = queue.receive_one()
    clock.advance(1)
    assert refusal_code(queue.change, message, 12 * HOUR) == "InvalidParameterValue"

    clock.advance(59)
    assert len(queue.receive()) == 1


def test_each_receive_starts_twelve_new_hours(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue()
    queue.send()
    for _ in range(3):
        message = queue.receive_one()
        queue.change(message, 12 * HOUR)
        clock.advance(12 * HOUR)


def test_change_counts_from_the_call(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(VisibilityTimeout=60)
    queue.send()
    message = queue.receive_one()
    clock.advance(15)
    queue.change(message, 10)
    clock.advance(9)
    assert queue.receive() == []

    clock.advance(1)
    assert len(queue.receive()) == 1


def test_changed_timeout_is_not_remembered(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(VisibilityTimeout=5)
    queue.send()
    queue.change(queue.receive_one(), 100)
    clock.advance(100)
    queue.receive_one()
    clock.advance(5)

    assert len(queue.receive()) == 1


def test_timeout_of_zero_releases_at_once(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send()
    message = queue.receive_one()
    queue.change(message, 0)

    assert queue.counts() == (1, 0, 0)
    assert refusal_code(queue.change, message, 5) == "MessageNotInflight"


def test_standard_change_after_timeout_does_nothing(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(VisibilityTimeout=1)
    queue.send()
    message = queue.receive_one()
    clock.advance(2)
    queue.change(message, 60)

    assert len(queue.receive()) == 1


def test_older_handle_may_not_change_visibility(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(VisibilityTimeout=1)
    queue.send()
    old = queue.receive_one()
    clock.advance(1)
    queue.receive_one()

    assert refusal_code(queue.change, old, 5) == "InvalidParameterValue"


@pytest.mark.parametrize("seconds", [-1, 43_201])
def test_timeout_out_of_range_is_refused(sqs: Driver, seconds: int) -> None:
    queue = sqs.queue()
    queue.send()
    message = queue.receive_one()

    assert refusal_code(queue.change, message, seconds) == "InvalidParameterValue"
    assert refusal_code(queue.receive, VisibilityTimeout=seconds) == "InvalidParameterValue"


def test_in_flight_quota_refuses_only_short_polls(sqs: Driver, front: Front) -> None:
    queue = sqs.queue()
    queue.send_batch(*({"MessageBody": str(n)} for n in range(4)))
    front.model.queues[queue.name].in_flight_quota = 3
    assert len(queue.receive()) == 3

    assert refusal_code(queue.receive) == "OverLimit"
    assert queue.receive(wait=1) == []


def test_long_poll_wakes_when_a_timeout_ends(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(VisibilityTimeout=7)
    queue.send()
    queue.receive_one()
    started = clock.time()
    queue.receive_one(wait=20)

    assert clock.time() - started == 7


def test_empty_long_poll_takes_its_time(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(ReceiveMessageWaitTimeSeconds=20)
    started = clock.time()

    assert queue.client.receive_message(QueueUrl=queue.url).get("Messages") is None
    assert clock.time() - started == 20
