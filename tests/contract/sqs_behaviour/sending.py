"""What SQS takes in, and how it comes out again."""

from typing import Any

from local_sqs.driver import Driver, refusal_code, string

MIB = 1_048_576
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def message_of_one_mebibyte_arrives_whole(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send("b" * MIB)
    assert len(queue.receive_one(wait=2)["Body"]) == MIB
    assert refusal_code(queue.send, "b" * (MIB + 1)) == "InvalidParameterValue"


def size_is_counted_in_utf8_bytes(sqs: Driver) -> None:
    assert refusal_code(sqs.queue().send, "€" * 400_000) == "InvalidParameterValue"


def size_includes_message_attributes(sqs: Driver) -> None:
    fields = {"MessageAttributes": {"a": string("v")}}
    assert refusal_code(sqs.queue().send, "d" * MIB, **fields) == "InvalidParameterValue"


def size_limit_of_the_queue_fails_single_entries(sqs: Driver) -> None:
    queue = sqs.queue(MaximumMessageSize=1024)
    sent, failed = queue.send_batch({"MessageBody": "f" * 1025}, {"MessageBody": "ok"})
    assert (list(sent), list(failed)) == (["1"], ["0"])
    assert refusal_code(queue.send, "e" * 1025) == "InvalidParameterValue"


def batch_above_one_mebibyte_is_refused(sqs: Driver) -> None:
    entries = [{"MessageBody": "g" * 300_000}] * 4
    assert refusal_code(sqs.queue().send_batch, *entries) == "BatchRequestTooLong"


def batch_size_is_counted_in_utf8_bytes(sqs: Driver) -> None:
    entries = [{"MessageBody": "€" * 120_000}] * 4
    assert refusal_code(sqs.queue().send_batch, *entries) == "BatchRequestTooLong"


def batch_size_includes_message_attributes(sqs: Driver) -> None:
    attributes = {"a": string("h" * 300_000)}
    entries = [{"MessageBody": "x", "MessageAttributes": attributes}] * 4
    assert refusal_code(sqs.queue().send_batch, *entries) == "BatchRequestTooLong"


def malformed_batches_have_their_own_codes(sqs: Driver) -> None:
    queue = sqs.queue()

    def code(*ids: str) -> str:
        entries: Any = [{"Id": entry_id, "MessageBody": "x"} for entry_id in ids]
        send = sqs.client.send_message_batch
        return refusal_code(send, QueueUrl=queue.url, Entries=entries)

    assert code(*(str(n) for n in range(11))) == "TooManyEntriesInBatchRequest"
    assert code() == "EmptyBatchRequest"
    assert code("1", "1") == "BatchEntryIdsNotDistinct"
    assert code("a:b") == "InvalidBatchEntryId"


def bad_entry_fails_alone(sqs: Driver) -> None:
    sent, failed = sqs.queue().send_batch(
        {"MessageBody": "x", "DelaySeconds": 901}, {"MessageBody": "y"}
    )
    assert (list(sent), failed) == (["1"], {"0": "InvalidParameterValue"})


def eleventh_attribute_is_refused(sqs: Driver) -> None:
    queue = sqs.queue()
    ten = {f"k{n}": string("v") for n in range(10)}
    queue.send(MessageAttributes=ten)
    eleven = {**ten, "k10": string("v")}
    assert refusal_code(queue.send, MessageAttributes=eleven) == "InvalidParameterValue"


def reserved_attribute_name_is_refused(sqs: Driver) -> None:
    fields = {"MessageAttributes": {"AWS.x": string("v")}}
    assert refusal_code(sqs.queue().send, **fields) == "InvalidParameterValue"


def empty_attribute_value_is_refused(sqs: Driver) -> None:
    fields = {"MessageAttributes": {"a": string("")}}
    assert refusal_code(sqs.queue().send, **fields) == "InvalidParameterValue"


def number_attribute_must_be_a_number(sqs: Driver) -> None:
    fields = {"MessageAttributes": {"a": string("abc", "Number")}}
    assert refusal_code(sqs.queue().send, **fields) == "InvalidParameterValue"


def unknown_attribute_type_is_refused(sqs: Driver) -> None:
    fields = {"MessageAttributes": {"a": string("v", "Text")}}
    assert refusal_code(sqs.queue().send, **fields) == "InvalidParameterValue"


def attributes_of_every_type_arrive_unchanged(sqs: Driver) -> None:
    given = {
        "text": string("späť 🎉"),
        "count": string("7", "Number.int"),
        "icon": {"DataType": "Binary.png", "BinaryValue": b"\x00\x01\xff"},
    }
    queue = sqs.queue()
    digest = queue.send(MessageAttributes=given)["MD5OfMessageAttributes"]
    message = queue.receive_one()
    assert message["MessageAttributes"] == given
    assert message["MD5OfMessageAttributes"] == digest


def empty_body_is_refused(sqs: Driver) -> None:
    code = refusal_code(sqs.queue().send, "")
    assert code in {"MissingParameter", "InvalidParameterValue"}


def control_character_is_refused(sqs: Driver) -> None:
    assert refusal_code(sqs.queue().send, "a\x01b") == "InvalidMessageContents"


def message_timer_hides_the_message(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send("later", DelaySeconds=5)
    queue.send("now", DelaySeconds=0)
    assert queue.bodies() == ["now"]
    assert queue.counts()[2] in {0, 1}
    assert queue.bodies(wait=15) == ["later"]


def delay_of_the_queue_can_be_overridden(sqs: Driver) -> None:
    queue = sqs.queue(DelaySeconds=5)
    queue.send("later")
    queue.send("now", DelaySeconds=0)
    assert queue.bodies() == ["now"]
    assert queue.bodies(wait=15) == ["later"]


def group_of_a_fair_queue_is_kept(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send(MessageGroupId="tenant")
    assert queue.receive_one()["Attributes"]["MessageGroupId"] == "tenant"


def trace_header_is_kept(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send(MessageSystemAttributes={"AWSTraceHeader": string(TRACE)})
    assert queue.receive_one()["Attributes"]["AWSTraceHeader"] == TRACE


def missing_queue_has_its_own_exception(sqs: Driver) -> None:
    assert refusal_code(sqs.client.get_queue_url, QueueName="missing") == "NonExistentQueue"
