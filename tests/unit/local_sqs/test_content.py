"""What a message may contain. SQSDeveloperGuide, "Message metadata" and "message quotas"."""

from typing import Any

import pytest

from local_sqs.client import client_for
from local_sqs.driver import Driver, refusal_code, string
from local_sqs.model import SqsModel, Switches

MIB = 1_048_576


def attributes(count: int) -> dict[str, dict[str, str]]:
    return {f"a{n}": string("v") for n in range(count)}


@pytest.mark.parametrize("body", ["x" * MIB, "€" * (MIB // 3), "\t\n\r \ud7ff\ue000\ufffd🎉"])
def test_body_up_to_the_limit_arrives_whole(sqs: Driver, body: str) -> None:
    queue = sqs.queue()
    queue.send(body)

    assert queue.bodies() == [body]


@pytest.mark.parametrize("body", ["x" * (MIB + 1), "€" * (MIB // 3 + 1)])
def test_body_above_the_limit_is_refused(sqs: Driver, body: str) -> None:
    assert refusal_code(sqs.queue().send, body) == "InvalidParameterValue"


def test_attributes_count_towards_the_limit(sqs: Driver) -> None:
    queue = sqs.queue(MaximumMessageSize=1024)
    given = {"a": string("€")}
    size = len("aString") + 3
    queue.send("x" * (1024 - size), MessageAttributes=given)
    code = refusal_code(queue.send, "x" * (1025 - size), MessageAttributes=given)

    assert code == "InvalidParameterValue"


def test_limit_of_the_queue_fails_single_entries(sqs: Driver) -> None:
    sent, failed = sqs.queue(MaximumMessageSize=1024).send_batch(
        {"MessageBody": "x" * 1025}, {"MessageBody": "ok"}
    )

    assert (list(sent), failed) == (["1"], {"0": "InvalidParameterValue"})


@pytest.mark.parametrize("body", ["€" * (MIB // 12 + 1), "x" * (MIB // 4 + 1)])
def test_batch_above_the_limit_is_refused_whole(sqs: Driver, body: str) -> None:
    queue = sqs.queue()
    entries = [{"MessageBody": body}] * 4

    assert refusal_code(queue.send_batch, *entries) == "BatchRequestTooLong"
    assert queue.counts() == (0, 0, 0)


@pytest.mark.parametrize("body", ["a\x01b", "\x0b", "\x1f", "￾", "￿", "\ud800"])
def test_forbidden_character_is_refused(sqs: Driver, body: str) -> None:
    queue = sqs.queue()
    as_attribute = {"a": string(body)}

    assert refusal_code(queue.send, body) == "InvalidMessageContents"
    assert refusal_code(queue.send, MessageAttributes=as_attribute) == "InvalidMessageContents"


def test_forbidden_character_fails_its_entry_alone(sqs: Driver) -> None:
    sent, failed = sqs.queue().send_batch({"MessageBody": "\x01"}, {"MessageBody": "ok"})

    assert (list(sent), failed) == (["1"], {"0": "InvalidMessageContents"})


def test_one_entry_spoils_the_batch_if_told_to() -> None:
    sqs = Driver(client_for(SqsModel(switches=Switches(rejects_whole_batch=True))))
    queue = sqs.queue()
    entries = ({"MessageBody": "\x01"}, {"MessageBody": "ok"})

    assert refusal_code(queue.send_batch, *entries) == "InvalidMessageContents"
    assert queue.counts() == (0, 0, 0)


def test_empty_body_is_refused(sqs: Driver) -> None:
    assert refusal_code(sqs.queue().send, "") == "MissingParameter"


def test_eleventh_attribute_is_refused(sqs: Driver) -> None:
    queue = sqs.queue()
    queue.send(MessageAttributes=attributes(10))

    assert refusal_code(queue.send, MessageAttributes=attributes(11)) == "InvalidParameterValue"


@pytest.mark.parametrize(
    "name", ["AWS.x", "aws.x", "Amazon.y", ".a", "a.", "a..b", "a b", "ä", "n" * 257]
)
def test_reserved_or_malformed_name_is_refused(sqs: Driver, name: str) -> None:
    code = refusal_code(sqs.queue().send, MessageAttributes={name: string("v")})

    assert code == "InvalidParameterValue"


@pytest.mark.parametrize(
    "attribute",
    [
        string("v", "Text"),
        string("v", "Strings"),
        string("v", ""),
        string(""),
        string("abc", "Number"),
        string("1" * 39, "Number"),
        string("v", "Binary"),
        {"DataType": "Binary", "BinaryValue": b""},
        {"DataType": "String", "BinaryValue": b"v"},
    ],
)
def test_malformed_attribute_is_refused(sqs: Driver, attribute: Any) -> None:
    code = refusal_code(sqs.queue().send, MessageAttributes={"a": attribute})

    assert code == "InvalidParameterValue"


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ("7", "7"),
        ("007.50", "7.5"),
        ("-0010", "-10"),
        ("0.0", "0"),
        ("100", "100"),
        (".5", "0.5"),
        ("1.0E2", "1.0E2"),
    ],
)
def test_number_loses_its_idle_zeroes(sqs: Driver, sent: str, received: str) -> None:
    queue = sqs.queue()
    queue.send(MessageAttributes={"n": string(sent, "Number.custom")})

    assert queue.receive_one()["MessageAttributes"] == {"n": string(received, "Number.custom")}


def test_attributes_of_every_type_arrive_unchanged(sqs: Driver) -> None:
    given = {
        "text": string("späť 🎉"),
        "label": string("v", "String.custom"),
        "icon": {"DataType": "Binary.png", "BinaryValue": b"\x00\x01\xff"},
    }
    queue = sqs.queue()
    answer = queue.send(MessageAttributes=given)
    message = queue.receive_one()

    assert message["MessageAttributes"] == given
    assert message["MD5OfMessageAttributes"] == answer["MD5OfMessageAttributes"]


def test_receive_chooses_attributes_by_name_and_prefix(sqs: Driver) -> None:
    queue = sqs.queue(VisibilityTimeout=0)
    queue.send(MessageAttributes={name: string("v") for name in ("foo.a", "foo.b", "bar")})

    def chosen(*names: str) -> list[str]:
        answer = sqs.client.receive_message(QueueUrl=queue.url, MessageAttributeNames=names)
        return sorted(answer["Messages"][0].get("MessageAttributes", {}))

    assert chosen() == []
    assert chosen("foo.*") == ["foo.a", "foo.b"]
    assert chosen("bar", "none") == ["bar"]
    assert chosen(".*") == ["bar", "foo.a", "foo.b"]
