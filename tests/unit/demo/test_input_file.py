import base64
import json
from typing import Any

import pytest

from demo.identity import Attribute, Content
from demo.input_file import MAX_MESSAGE_BYTES, parse_line, parse_lines


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def with_attribute(name: str, value: Any) -> bytes:
    return line(body="b", attributes={name: value})


def test_body_alone_is_a_message_and_other_keys_are_ignored() -> None:
    assert parse_line(line(body="text", event="push")) == Content("text")


def test_attributes_of_every_type_are_read() -> None:
    attributes = {
        "tenant": "acme",
        "count": {"DataType": "Number.int", "StringValue": "-1.5e3"},
        "hmac": {"DataType": "Binary", "BinaryValue": base64.b64encode(b"\x00").decode()},
    }

    assert parse_line(line(body="b", attributes=attributes)).attributes == {
        "tenant": Attribute("String", "acme"),
        "count": Attribute("Number.int", "-1.5e3"),
        "hmac": Attribute("Binary", b"\x00"),
    }


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (b"{not json", "must be JSON"),
        (b"\xff\xfe", "must be UTF-8"),
        (b"[1]", "must be a JSON object"),
        (line(event="push"), "body must be text"),
        (line(body=7), "body must be text"),
        (line(body=""), "body must be text"),
        (line(body="a\x01b"), "U\\+0001, a character that SQS refuses"),
        (b'{"body": "\\ud800"}', "U\\+D800"),
        (line(body="b" * (MAX_MESSAGE_BYTES + 1)), "must not exceed 1,048,576 bytes"),
        (line(body="ü" * (MAX_MESSAGE_BYTES // 2 + 1)), "must not exceed"),
        (line(body="b", attributes=[]), "must be an object"),
        (line(body="b", attributes={str(n): "v" for n in range(11)}), "at most 10"),
        (with_attribute("AWS.trace", "v"), "attribute name 'AWS.trace'"),
        (with_attribute("a..b", "v"), "attribute name"),
        (with_attribute("a.", "v"), "attribute name"),
        (with_attribute("ä", "v"), "attribute name"),
        (with_attribute("n" * 257, "v"), "attribute name"),
        (with_attribute("demo-id", "v"), "needs this name"),
        (with_attribute("a", ""), "at least one character"),
        (with_attribute("a", "\x0b"), "U\\+000B"),
        (with_attribute("a", 5), "must be text, or an object"),
        (with_attribute("a", {"DataType": "Text", "StringValue": "v"}), "DataType must be"),
        (with_attribute("a", {"DataType": "Number", "StringValue": "12x"}), "must be a number"),
        (with_attribute("a", {"DataType": "String"}), "at least one character"),
        (with_attribute("a", {"DataType": "Binary", "BinaryValue": "%%"}), "must be base64"),
        (with_attribute("a", {"DataType": "Binary", "BinaryValue": ""}), "at least one byte"),
        (with_attribute("a", {"DataType": "Binary", "StringValue": "v"}), "must be base64"),
    ],
)
def test_bad_line_is_refused_with_its_rule(bad: bytes, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        parse_line(bad)


def test_one_bad_line_leaves_the_others_and_is_named_by_number() -> None:
    parsed = parse_lines([b"\xef\xbb\xbf" + line(body="one"), b"", b"nope", line(body="two")])

    assert [(n, c.body) for n, c in parsed.messages] == [(1, "one"), (4, "two")]
    assert [fault.line for fault in parsed.faults] == [3]


def test_message_of_exactly_the_limit_is_taken() -> None:
    assert parse_line(line(body="b" * MAX_MESSAGE_BYTES)).size_bytes == MAX_MESSAGE_BYTES
