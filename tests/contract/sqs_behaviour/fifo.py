"""Order, locks and deduplication."""

import time

from local_sqs.driver import Driver, refusal, refusal_code


def group_is_required(sqs: Driver) -> None:
    queue = sqs.fifo()
    assert refusal_code(queue.send, MessageDeduplicationId="d") == "MissingParameter"


def deduplication_id_is_required(sqs: Driver) -> None:
    queue = sqs.fifo()
    assert refusal_code(queue.send, MessageGroupId="g") == "InvalidParameterValue"


def incomplete_entry_fails_the_whole_batch(sqs: Driver) -> None:
    queue = sqs.fifo()
    whole = {"MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "b"}
    without_group = {"MessageBody": "x", "MessageDeduplicationId": "a"}
    code = refusal_code(queue.send_batch, without_group, whole)
    assert code in {"InvalidParameterValue", "MissingParameter"}
    assert queue.receive() == []


def message_timer_is_refused(sqs: Driver) -> None:
    queue = sqs.fifo()
    assert refusal_code(queue.send_fifo, "x", DelaySeconds=2) == "InvalidParameterValue"


def message_timer_of_zero_keeps_the_delay_of_the_queue(sqs: Driver) -> None:
    queue = sqs.fifo(DelaySeconds=5)
    queue.send_fifo("x", DelaySeconds=0)
    assert queue.receive() == []
    assert queue.bodies(wait=15) == ["x"]


def duplicate_send_succeeds_and_is_not_delivered(sqs: Driver) -> None:
    queue = sqs.fifo()
    queue.send_fifo("1", deduplication="d")
    queue.send_fifo("2", deduplication="d")
    assert queue.bodies() == ["1"]
    assert queue.receive() == []


def duplicate_of_a_deleted_message_is_not_delivered(sqs: Driver) -> None:
    queue = sqs.fifo()
    queue.send_fifo("1", deduplication="d")
    assert queue.take() == ["1"]
    queue.send_fifo("2", deduplication="d")
    assert queue.receive() == []


def content_stands_in_for_the_id(sqs: Driver) -> None:
    queue = sqs.fifo(ContentBasedDeduplication="true")
    for _ in range(2):
        queue.send("same", MessageGroupId="g")
    queue.send("same", MessageGroupId="g", MessageDeduplicationId="other")
    assert queue.bodies() == ["same", "same"]


def deduplication_spans_groups(sqs: Driver) -> None:
    queue = sqs.fifo()
    queue.send_fifo("1", "g1", "d")
    queue.send_fifo("2", "g2", "d")
    assert queue.bodies() == ["1"]


def deduplication_may_be_limited_to_the_group(sqs: Driver) -> None:
    queue = sqs.fifo(DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    queue.send_fifo("1", "g1", "d")
    queue.send_fifo("2", "g2", "d")
    assert sorted(queue.bodies() + queue.bodies()) == ["1", "2"]


def high_throughput_needs_the_scope_of_the_group(sqs: Driver) -> None:
    fields = {"DeduplicationScope": "queue", "FifoThroughputLimit": "perMessageGroupId"}
    assert refusal_code(sqs.fifo, **fields)


def sequence_numbers_rise_with_content_ids_too(sqs: Driver) -> None:
    queue = sqs.fifo(ContentBasedDeduplication="true")
    answers = [queue.send(str(n), MessageGroupId="g") for n in range(3)]
    numbers = [int(answer["SequenceNumber"]) for answer in answers]
    assert numbers == sorted(set(numbers))


def system_attributes_name_group_and_id(sqs: Driver) -> None:
    queue = sqs.fifo()
    queue.send_fifo("x", "g", "d")
    system = queue.receive_one()["Attributes"]
    assert (system["MessageGroupId"], system["MessageDeduplicationId"]) == ("g", "d")


def order_within_a_group_is_kept(sqs: Driver) -> None:
    queue = sqs.fifo()
    for n in range(3):
        queue.send_fifo(f"a{n}", "a")
        queue.send_fifo(f"b{n}", "b")
    bodies = [body for _ in range(6) for body in queue.take(3)]
    assert [b for b in bodies if b[0] == "a"] == ["a0", "a1", "a2"]
    assert [b for b in bodies if b[0] == "b"] == ["b0", "b1", "b2"]


def message_in_flight_locks_its_group_alone(sqs: Driver) -> None:
    queue = sqs.fifo()
    for body in ("a0", "a1", "b0"):
        queue.send_fifo(body, body[0])
    first = queue.receive(1)
    assert [m["Body"] for m in first] == ["a0"]
    assert queue.bodies() == ["b0"]
    queue.delete(first[0])
    assert queue.bodies(wait=1) == ["a1"]


def oldest_comes_first_after_a_timeout(sqs: Driver) -> None:
    queue = sqs.fifo(VisibilityTimeout=1)
    for n in range(3):
        queue.send_fifo(f"m{n}")
    assert queue.bodies(1) == ["m0"]
    assert queue.bodies(1, wait=5) == ["m0"]


def expired_handle_does_not_delete(sqs: Driver) -> None:
    queue = sqs.fifo(VisibilityTimeout=1)
    queue.send_fifo("x")
    message = queue.receive_one()
    time.sleep(1.5)
    code, text = refusal(queue.delete, message)
    assert code == "InvalidParameterValue"
    assert "The receipt handle has expired" in text


def attempt_id_repeats_the_receive(sqs: Driver) -> None:
    queue = sqs.fifo()
    queue.send_fifo("x")
    first = queue.receive(ReceiveRequestAttemptId="t")
    again = queue.receive(ReceiveRequestAttemptId="t")
    assert [m["MessageId"] for m in again] == [m["MessageId"] for m in first]
