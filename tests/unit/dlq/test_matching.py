"""Which messages have a value, and where."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.archive.messages.dead_letter_schema import Row, to_row, to_table
from dlq.errors import InputError
from dlq.inspect.matching import Wanted, matching_rows, places_of
from dlq_replay.wire.attributes import MessageAttribute
from tests.support.builders import message, text


def row_of(body: str, attributes: dict[str, MessageAttribute] | None = None, **system: str) -> Row:
    source = message("m-1", body=body, attributes=attributes or {}, **system)
    return to_row(source, "https://sqs.example/1/parked", datetime(2026, 1, 2, tzinfo=UTC))


def places(row: Row, value: str, *, is_pattern: bool = False) -> list[str]:
    """Return where the row has the value; nothing if it has not."""
    wanted = Wanted(value, is_pattern=is_pattern)
    table = to_table([row])
    if not matching_rows(table, wanted)[0].as_py():
        return []
    return places_of(table.to_pylist()[0], wanted)


@pytest.mark.parametrize(
    ("body", "value", "expected"),
    [
        ('{"order": 4711}', "4711", ["body.order"]),
        ('{"order": "4711"}', "4711", ["body.order"]),
        ('{"order": "ORD-4711"}', "4711", ["body.order"]),
        ('{"order": "ORD-4711"}', "ORD-4711", ["body.order"]),
        ('{"order": 14711}', "4711", []),
        ('{"order": 47110}', "4711", []),
        ('{"order": "x4711"}', "4711", []),
        ('{"a": {"b": [{"c": 1}, {"c": 4711}]}}', "4711", ["body.a.b[].c"]),
        ('{"a": "4711", "b": 4711}', "4711", ["body.a", "body.b"]),
        ('{"4711": true}', "4711", ["body"]),
        ("order 4711 failed", "4711", ["body"]),
        ("<order id='4711'/>", "4711", ["body"]),
        ('"4711"', "4711", ["body"]),
        ('{"note": "first line\\n4711"}', "4711", ["body.note"]),
        ('{"note": "caf\\u00e9 noir"}', "café noir", ["body.note"]),
        ('{"note": "café noir"}', "café noir", ["body.note"]),
        ('{"path": "a\\/b"}', "a/b", ["body.path"]),
        ('{"note": "say \\"yes\\""}', 'say "yes"', ["body.note"]),
        ('{"tag": "x#1"}', "#1", ["body.tag"]),
        ("{}", "4711", []),
        ("", "4711", []),
    ],
)
def test_value_counts_as_a_whole_word(body: str, value: str, expected: list[str]) -> None:
    assert places(row_of(body), value) == expected


def test_attributes_and_ids_count() -> None:
    attributes = {"tenant": text("acme"), "order": text("4711", "Number")}
    row = row_of("{}", attributes, MessageGroupId="customer-7")

    assert places(row, "acme") == ["attribute.tenant"]
    assert places(row, "4711") == ["attribute.order"]
    assert places(row, "customer-7") == ["message_group_id"]
    assert places(row, "customer") == []
    assert places(row, "m-1") == ["message_id", "first_id"]


def test_binary_attribute_is_not_searched() -> None:
    row = row_of("{}", {"blob": MessageAttribute("Binary", b"4711")})

    assert places(row, "4711") == []


def test_pattern_is_searched_in_all_of_it() -> None:
    row = row_of('{"order": "ORD-4711"}', {"tenant": text("acme-12")})

    assert places(row, "ORD-47[0-9]+", is_pattern=True) == ["body.order"]
    assert places(row, "acme-[0-9]+", is_pattern=True) == ["attribute.tenant"]
    assert places(row, "^m-[0-9]$", is_pattern=True) == ["message_id", "first_id"]


@pytest.mark.parametrize(
    ("value", "is_pattern"), [("", False), ("", True), ("(", True), ("\ud800", False)]
)
def test_what_cannot_be_searched_is_refused(value: str, is_pattern: bool) -> None:
    with pytest.raises(InputError):
        Wanted(value, is_pattern=is_pattern)


values = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8)
json_values = st.recursive(
    values | st.integers() | st.booleans() | st.none(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(values, parts, max_size=3),
    max_leaves=8,
)


@given(json_values, values, st.booleans())
def test_every_value_of_a_json_body_is_found(value: Any, wanted: str, is_ascii: bool) -> None:
    body = json.dumps({"before": value, "field": wanted, "after": value}, ensure_ascii=is_ascii)

    assert "body.field" in places(row_of(body), wanted)


@given(st.lists(st.tuples(st.lists(st.sampled_from("abc")), st.booleans()), max_size=8))
def test_each_row_is_judged_by_its_own_attributes(drawn: list[tuple[list[str], bool]]) -> None:
    rows = []
    expected = []
    for names, has_value in drawn:
        attributes = {name: text("other") for name in names}
        if has_value:
            attributes["d"] = text("4711")
        rows.append(row_of("{}", attributes))
        expected.append(has_value)
    table = to_table(rows)

    assert matching_rows(table, Wanted("4711")).to_pylist() == expected
    half = len(rows) // 2
    for batch in table.slice(half).combine_chunks().to_batches():
        assert matching_rows(batch, Wanted("4711")).to_pylist() == expected[half:]


def test_no_row_is_no_match() -> None:
    assert matching_rows(to_table([]), Wanted("1")).to_pylist() == pa.array([]).to_pylist()
