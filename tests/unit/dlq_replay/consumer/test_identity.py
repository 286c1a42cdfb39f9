from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.parser.models import SqsRecordModel

from dlq_replay.consumer.identity import first_id, own_attributes
from dlq_replay.errors import MalformedMessageError
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE
from dlq_replay.wire.message import Message
from tests.support.builders import context, counter, lambda_record, message, received, text


class ParsedRecord(SqsRecordModel):
    """Of the fields that these tests' records have."""

    attributes: Any


def shapes(source: Message) -> list[Any]:
    record = lambda_record(source)
    return [
        source,
        received(source),
        record,
        SQSRecord(record),
        ParsedRecord.model_validate(record),
    ]


def test_replayed_copy_is_known_by_its_first_id_in_every_shape() -> None:
    copy = message("copy-7", attributes=context(first_id="first"))

    assert [first_id(shape) for shape in shapes(copy)] == ["first"] * 5


def test_child_that_got_a_replayed_messages_attributes_is_known_by_its_own_id() -> None:
    child = message("child", attributes=context("the parent's body", first_id="parent"))
    same_body = message("child", attributes=context(first_id="parent"))

    assert [first_id(shape) for shape in shapes(child)] == ["child"] * 5
    assert [first_id(shape) for shape in shapes(same_body)] == ["parent"] * 5


def test_md5_of_sqs_counts_where_a_library_put_another_body_in_its_place() -> None:
    for shape in shapes(message("copy-7", attributes=context(first_id="first")))[1:3]:
        body = "Body" if "Body" in shape else "body"
        assert first_id({**shape, body: "the large body"}) == "first"


def test_only_a_producers_attributes_are_passed_on() -> None:
    ours = {**context(first_id="first"), **counter("3"), "sqs-dlq-test-message": text("x")}
    own = {"tenant": text("blue", "String.x"), "key": MessageAttribute("Binary", b"k")}

    for shape in shapes(message(attributes={**own, **ours})):
        assert own_attributes(shape) == {
            "tenant": {"DataType": "String.x", "StringValue": "blue"},
            "key": {"DataType": "Binary", "BinaryValue": b"k"},
        }
    assert own_attributes({"MessageId": "m"}) == {}


def test_first_copy_is_known_by_its_own_id_in_every_shape() -> None:
    assert [first_id(shape) for shape in shapes(message("m-1"))] == ["m-1"] * 5


@pytest.mark.parametrize(
    "attribute",
    [text("no json"), text('{"v":2,"id":"x"}'), text('{"v":1}'), MessageAttribute("Binary", b"x")],
)
def test_context_that_says_no_id_leaves_the_copys_own(attribute: MessageAttribute) -> None:
    copy = message("copy-7", attributes={CONTEXT_ATTRIBUTE: attribute})

    assert [first_id(shape) for shape in shapes(copy)] == ["copy-7"] * 5


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
