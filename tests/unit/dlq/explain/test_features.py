"""Features of a message."""

import base64
import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.explain.differences.features import (
    IN_SOME,
    NEWLINE,
    TAG,
    TYPES,
    features_of,
    path_text,
)
from tests.property.strategies import json_values


def features(body: object, **more: Any) -> list[tuple[str, str]]:
    """The formatted path and the tag of each feature of a body."""
    text = body if isinstance(body, str) else json.dumps(body)
    lines = features_of(
        text, len(text.encode()), more.get("attributes", ()), more.get("columns", {})
    )
    pairs = (line.split(TAG, 1) for line in lines.split(NEWLINE))
    return [(path_text(path), tag) for path, tag in pairs if not path.startswith("body_bytes")]


def attribute(text: str | None, binary: bytes | None = None) -> dict[str, Any]:
    return {"data_type": "String", "string_value": text, "binary_value": binary}


@pytest.mark.parametrize(
    ("value", "tags"),
    [
        ("acme", ["text", "=acme"]),
        ("", ["text", "="]),
        (5, ["number", "=5", "~1"]),
        (-512, ["number", "=-512", "~-3"]),
        (0, ["number", "=0", "~0"]),
        (0.25, ["number", "~0"]),
        (1234.5, ["number", "~4"]),
        (10**12, ["number", "~13"]),
        (10**20, ["number"]),
        (True, ["true or false", "=true"]),
        (None, ["null"]),
        ("x" * 81, ["text"]),
        ("two\nlines", ["text"]),
        ("2026-11-21", ["text"]),
        ("2026-11-21T03:15:00Z", ["text"]),
        ("03:15", ["text"]),
        ("2026-11-21-batch", ["text", "=2026-11-21-batch"]),
    ],
)
def test_a_field_has_its_type_and_a_value_that_can_be_a_difference(
    value: object, tags: list[str]
) -> None:
    tags_of_a = [("body.a", tag) for tag in tags]

    assert features({"a": value}) == [("body", "object"), ("body", "+"), *tags_of_a]


def test_objects_arrays_and_json_in_texts_are_walked() -> None:
    body = {"items": [{"sku": "A"}, {"sku": "B"}], "inner": json.dumps({"n": 1})}

    assert features(body) == [
        ("body", "object"),
        ("body", "+"),
        ("body.items", "array"),
        ("body.inner", "text"),
        ("body.inner", "object"),
        ("body.items", "+"),
        ("body.items[]", "object"),
        ("body.inner", "+"),
        ("body.inner.n", "number"),
        ("body.inner.n", "=1"),
        ("body.inner.n", "~1"),
        ("body.items[]", "+"),
        ("body.items[].sku", "text"),
        ("body.items[].sku", "=A"),
        ("body.items[].sku", "=B"),
    ]


def test_elements_that_lack_what_others_have_are_told() -> None:
    assert ("body.items[].n", "missing in some") in features(
        {"items": [{"sku": "A"}, {"sku": "B", "n": 1}]}
    )
    assert ("body.items[].n", "missing in some") not in features({"items": [{"n": 2}, {"n": 1}]})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", [("body", "empty")]),
        (" \n ", [("body", "empty")]),
        ("plain words", [("body", "text")]),
        (base64.b64encode(bytes(60)).decode(), [("body", "bytes")]),
        (
            base64.b64encode(b'{"a": true}').decode(),
            [("body", "object"), ("body", "+"), ("body.a", "true or false")],
        ),
        (
            base64.b64encode(gzip.compress(b'{"a": true}', mtime=0)).decode(),
            [("body", "object"), ("body", "+"), ("body.a", "true or false")],
        ),
        ("[1]", [("body", "array"), ("body", "+"), ("body[]", "number")]),
        ('"text"', [("body", "text"), ("body", "=text")]),
    ],
)
def test_a_body_that_is_no_object_has_a_type(body: str, expected: list[tuple[str, str]]) -> None:
    assert features(body)[: len(expected)] == expected


def test_ids_in_keys_are_masked() -> None:
    assert {field for field, _ in features({"order-4711": 1, "order-12": 2})} == {
        "body",
        "body.order-<n>",
    }


def test_a_key_with_a_dot_is_no_two_keys() -> None:
    text = json.dumps({"a.b": 1, "a": {"b": 2}})
    paths = {line.split(TAG)[0] for line in features_of(text, 9, (), {}).split(NEWLINE)}

    assert len([path for path in paths if path_text(path) == "body.a.b"]) == 2


def test_attributes_and_columns_are_fields_but_ours_are_not() -> None:
    fields = features(
        "x",
        attributes=[
            ("tenant", attribute("acme")),
            ("picture", attribute(None, b"\0")),
            ("sqs-dlq-context", attribute("{}")),
            ("sqs-dlq-replay-nb", attribute("5")),
        ],
        columns={"message_group_id": "g-1", "sender_id": None},
    )

    assert fields == [
        ("message_group_id", "text"),
        ("message_group_id", "=g-1"),
        ("attribute.tenant", "text"),
        ("attribute.tenant", "=acme"),
        ("attribute.picture", "bytes"),
        ("body", "text"),
    ]


def test_fields_that_state_the_error_of_a_group_are_none_of_its_differences() -> None:
    of_eventbridge = [
        ("RULE_ARN", attribute("arn")),
        ("ERROR_CODE", attribute("SDK_CLIENT_ERROR")),
        ("ERROR_MESSAGE", attribute("no answer")),
    ]
    of_sidekiq = '{"jid": "j", "error_class": "E", "error_message": "m", "queue": "q"}'

    names = {name for name, _ in features(of_sidekiq, attributes=of_eventbridge)}

    assert names == {"attribute.RULE_ARN", "body", "body.jid", "body.queue"}


def test_names_of_errors_without_their_writer_are_fields_like_others() -> None:
    names = {name for name, _ in features("x", attributes=[("ERROR_CODE", attribute("7"))])}

    assert "attribute.ERROR_CODE" in names


def test_the_size_is_told_by_its_power_of_two() -> None:
    for size, bits in ((0, 0), (1, 1), (255, 8), (256, 9)):
        lines = features_of("", size, (), {}).split(NEWLINE)

        assert lines[1] == f"body_bytes{TAG}~{bits}"


@given(st.text() | json_values.map(json.dumps), st.dictionaries(st.text(), st.text() | st.none()))
def test_whatever_a_message_holds_its_features_are_lines_of_path_and_tag(
    body: str, attributes: dict[str, str | None]
) -> None:
    rows = [(name, attribute(text, b"")) for name, text in attributes.items()]

    lines = features_of(body, len(body), rows, {}).split(NEWLINE)

    assert len(lines) == len(set(lines))
    assert all(line.count(TAG) == 1 for line in lines)
    assert all(line.split(TAG)[1].startswith((*TYPES, IN_SOME, "+", "=", "~")) for line in lines)
    types = [line.split(TAG)[0] for line in lines if line.split(TAG)[1] in TYPES]
    assert len(types) == len(set(types)), "a field has one type"
