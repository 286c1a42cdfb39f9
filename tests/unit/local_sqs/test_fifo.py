"""Order and locks of message groups. SQSDeveloperGuide, "FIFO queue delivery logic"."""

import itertools

from local_sqs.clock import VirtualClock
from local_sqs.driver import Driver, QueueDriver, refusal, refusal_code
from local_sqs.front import Front


def fill(queue: QueueDriver, *bodies: str) -> None:
    """Send each body to the group of its first letter."""
    for body in bodies:
        queue.send_fifo(body, group=body[0])


def test_one_receive_takes_a_group_in_order(sqs: Driver) -> None:
    queue = sqs.fifo()
    fill(queue, "a0", "b0", "a1", "b1", "a2")

    assert queue.bodies(3) == ["a0", "a1", "a2"]
    assert queue.bodies() == ["b0", "b1"]


def test_message_in_flight_locks_its_group(sqs: Driver) -> None:
    queue = sqs.fifo()
    fill(queue, "a0", "a1", "b0")
    assert queue.bodies(1) == ["a0"]

    assert queue.bodies() == ["b0"]
    assert queue.bodies() == []


def test_deletion_of_the_last_in_flight_unlocks(sqs: Driver) -> None:
    queue = sqs.fifo()
    fill(queue, "a0", "a1", "a2")
    first, second = queue.receive(2)
    queue.delete(second)
    assert queue.bodies() == []

    queue.delete(first)
    assert queue.bodies() == ["a2"]


def test_order_returns_after_a_timeout(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.fifo(VisibilityTimeout=30)
    fill(queue, "a0", "a1", "a2")
    queue.receive(2)
    clock.advance(30)

    assert queue.bodies() == ["a0", "a1", "a2"]


def test_released_message_waits_for_its_group(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.fifo(VisibilityTimeout=30)
    fill(queue, "a0", "a1", "a2")
    head, rest = queue.receive(2)
    queue.change(rest, 0)
    assert queue.bodies() == []

    queue.change(head, 100)
    clock.advance(99)
    assert queue.bodies() == []
    clock.advance(1)
    assert queue.bodies() == ["a0", "a1", "a2"]


def test_groups_take_turns(sqs: Driver) -> None:
    queue = sqs.fifo(VisibilityTimeout=0)
    fill(queue, "a0", "b0", "c0")
    seen = [queue.bodies(1)[0] for _ in range(6)]

    assert seen == ["a0", "b0", "c0", "a0", "b0", "c0"]


def test_sequence_numbers_rise(sqs: Driver) -> None:
    queue = sqs.fifo()
    numbers = [int(queue.send_fifo(f"a{n}")["SequenceNumber"]) for n in range(4)]
    received = [int(m["Attributes"]["SequenceNumber"]) for m in queue.receive()]

    assert all(low < high for low, high in itertools.pairwise(numbers))
    assert received == numbers


def test_expired_handle_does_not_delete(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.fifo(VisibilityTimeout=30)
    fill(queue, "a0")
    message = queue.receive_one()
    clock.advance(30)
    code, text = refusal(queue.delete, message)

    assert code == "InvalidParameterValue"
    assert text.endswith("Reason: The receipt handle has expired.")
    assert queue.bodies() == ["a0"]


def test_extended_handle_still_deletes(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.fifo(VisibilityTimeout=30)
    fill(queue, "a0")
    message = queue.receive_one()
    queue.change(message, 300)
    clock.advance(299)
    queue.delete(message)
    queue.delete(message)

    assert queue.counts() == (0, 0, 0)


def test_expired_handle_has_its_own_code_in_a_batch(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.fifo(VisibilityTimeout=30)
    fill(queue, "a0")
    message = queue.receive_one()
    clock.advance(30)
    answer = sqs.client.delete_message_batch(
        QueueUrl=queue.url, Entries=[{"Id": "0", "ReceiptHandle": message["ReceiptHandle"]}]
    )

    assert [entry["Code"] for entry in answer["Failed"]] == ["ReceiptHandleIsInvalid"]


def test_expired_handle_may_not_change_visibility(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.fifo(VisibilityTimeout=30)
    fill(queue, "a0")
    message = queue.receive_one()
    clock.advance(30)

    assert refusal_code(queue.change, message, 60) == "InvalidParameterValue"


def test_attempt_id_repeats_a_receive(sqs: Driver, clock: VirtualClock) -> None:
    queue = sqs.fifo(VisibilityTimeout=30)
    fill(queue, "a0", "a1", "b0")
    first = queue.receive(2, ReceiveRequestAttemptId="t")
    clock.advance(20)
    again = queue.receive(2, ReceiveRequestAttemptId="t")
    assert [m["ReceiptHandle"] for m in again] == [m["ReceiptHandle"] for m in first]

    clock.advance(20)
    assert queue.bodies() == ["b0"]


def test_attempt_id_is_spent_by_a_deletion(sqs: Driver) -> None:
    queue = sqs.fifo()
    fill(queue, "a0", "a1", "b0")
    queue.delete(queue.receive(2, ReceiveRequestAttemptId="t")[0])

    assert queue.bodies(ReceiveRequestAttemptId="t") == ["b0"]


def test_in_flight_quota_of_fifo_is_silent(sqs: Driver, front: Front) -> None:
    queue = sqs.fifo()
    front.model.queues[queue.name].in_flight_quota = 1
    fill(queue, "a0", "b0")

    assert queue.bodies() == ["a0"]
    assert queue.bodies() == []


def test_group_and_deduplication_are_required(sqs: Driver) -> None:
    queue = sqs.fifo()

    assert refusal_code(queue.send, MessageDeduplicationId="d") == "MissingParameter"
    assert refusal_code(queue.send, MessageGroupId="g") == "InvalidParameterValue"
    assert refusal_code(queue.send_batch, {"MessageBody": "x"}) == "InvalidParameterValue"
