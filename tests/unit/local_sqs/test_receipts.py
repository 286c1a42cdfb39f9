"""What a receipt handle of a standard queue may do. SQSAPI, DeleteMessage."""

import pytest

from local_sqs.clock import VirtualClock
from local_sqs.driver import Driver, redrive_policy, refusal, refusal_code


def test_latest_handle_deletes_after_its_timeout(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(VisibilityTimeout=1)
    queue.send()
    message = queue.receive_one()
    clock.advance(60)
    queue.delete(message)

    assert queue.counts() == (0, 0, 0)


def test_older_handle_succeeds_and_deletes_nothing(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(VisibilityTimeout=1)
    queue.send()
    old = queue.receive_one()
    clock.advance(1)
    latest = queue.receive_one()
    queue.delete(old)
    assert queue.counts() == (0, 1, 0)

    queue.delete(latest)
    assert queue.counts() == (0, 0, 0)


def test_released_message_can_be_deleted(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send()
    message = queue.receive_one()
    queue.change(message, 0)
    queue.delete(message)

    assert queue.receive() == []


def test_handle_expires_after_twelve_hours(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.queue(VisibilityTimeout=1)
    queue.send()
    message = queue.receive_one()
    clock.advance(12 * 3600)
    assert queue.counts() == (1, 0, 0)

    clock.advance(1)
    code, text = refusal(queue.delete, message)
    assert code == "InvalidParameterValue"
    assert text.endswith("The receipt handle has expired.")


def test_handle_of_a_moved_message_does_nothing(sqs: Driver) -> None:
    dlq = sqs.queue()
    main = sqs.queue(RedrivePolicy=redrive_policy(dlq, 1), VisibilityTimeout=0)
    main.send()
    message = main.receive_one()
    main.receive()
    main.delete(message)

    assert refusal_code(main.change, message, 5) == "InvalidParameterValue"
    assert len(dlq.receive()) == 1


@pytest.mark.parametrize("handle", ["garbage", "", "AQEB", "AQEBMXx4"])
def test_invented_handle_is_refused(sqs: Driver, handle: str) -> None:
    queue = sqs.queue()

    assert refusal_code(queue.delete, {"ReceiptHandle": handle}) == "ReceiptHandleIsInvalid"


def test_handle_of_another_queue_is_refused(sqs: Driver) -> None:
    queue, other = sqs.queue(), sqs.queue()
    queue.send()
    message = queue.receive_one()

    assert refusal_code(other.delete, message) == "ReceiptHandleIsInvalid"
    assert queue.counts() == (0, 1, 0)
