"""The payload of a body, whatever it was wrapped in; and JSON as other languages read it."""

import base64
import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.explain.signature.payload import (
    NOT_JSON,
    Payload,
    in_base64,
    parse_container,
    parse_json,
    unwrap,
)
from tests.property.strategies import json_values

ORDER = {"order": 7, "tenant": "acme"}
ORDER_TEXT = json.dumps(ORDER)
LONG = "so long a text that it takes more than one line " * 3
MEGABYTE = 1024 * 1024


def in_base64_of(content: bytes | str) -> str:
    held = content if isinstance(content, bytes) else content.encode()
    return base64.b64encode(held).decode()


def record(**fields: Any) -> dict[str, Any]:
    return {"Records": [fields, {"eventSource": "another"}]}


SNS = {"Type": "Notification", "TopicArn": "arn:aws:sns:eu-west-1:1:orders", "Message": ORDER_TEXT}
ID = "3f2b8c1e-9d4a-4b6c-8e2f-0a1b2c3d4e5f"
EVENT = {"detail-type": "OrderPlaced", "source": "shop.web", "detail": ORDER}
RESEMBLING = [
    {"TopicArn": "arn:aws:sns:eu-west-1:1:orders"},
    {"TopicArn": "arn", "Message": {"no": "text"}},
    {"TopicArn": "arn", "Type": "SubscriptionConfirmation", "Message": "You have chosen"},
    {"detail-type": "x", "detail": "no object"},
    {"specversion": "1.0", "data": 5},
    {"Records": []},
    {"Records": "none"},
    {"Records": ["text"]},
    {"Records": [{"id": 1}]},
    {"receiptHandle": "AQ", "body": {"no": "text"}},
    {"requestPayload": ORDER},
    {"requestPayload": ORDER, "requestContext": {"condition": None}},
    {"requestPayload": "text", "requestContext": {"condition": "Success"}},
]


@pytest.mark.parametrize(
    ("envelope", "words"),
    [
        *((envelope, []) for envelope in RESEMBLING),
        (ORDER, []),
        (SNS, ["SNS orders:"]),
        ({key: SNS[key] for key in ("TopicArn", "Message")}, ["SNS orders:"]),
        (EVENT, ["EventBridge shop.web OrderPlaced:"]),
        (
            {"specversion": "1.0", "type": "com.shop.placed", "data": ORDER},
            ["CloudEvent com.shop.placed:"],
        ),
        ({"specversion": "1.0", "type": "placed", "data": ORDER_TEXT}, ["CloudEvent placed:"]),
        (record(eventSource="aws:sqs", body=ORDER_TEXT), ["aws:sqs:"]),
        (record(EventSource="aws:sns", Sns={"Message": ORDER_TEXT}), ["aws:sns:"]),
        (
            record(eventSource="aws:kinesis", kinesis={"data": in_base64_of(ORDER_TEXT)}),
            ["aws:kinesis:", "base64 of"],
        ),
        (
            record(eventSource="aws:dynamodb", eventName="INSERT", dynamodb={"NewImage": ORDER}),
            ["aws:dynamodb INSERT:"],
        ),
        ({"receiptHandle": "AQ", "body": ORDER_TEXT}, ["SQS message of"]),
        ({"ReceiptHandle": "AQ", "Body": ORDER_TEXT}, ["SQS message of"]),
        ({"routeKey": "POST /orders", "body": ORDER_TEXT}, ["API Gateway POST /orders:"]),
        (
            {"httpMethod": "POST", "resource": "/orders", "body": ORDER_TEXT},
            ["API Gateway POST /orders:"],
        ),
        (
            {
                "requestContext": {"condition": "RetriesExhausted"},
                "requestPayload": ORDER,
                "responsePayload": {"errorMessage": "x"},
            },
            ["Lambda destination RetriesExhausted:"],
        ),
        (ORDER_TEXT, ["JSON string of"]),
        (
            {**SNS, "Message": json.dumps(EVENT)},
            ["SNS orders:", "EventBridge shop.web OrderPlaced:"],
        ),
        ({**SNS, "TopicArn": f"{SNS['TopicArn']}-{ID}"}, ["SNS orders-<id>:"]),
    ],
)
def test_an_envelope_comes_off_and_leaves_a_word(envelope: object, words: list[str]) -> None:
    payload = unwrap(json.dumps(envelope))

    assert payload.value == (ORDER if words else envelope)
    assert list(payload.wrappings) == words


def test_the_first_record_of_s3_is_the_payload_itself() -> None:
    record = {"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": {"bucket": {}}}

    payload = unwrap(json.dumps({"Records": [record]}))

    assert payload.wrappings == ("aws:s3 ObjectCreated:Put:",)
    assert payload.value == record


def test_so_many_wrappings_come_off_and_no_more() -> None:
    body = ORDER_TEXT
    for _ in range(6):
        body = json.dumps({"receiptHandle": "AQ", "body": body})

    payload = unwrap(body)

    assert payload.wrappings == ("SQS message of",) * 4
    assert payload.value["receiptHandle"] == "AQ"


@pytest.mark.parametrize(
    ("text", "held"),
    [
        (in_base64_of("a text that can be read"), ("base64 of", "a text that can be read")),
        (in_base64_of(ORDER_TEXT), ("base64 of", ORDER_TEXT)),
        (in_base64_of(ORDER_TEXT).rstrip("="), ("base64 of", ORDER_TEXT)),
        (base64.urlsafe_b64encode("öä?>~ü".encode() * 3).decode(), ("base64 of", "öä?>~ü" * 3)),
        (base64.encodebytes(LONG.encode()).decode(), ("base64 of", LONG)),
        (
            in_base64_of(gzip.compress(ORDER_TEXT.encode(), mtime=0)),
            ("base64 of gzip of", ORDER_TEXT),
        ),
        (in_base64_of(bytes(36)), ("base64 of", bytes(36))),
        # Sixteen letters that are base64 by chance, and hold nothing that can be read.
        ("InternalAccounts", None),
        ("four", None),
        ("", None),
        ("not base64 at all, with a comma", None),
        ("two words of base64 letters", None),
        (in_base64_of(b"\x1f\x8bno gzip at all, but long enough to be sure"), None),
    ],
)
def test_base64_is_taken_for_what_it_holds_only_where_that_is_sure(
    text: str, held: tuple[str, str | bytes] | None
) -> None:
    assert in_base64(text) == held


@given(st.text(st.characters(categories=("L", "N", "P")), min_size=12))
def test_every_legible_text_comes_back_out_of_base64(text: str) -> None:
    assert in_base64(in_base64_of(text)) == ("base64 of", text)


def test_no_more_is_unpacked_than_a_mebibyte() -> None:
    bomb = in_base64_of(gzip.compress(b"\0" * 50 * MEGABYTE))

    payload = unwrap(bomb)

    assert payload == Payload(("base64 of gzip of",), NOT_JSON, "", MEGABYTE)


@given(json_values, st.text(" \n\t"))
def test_only_objects_and_arrays_are_containers(value: object, space: str) -> None:
    text = f"{space}{json.dumps(value)}{space}"
    container = parse_container(text)

    assert parse_json(text) == value
    if isinstance(value, dict | list):
        assert container == value
    else:
        assert container is NOT_JSON


@pytest.mark.parametrize(
    "text",
    ["", " ", "NaN", "[Infinity]", '{"a": -Infinity}', "{", "{'a': 1}", "[" * 100_000, "1 2"],
)
def test_what_other_parsers_refuse_is_no_json(text: str) -> None:
    assert parse_json(text) is NOT_JSON
    assert parse_container(text) is NOT_JSON
