import hashlib
from typing import Any

import pytest

from demo.event_source import interpret, to_event
from demo.identity import Content, from_record
from dlq_replay.message import Message

IDS = ["id-1", "id-2", "id-3"]
ARN = "arn:aws:sqs:us-east-1:123456789012:dlq"
MAIN_ARN = "arn:aws:sqs:us-east-1:123456789012:main"


def received(**fields: Any) -> dict[str, Any]:
    return {
        "MessageId": "id-1",
        "ReceiptHandle": "handle",
        "Body": "größe",
        "Attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1700000000000"},
        "MessageAttributes": {
            "tenant": {"DataType": "String", "StringValue": "acme"},
            "hmac": {"DataType": "Binary.x", "BinaryValue": b"\x00\xff"},
        },
        **fields,
    }


def failures(*identifiers: object) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": i} for i in identifiers]}


@pytest.mark.parametrize(
    "answer", [None, {}, "", {"batchItemFailures": []}, {"batchItemFailures": None}, {"ok": 1}]
)
def test_answer_without_failures_is_success_of_all(answer: object) -> None:
    result = interpret(answer, IDS)

    assert result.failed == frozenset()
    assert result.fault is None


def test_named_messages_alone_have_failed() -> None:
    assert interpret(failures("id-2", "id-2"), IDS).failed == {"id-2"}


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (failures(""), "no itemIdentifier"),
        (failures(None), "no itemIdentifier"),
        (failures("id-1", "stranger"), "stranger is not in the batch"),
        ({"batchItemFailures": [{"messageId": "id-1"}]}, "no itemIdentifier"),
        ({"batchItemFailures": ["id-1"]}, "no itemIdentifier"),
        ({"batchItemFailures": "id-1"}, "is no list"),
        ("done", "is no object"),
        (True, "is no object"),
        ([1], "is no object"),
        ({"batchItemFailures": [], "at": object()}, "is no JSON"),
        ({"rate": float("nan")}, "is no JSON"),
    ],
)
def test_answer_of_another_shape_is_failure_of_all(answer: object, fault: str) -> None:
    result = interpret(answer, IDS)

    assert result.failed == set(IDS)
    assert result.fault is not None
    assert fault in result.fault


def test_record_is_what_lambda_sends() -> None:
    (record,) = to_event([received()], ARN)["Records"]

    assert record["messageId"] == "id-1"
    assert record["md5OfBody"] == hashlib.md5("größe".encode()).hexdigest()  # noqa: S324 - SQS's
    assert record["eventSourceARN"] == ARN
    assert record["messageAttributes"]["hmac"] == {
        "binaryValue": "AP8=",
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": "Binary.x",
    }
    assert "DeadLetterQueueSourceArn" not in record["attributes"]


def test_record_of_a_dlq_names_where_it_came_from() -> None:
    message = received(Attributes={"DeadLetterQueueSourceArn": MAIN_ARN})
    (record,) = to_event([message], ARN)["Records"]

    assert record["attributes"]["DeadLetterQueueSourceArn"] == MAIN_ARN


def test_record_is_read_alike_by_the_product_and_by_the_demo() -> None:
    (record,) = to_event([received()], ARN)["Records"]

    message, content = Message.from_lambda_record(record), from_record(record)

    assert content == Content(message.body, content.attributes)
    assert {n: a.value for n, a in message.attributes.items()} == {
        n: a.value for n, a in content.attributes.items()
    }
