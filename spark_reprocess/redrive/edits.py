"""A plan's edits on the messages of its groups: SQL and JSON Patch, applied, checked and shown.

An edited copy always carries ``sqs-dlq-context`` with the message's first id, which shows where it
came from. A message without room for that is left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from functools import cache
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import (
    BinaryType,
    DataType,
    NullType,
    NumericType,
    StringType,
    StructType,
)

from dlq_replay.attributes import MAX_ATTRIBUTES, MessageAttribute
from dlq_replay.context import CONTEXT_ATTRIBUTE
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message
from dlq_replay.outgoing import redriven_entry
from spark_reprocess.analysis.mask import Masks, shorten
from spark_reprocess.archive.dead_letter_schema import ARROW_SCHEMA, from_row
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.message_frames import SPARK_SCHEMA
from spark_reprocess.editing.edit import AttributeChange, Edit
from spark_reprocess.editing.json_text import INDENTED, JsonTextError, read_json
from spark_reprocess.editing.patch import EditError
from spark_reprocess.errors import InputError
from spark_reprocess.spark.allowed_sql import Place
from spark_reprocess.spark.conditions import attribute_value, explained, matching

FAULT = "edit_fault"
"""A column: why a message cannot be edited; null if it can, or if its group has no edit."""

LIMIT = "max_message_bytes"
"""A column: how large the edited message may be."""

CHANGES = "attribute_changes"
"""A column: the values of the group's ``set_attributes`` for this message."""

_CHANGE = "struct<name: string, data_type: string, string_value: string, binary_value: binary>"
_FAULT_SCHEMA = "message_id string, edit_fault string"

_PREVIEW_SAMPLES = 3
"""Messages shown of each group."""

_CONTEXT_LINES = 2
_MOST_LINES = 40
_LINE_CHARACTERS = 160
_ANY_SIZE = 2**63
_OURS = (CONTEXT_ATTRIBUTE, REPLAY_COUNT_ATTRIBUTE)


