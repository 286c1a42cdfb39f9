import pytest

from dlq_replay.errors import MalformedMessageError
from dlq_replay.wire.attributes import MessageAttribute, size_bytes
from dlq_replay.wire.message import Message
from tests.support.builders import lambda_record, message, received


def test_record_without_attributes_has_none() -> None:
    record = {"messageId": "a", "body": "b"}

    assert Message("a", "b") == Message.from_received(record)


NEEDS_A_TYPE = "attribute 'a': needs a type, and text or bytes"


def attribute_a(raw: object) -> dict[str, object]:
    return {"messageAttributes": {"a": raw}}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"body": None}, "body: must be text"),
        ({"body": ""}, "body: must be text"),
        ({"body": {"a": 1}}, "body: must be text"),
        ({"messageId": 7}, "messageId: must be text"),
        ({"messageAttributes": []}, "messageAttributes: must be an object"),
        (attribute_a("text"), NEEDS_A_TYPE),
        (attribute_a({"dataType": "String"}), NEEDS_A_TYPE),
        (attribute_a({"stringValue": "x"}), NEEDS_A_TYPE),
        (attribute_a({"dataType": "Binary", "binaryValue": "no base64!"}), NEEDS_A_TYPE),
        ({"attributes": "none"}, "attributes: must be an object"),
    ],
)
def test_unreadable_record_names_the_field_and_the_rule(
    change: dict[str, object], rule: str
) -> None:
    with pytest.raises(MalformedMessageError, match=rule):
        Message.from_received({**lambda_record(message()), **change})


def test_unreadable_received_attribute_names_itself() -> None:
    with pytest.raises(MalformedMessageError, match="attribute 'a': needs"):
        Message.from_received({**received(message()), "MessageAttributes": {"a": {}}})


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Root=1-5;Parent=a;Sampled=1;Lineage=25:1|3d:2", "Root=1-5;Parent=a;Sampled=1"),
        ("Lineage=25:1;Root=1-5", "Root=1-5"),
        ("Root=1-5", "Root=1-5"),
        ("Lineage=25:1", None),
        ("", None),
    ],
)
def test_trace_header_loses_its_lineage_only(header: str, expected: str | None) -> None:
    assert expected == message(AWSTraceHeader=header).trace_header


def test_size_counts_utf8_bytes_of_body_names_types_and_values() -> None:
    assert size_bytes("é", {"n": MessageAttribute("Binary", b"123")}) == 2 + 1 + 6 + 3
