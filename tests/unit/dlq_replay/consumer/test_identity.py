from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from dlq_replay.consumer.identity import first_id
from dlq_replay.errors import MalformedMessageError
from dlq_replay.wire.attributes import Attributes, MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE
from dlq_replay.wire.message import Message
from tests.support.builders import context, lambda_record, message, received, text
from tests.support.failure_table import PlainRecord


def shapes(source: Message) -> list[Any]:
    record = lambda_record(source)
    return [source, received(source), record, SQSRecord(record), PlainRecord.model_validate(record)]


@pytest.mark.parametrize(
    ("message_id", "attributes", "first"),
    [
        ("copy-7", context(first_id="first"), "first"),
        # A child that got a replayed message's attributes is a message of its own.
        ("child", context("the parent's body", first_id="parent"), "child"),
        ("child", context(first_id="parent"), "parent"),
        ("m-1", {}, "m-1"),
        # A context without an id that can be read.
        ("copy-7", {CONTEXT_ATTRIBUTE: text("no json")}, "copy-7"),
        ("copy-7", {CONTEXT_ATTRIBUTE: text('{"v":2,"id":"x"}')}, "copy-7"),
        ("copy-7", {CONTEXT_ATTRIBUTE: text('{"v":1}')}, "copy-7"),
        ("copy-7", {CONTEXT_ATTRIBUTE: MessageAttribute("Binary", b"x")}, "copy-7"),
    ],
)
def test_copy_is_known_by_its_first_id_in_every_shape(
    message_id: str, attributes: Attributes, first: str
) -> None:
    copy = message(message_id, attributes=attributes)

    assert [first_id(shape) for shape in shapes(copy)] == [first] * 5


def test_md5_of_sqs_counts_where_a_library_put_another_body_in_its_place() -> None:
    for shape in shapes(message("copy-7", attributes=context(first_id="first")))[1:3]:
        body = "Body" if "Body" in shape else "body"
        assert first_id({**shape, body: "the large body"}) == "first"


@pytest.mark.parametrize("raw", [None, 7, "x", {}, {"dataType": "String"}, []])
def test_broken_attributes_do_not_hide_the_message_id(raw: Any) -> None:
    record = lambda_record(message("m-1"))
    record["messageAttributes"] = {CONTEXT_ATTRIBUTE: raw, "own": raw}

    assert first_id(record) == "m-1"
    assert first_id({**record, "messageAttributes": raw}) == "m-1"


@pytest.mark.parametrize("record", [{}, {"messageId": ""}, {"MessageId": 7}, {"body": "x"}])
def test_what_has_no_message_id_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessageError, match="message id"):
        first_id(record)
