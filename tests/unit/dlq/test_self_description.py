"""Descriptions of itself that services and frameworks write into a message."""

import json

import pytest

from dlq.archive.messages.self_description import stated_error, stated_kind
from dlq_replay.wire.attributes import MessageAttribute

_ARN = "arn:aws:events:eu-west-1:111122223333:rule/orders"


def _attributes(**texts: str) -> dict[str, MessageAttribute]:
    return {name: MessageAttribute("String", text) for name, text in texts.items()}


# By writer: attributes, the body, type and text.
WRITERS: dict[str, tuple[dict[str, str], object, tuple[str, str]]] = {
    "Lambda, dead-letter queue": (
        {"RequestID": "r-1", "ErrorCode": "200", "ErrorMessage": "no rate for HR"},
        {"order": 17},
        ("", "no rate for HR"),
    ),
    "EventBridge, a rule": (
        {"RULE_ARN": _ARN, "ERROR_CODE": "NO_PERMISSIONS", "ERROR_MESSAGE": "may not invoke"},
        {"detail": {}},
        ("NO_PERMISSIONS", "may not invoke"),
    ),
    "EventBridge, a schedule": (
        {"SCHEDULE_ARN": _ARN, "ERROR_CODE": "THROTTLING", "ERROR_MESSAGE": "slow down"},
        {},
        ("THROTTLING", "slow down"),
    ),
    "EventBridge, a custom event bus": (
        {},
        {"errorCode": "TARGET_ERROR", "errorMessage": "no answer", "targetArn": _ARN, "ids": ["1"]},
        ("TARGET_ERROR", "no answer"),
    ),
    "Lambda, a destination": (
        {},
        {
            "requestContext": {"condition": "RetriesExhausted"},
            "responsePayload": {"errorType": "NoRate", "errorMessage": "no rate"},
        },
        ("NoRate", "no rate"),
    ),
    "MassTransit, attributes": (
        {"MT-Fault-ExceptionType": "Shop.NoRate", "MT-Fault-Message": "no rate"},
        "x",
        ("Shop.NoRate", "no rate"),
    ),
    "MassTransit, headers in the body": (
        {},
        {"headers": {"MT-Fault-ExceptionType": "Shop.NoRate", "MT-Fault-Message": "no rate"}},
        ("Shop.NoRate", "no rate"),
    ),
    "NServiceBus": (
        {},
        {
            "Headers": {
                "NServiceBus.ExceptionInfo.ExceptionType": "Shop.NoRate",
                "NServiceBus.ExceptionInfo.Message": "no rate",
            }
        },
        ("Shop.NoRate", "no rate"),
    ),
    "Sidekiq": (
        {},
        {"class": "PriceJob", "jid": "j", "error_class": "NoRate", "error_message": "no rate"},
        ("NoRate", "no rate"),
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_the_error_is_read_where_its_writer_puts_it(writer: str) -> None:
    attributes, body, expected = WRITERS[writer]
    text = body if isinstance(body, str) else json.dumps(body)

    error = stated_error(text, _attributes(**attributes))

    assert error is not None
    assert (error.type, error.message, error.code) == (*expected, None)


@pytest.mark.parametrize(
    ("attributes", "body"),
    [
        ({"ErrorMessage": "of somebody else"}, "{}"),
        ({"ERROR_CODE": "17"}, "{}"),
        ({}, '{"errorMessage": "a field of the application"}'),
        ({}, '{"errorMessage": '),
        ({}, '["errorMessage"]'),
        ({}, '{"headers": {"MT-Fault-Message": 7}}'),
        ({}, '{"requestContext": 1, "responsePayload": {"errorMessage": "x"}}'),
    ],
)
def test_names_that_are_alike_are_no_error(attributes: dict[str, str], body: str) -> None:
    assert stated_error(body, _attributes(**attributes)) is None


def test_the_text_is_masked_and_short() -> None:
    attributes = _attributes(
        RequestID="r", ErrorMessage=f"no rate for anna@example.com {'x' * 999}"
    )

    error = stated_error("", attributes)

    assert error is not None
    assert error.message.startswith("no rate for *** xxx")
    assert len(error.message) == 300


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"JavaType": "com.shop.OrderPlaced"}, "JavaType=com.shop.OrderPlaced"),
        ({"shoryuken_class": "PriceJob"}, "shoryuken_class=PriceJob"),
        (
            {"NServiceBus.EnclosedMessageTypes": "Shop.OrderPlaced, Shop, Version=1.0"},
            "NServiceBus.EnclosedMessageTypes=Shop.OrderPlaced",
        ),
        ({"message-type": "order.placed"}, "message-type=order.placed"),
        ({"ce-type": "com.shop.placed", "_class": "a.B"}, "_class=a.B"),
        ({"type": "x", "order": "4711"}, None),
        ({"JavaType": "4711"}, None),
        ({"JavaType": f"A{'x' * 200}"}, None),
        ({}, None),
    ],
)
def test_an_attribute_names_the_kind(attributes: dict[str, str], kind: str | None) -> None:
    assert stated_kind(_attributes(**attributes)) == kind


def test_bytes_name_no_kind_and_no_error() -> None:
    attributes = {
        "JavaType": MessageAttribute("Binary", b"A"),
        "RequestID": MessageAttribute("Binary", b"A"),
        "ErrorMessage": MessageAttribute("Binary", b"A"),
    }

    assert stated_kind(attributes) is None
    assert stated_error("", attributes) is None
