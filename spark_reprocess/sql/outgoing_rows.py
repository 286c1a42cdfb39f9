"""A DataFrame's row as an entry to send, and what its columns must be. Pure."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from dlq_replay.attributes import MAX_ATTRIBUTES, MessageAttribute
from dlq_replay.message import SendEntry
from dlq_replay.policy import MAX_MESSAGE_BYTES, MESSAGE_TIMER_MAX_SECONDS
from spark_reprocess.errors import InputError

_TEXT = StringType()
_TYPED_ATTRIBUTE = (
    StructType()
    .add("data_type", _TEXT)
    .add("string_value", _TEXT)
    .add("binary_value", BinaryType())
)
_COLUMNS: dict[str, tuple[DataType, ...]] = {
    "body": (_TEXT,),
    "attributes": (MapType(_TEXT, _TEXT), MapType(_TEXT, _TYPED_ATTRIBUTE)),
    "message_group_id": (_TEXT,),
    "deduplication_id": (_TEXT,),
    "trace_header": (_TEXT,),
    "delay_seconds": (IntegerType(), LongType()),
}


class RowError(ValueError):
    """A row that cannot be a message; the text never holds a part of it."""


def require_columns(schema: StructType, *, is_fifo: bool) -> None:
    """Check that rows of *schema* can be messages.

    Raises:
        InputError: a column is missing or of another type; all faults are named.
    """
    types = {field.name: field.dataType for field in schema}
    required = ("body", "message_group_id") if is_fifo else ("body",)
    faults = [f"{name}: is missing" for name in required if name not in types]
    faults += [
        f"{name}: is {types[name].simpleString()}; must be "
        + " or ".join(one.simpleString() for one in wanted)
        for name, wanted in _COLUMNS.items()
        if name in types and not any(_is_like(types[name], one) for one in wanted)
    ]
    if faults:
        lines = "\n".join(f"  {one}" for one in faults)
        raise InputError(f"format sqs: the columns have faults:\n{lines}")


def entry_of(row: Mapping[str, Any], *, is_fifo: bool) -> SendEntry:
    """Make the entry of a row in Arrow's spelling, where a map is a list of pairs.

    Raises:
        RowError: the row breaks a rule of SQS that no retry can mend.
    """
    if not row["body"]:
        raise RowError("body: is null or empty; SQS takes 1 character or more")
    if is_fifo and not row.get("message_group_id"):
        raise RowError("message_group_id: is null or empty; a FIFO queue needs one")
    entry = SendEntry(
        body=row["body"],
        attributes={name: _attribute(value) for name, value in row.get("attributes") or ()},
        message_group_id=row.get("message_group_id"),
        deduplication_id=row.get("deduplication_id") if is_fifo else None,
        trace_header=row.get("trace_header"),
        delay_seconds=_delay_seconds(row.get("delay_seconds"), is_fifo=is_fifo),
    )
    if len(entry.attributes) > MAX_ATTRIBUTES:
        raise RowError(f"attributes: are {len(entry.attributes)}; SQS takes {MAX_ATTRIBUTES}")
    if entry.size_bytes > MAX_MESSAGE_BYTES:
        raise RowError(f"message: is {entry.size_bytes:,} bytes; SQS takes {MAX_MESSAGE_BYTES:,}")
    return entry


def _attribute(value: str | Mapping[str, Any] | None) -> MessageAttribute:
    if isinstance(value, str):
        return MessageAttribute("String", value)
    if value is None or not value["data_type"]:
        raise RowError("attributes: one is null or has no data_type")
    content = value["binary_value"] if value["string_value"] is None else value["string_value"]
    if content is None:
        raise RowError("attributes: one has neither string_value nor binary_value")
    return MessageAttribute(value["data_type"], content)


def _delay_seconds(value: int | None, *, is_fifo: bool) -> int | None:
    if value is None:
        return None
    if is_fifo:
        raise RowError("delay_seconds: must be null; a FIFO queue takes no message timer")
    if not 0 <= value <= MESSAGE_TIMER_MAX_SECONDS:
        raise RowError(f"delay_seconds: must be from 0 to {MESSAGE_TIMER_MAX_SECONDS}")
    return value


def _is_like(found: DataType, wanted: DataType) -> bool:
    """Whether the types are the same but for what may be null."""
    return found.simpleString() == wanted.simpleString()
