from typing import Any

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from dlq_replay.attributes import MessageAttribute
from spark_reprocess.errors import InputError
from spark_reprocess.sql.writer import RowError, entry_of, require_columns

TYPED = (
    StructType()
    .add("data_type", StringType())
    .add("string_value", StringType())
    .add("binary_value", BinaryType())
)


def schema(**columns: DataType) -> StructType:
    fields = StructType()
    for name, data_type in columns.items():
        fields.add(name, data_type)
    return fields


def typed(data_type: str, value: str | bytes) -> dict[str, Any]:
    is_text = isinstance(value, str)
    return {
        "data_type": data_type,
        "string_value": value if is_text else None,
        "binary_value": None if is_text else value,
    }


def test_a_body_is_enough_on_a_standard_queue() -> None:
    require_columns(schema(body=StringType()), is_fifo=False)


def test_what_does_not_concern_a_message_is_ignored() -> None:
    require_columns(schema(body=StringType(), sent_at=LongType()), is_fifo=False)


@pytest.mark.parametrize(
    "attributes", [MapType(StringType(), StringType()), MapType(StringType(), TYPED)]
)
@pytest.mark.parametrize("delay", [IntegerType(), LongType()])
def test_attributes_and_timers_come_in_two_types(attributes: DataType, delay: DataType) -> None:
    columns = schema(body=StringType(), attributes=attributes, delay_seconds=delay)

    require_columns(columns, is_fifo=False)


def test_every_fault_of_the_columns_is_named() -> None:
    columns = schema(body=LongType(), attributes=StringType(), delay_seconds=StringType())

    with pytest.raises(InputError) as raised:
        require_columns(columns, is_fifo=True)

    text = str(raised.value)
    assert "message_group_id: is missing" in text
    assert "body: is bigint; must be string" in text
    assert "attributes: is string; must be map<string,string> or map<string,struct<" in text
    assert "delay_seconds: is string; must be int or bigint" in text


def test_a_row_becomes_an_entry_without_loss() -> None:
    row = {
        "body": "grüße",
        "attributes": [("n", typed("Number.float", "1.0E2")), ("b", typed("Binary", b"\x00\xff"))],
        "message_group_id": "tenant-1",
        "trace_header": "Root=1-2-3",
        "delay_seconds": 900,
    }

    entry = entry_of(row, is_fifo=False)

    assert entry.attributes == {
        "n": MessageAttribute("Number.float", "1.0E2"),
        "b": MessageAttribute("Binary", b"\x00\xff"),
    }
    assert (entry.body, entry.message_group_id, entry.delay_seconds) == ("grüße", "tenant-1", 900)
    assert entry.trace_header == "Root=1-2-3"


def test_plain_texts_are_string_attributes() -> None:
    entry = entry_of({"body": "b", "attributes": [("k", "v")]}, is_fifo=False)

    assert entry.attributes == {"k": MessageAttribute("String", "v")}


def test_a_deduplication_id_goes_to_fifo_queues_only() -> None:
    row = {"body": "b", "message_group_id": "g", "deduplication_id": "d"}

    assert entry_of(row, is_fifo=True).deduplication_id == "d"
    assert entry_of(row, is_fifo=False).deduplication_id is None


@pytest.mark.parametrize(
    ("row", "is_fifo", "rule"),
    [
        ({"body": None}, False, "body: is null or empty"),
        ({"body": ""}, False, "body: is null or empty"),
        ({"body": "b"}, True, "message_group_id: is null or empty"),
        ({"body": "b", "delay_seconds": 901}, False, "from 0 to 900"),
        ({"body": "b", "delay_seconds": -1}, False, "from 0 to 900"),
        ({"body": "b", "message_group_id": "g", "delay_seconds": 0}, True, "no message timer"),
        ({"body": "x" * 1_048_577}, False, "is 1,048,577 bytes"),
        ({"body": "b", "attributes": [(f"a{n}", "v") for n in range(11)]}, False, "are 11"),
        ({"body": "b", "attributes": [("a", None)]}, False, "null or has no data_type"),
        ({"body": "b", "attributes": [("a", typed("", "v"))]}, False, "no data_type"),
        (
            {"body": "b", "attributes": [("a", {**typed("String", "v"), "string_value": None})]},
            False,
            "neither",
        ),
    ],
)
def test_a_row_that_breaks_a_rule_says_which(row: dict[str, Any], is_fifo: bool, rule: str) -> None:
    with pytest.raises(RowError, match=rule):
        entry_of(row, is_fifo=is_fifo)
