"""The 5 minutes of a deduplication id. SQSAPI, SendMessage, MessageDeduplicationId."""

import pytest

from local_sqs.clock import VirtualClock
from local_sqs.driver import Driver, redrive_policy, string


@pytest.mark.parametrize(("seconds", "delivered"), [(299, []), (301, ["again"])])
def test_id_outlives_the_deleted_message(
    sqs: Driver, clock: VirtualClock, seconds: int, delivered: list[str]
) -> None:
    queue = sqs.fifo()
    queue.send_fifo("first", deduplication="d")
    assert queue.take() == ["first"]
    clock.advance(seconds)
    queue.send_fifo("again", deduplication="d")

    assert queue.take() == delivered


def test_duplicate_is_answered_like_the_first(sqs: Driver) -> None:
    queue = sqs.fifo()
    first = queue.send_fifo("first", deduplication="d")
    second = queue.send_fifo("second", deduplication="d")

    assert second["MessageId"] == first["MessageId"]
    assert second["SequenceNumber"] == first["SequenceNumber"]
    assert queue.bodies() == ["first"]


def test_duplicate_does_not_prolong_the_window(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.fifo()
    queue.send_fifo("first", deduplication="d")
    clock.advance(200)
    queue.send_fifo("second", deduplication="d")
    clock.advance(100)
    queue.send_fifo("third", deduplication="d")

    assert queue.bodies() == ["first", "third"]


def test_duplicates_within_a_batch_are_both_successful(sqs: Driver) -> None:
    queue = sqs.fifo()
    entry = {"MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    sent, failed = queue.send_batch(entry, entry)

    assert (list(sent), failed) == (["0", "1"], {})
    assert queue.bodies() == ["x"]


def test_scope_is_the_queue_by_default(sqs: Driver) -> None:
    queue = sqs.fifo()
    queue.send_fifo("1", "a", "d")
    queue.send_fifo("2", "b", "d")

    assert queue.bodies() == ["1"]


def test_scope_may_be_the_group(sqs: Driver) -> None:
    queue = sqs.fifo(DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    queue.send_fifo("1", "a", "d")
    queue.send_fifo("2", "b", "d")
    queue.send_fifo("3", "b", "d")

    assert queue.bodies() == ["1", "2"]


def test_content_is_hashed_without_attributes(sqs: Driver) -> None:
    queue = sqs.fifo(ContentBasedDeduplication="true")
    queue.send("same", MessageGroupId="g")
    queue.send("same", MessageGroupId="g", MessageAttributes={"a": string("v")})
    queue.send("same", MessageGroupId="g", MessageDeduplicationId="own")

    assert queue.bodies() == ["same", "same"]


def test_move_replaces_the_id_by_the_message_id(sqs: Driver) -> None:
    dlq = sqs.fifo()
    main = sqs.fifo(RedrivePolicy=redrive_policy(dlq, 1), VisibilityTimeout=0)
    sent = main.send_fifo("x", deduplication="producer's")
    main.receive()
    main.receive()
    letter = dlq.receive_one()

    assert letter["MessageId"] == sent["MessageId"]
    assert letter["Attributes"]["MessageDeduplicationId"] == sent["MessageId"]