@dataclass(frozen=True, slots=True)
class Editor:
    """Makes messages of rows, edited if their group has an edit. Tasks carry it.

    Attributes:
        edits: by group id.
        plan_id: goes into the context of what is sent, and so counts against its size.
        keep_counter: whether the replay count stays.
        max_message_bytes: the destination's limit, for rows without ``LIMIT``.
    """

    edits: Mapping[str, Edit]
    plan_id: str
    keep_counter: bool
    max_message_bytes: int

    def message(self, row: Mapping[str, Any]) -> Message:
        """Return the message of an archived row that also has ``group_id`` and ``CHANGES``.

        Its ``LIMIT``, where it has one, counts in place of *max_message_bytes*.

        Raises:
            EditError: its group's edit does not fit it.
        """
        original = from_row(row)
        edit = self.edits.get(row["group_id"])
        if edit is None:
            return original
        edited = edit.apply(original, [_attribute_change(one) for one in row[CHANGES] or ()])
        if not self._has_room(edited, _ANY_SIZE):
            raise EditError(
                f"SQS takes {MAX_ATTRIBUTES} attributes, and one must be {CONTEXT_ATTRIBUTE}, "
                "which names the message's origin"
            )
        max_message_bytes = row.get(LIMIT, self.max_message_bytes)
        if not self._has_room(edited, max_message_bytes):
            limit = f"{max_message_bytes:,} bytes"
            raise EditError(f"it would be larger than the queue's MaximumMessageSize, {limit}")
        return edited

    def faults(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Edit each row. Yield the rows that cannot be edited, with the reason: ``FAULT``."""
        for batch in batches:
            found = []
            for row in batch.to_pylist():
                try:
                    self.message(row)
                except EditError as error:
                    found.append((row["message_id"], str(error)))
            ids, faults = zip(*found, strict=True) if found else ((), ())
            columns = [pa.array(ids, pa.string()), pa.array(faults, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, ["message_id", FAULT])

    def _has_room(self, edited: Message, max_message_bytes: int) -> bool:
        entry = redriven_entry(
            edited,
            self.plan_id,
            to_fifo=False,
            keep_counter=self.keep_counter,
            max_message_bytes=max_message_bytes,
        )
        return CONTEXT_ATTRIBUTE in entry.attributes


def _attribute_change(change: Mapping[str, Any]) -> AttributeChange:
    name, data_type = change["name"], change["data_type"]
    value = change["binary_value"] if data_type == "Binary" else change["string_value"]
    return name, None if value is None else MessageAttribute(data_type, value)


SqlCheck = Callable[[str], str | None]
"""Returns what is wrong with an SQL text, None if nothing is."""


def sql_checks(spark: SparkSession) -> tuple[SqlCheck, SqlCheck]:
    """Return the checks of a plan's SQL: of its ``where``, and of ``set_attributes``."""

    @cache
    def nothing() -> DataFrame:
        schema = cast("StructType", StructType.fromDDL(f"{SPARK_SCHEMA}, drain_id string"))
        return spark.createDataFrame([], schema)

    def in_condition(sql: str) -> str | None:
        try:
            matching(nothing(), sql, Place.PLAN_WHERE)
        except InputError as error:
            return str(error)
        return None

    def in_expression(sql: str) -> str | None:
        try:
            _, kind = attribute_value(nothing(), sql)
        except InputError as error:
            return str(error)
        if _attribute_type(kind) is None:
            return f"gives {kind.simpleString()}; cast it to string, binary or a number"
        return None

    return in_condition, in_expression


def with_changes(rows: DataFrame, edits: Mapping[str, Edit]) -> DataFrame:
    """Add ``CHANGES``."""
    changes = F.lit(None).cast(f"array<{_CHANGE}>")
    for group_id, edit in edits.items():
        if edit.set_attributes:
            of_group = F.array(*(_change(rows, *pair) for pair in edit.set_attributes))
            changes = F.when(F.col("group_id") == group_id, of_group).otherwise(changes)
    return rows.withColumn(CHANGES, changes)


def attribute_changes(
    spark: SparkSession, rows: Sequence[Mapping[str, Any]], edit: Edit
) -> dict[str, list[AttributeChange]]:
    """Evaluate an edit's ``set_attributes`` on archived rows; return the values by message id.

    Raises:
        InputError: the operator's SQL fails on one of them.
    """
    archived = pa.Table.from_pylist([dict(row) for row in rows], schema=ARROW_SCHEMA)
    frame = spark.createDataFrame(archived, SPARK_SCHEMA)
    marked = frame.withColumn("group_id", F.lit("-"))
    with explained(None, ["set_attributes of the group"]):
        found = with_changes(marked, {"-": edit}).select("message_id", CHANGES).toArrow()
    return {
        row["message_id"]: [_attribute_change(one) for one in row[CHANGES] or ()]
        for row in found.to_pylist()
    }


def with_edit_faults(numbered: DataFrame, messages: DataFrame, editor: Editor) -> DataFrame:
    """Add ``FAULT`` to a plan's numbered messages: edit those that have an edit, as a test."""
    if not editor.edits:
        return numbered.drop(LIMIT).withColumn(FAULT, F.lit(None).cast("string"))
    groups = numbered.where(F.col("selected") & F.col("group_id").isin(*editor.edits))
    known = groups.select("message_id", "group_id", LIMIT)
    rows = messages.join(known, on="message_id", how="inner")
    faults = with_changes(rows, editor.edits).mapInArrow(editor.faults, _FAULT_SCHEMA)
    return numbered.drop(LIMIT).join(faults, on="message_id", how="left")


def _change(rows: DataFrame, name: str, sql: str | None) -> Column:
    value, data_type = (F.lit(None), NullType()) if sql is None else attribute_value(rows, sql)
    kind = _attribute_type(data_type)
    is_binary = kind == "Binary"
    fields = (
        F.lit(name).alias("name"),
        F.lit(kind).alias("data_type"),
        F.lit(None).cast("string") if is_binary else value.cast("string").alias("string_value"),
        value.cast("binary") if is_binary else F.lit(None).cast("binary"),
    )
    return F.struct(*fields).cast(_CHANGE)


def _attribute_type(kind: DataType) -> str | None:
    match kind:
        case StringType() | NullType():
            return "String"
        case NumericType():
            return "Number"
        case BinaryType():
            return "Binary"
        case _:
            return None


@dataclass(frozen=True, slots=True)
class EditSample:
    """One message of a group; *lines* begin with ``+``, ``-``, ``@`` or a space, as in a patch."""

    group_id: str
    message_id: str
    lines: tuple[str, ...]


def edit_samples(
    messages: DataFrame, dispositions: DataFrame, editor: Editor, masks: Masks
) -> tuple[EditSample, ...]:
    """Show what the edit of each group changes in the first messages that are to be sent."""
    if not editor.edits:
        return ()
    order = Window.partitionBy("group_id").orderBy("place")
    is_edited = F.col("group_id").isin(*editor.edits)
    chosen = (
        dispositions.where((F.col("disposition") == Disposition.SEND) & is_edited)
        .withColumn("rank", F.row_number().over(order))
        .where(F.col("rank") <= _PREVIEW_SAMPLES)
        .select("message_id", "group_id", "rank")
    )
    rows = messages.join(chosen, on="message_id", how="inner")
    table = with_changes(rows, editor.edits).orderBy("group_id", "rank").toArrow()
    return tuple(
        # These were found to fit their destinations.
        edit_sample(
            row["group_id"], from_row(row), editor.message({**row, LIMIT: _ANY_SIZE}), masks
        )
        for row in table.to_pylist()
    )


def edit_sample(group_id: str, before: Message, after: Message, masks: Masks) -> EditSample:
    """Show what changed between the two, shortened.

    Both are masked before they are compared, so the difference shows nothing that a mask hides.
    """
    old, new = list(_lines(before, masks)), list(_lines(after, masks))
    found = unified_diff(old, new, lineterm="", n=_CONTEXT_LINES)
    lines = [f"{line[0]}{_shorten_line(line[1:])}" for line in found][2:]
    if not lines:
        same = (before.body, before.attributes) == (after.body, after.attributes)
        lines = [" nothing changes" if same else " only what is masked changes"]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f" … {len(lines) - _MOST_LINES} more lines"]
    return EditSample(group_id, before.message_id, tuple(lines))


def _shorten_line(line: str) -> str:
    """Shorten a line for a terminal; its indentation stays."""
    bare = line.lstrip(" ")
    return line[: len(line) - len(bare)] + shorten(bare, _LINE_CHARACTERS)


def _lines(message: Message, masks: Masks) -> Iterator[str]:
    try:
        body = INDENTED.write(masks.tree("body", read_json(message.body)))
    except JsonTextError:
        body = message.body
    yield from masks.text(body).splitlines()
    for name, attribute in sorted(message.attributes.items()):
        if name not in _OURS:
            shown = masks.value(f"attribute.{name}", _format(attribute))
            yield f"attribute {masks.text(name)} ({attribute.data_type}): {shown}"


def _format(attribute: MessageAttribute) -> str:
    if isinstance(attribute.value, str):
        return attribute.value
    return f"{len(attribute.value):,} bytes"
