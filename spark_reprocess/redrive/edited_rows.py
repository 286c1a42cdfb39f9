"""DataFrame to DataFrame: a plan's edits, evaluated by Spark. Nothing here sends."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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

from spark_reprocess.archive.dead_letter_schema import SPARK_SCHEMA
from spark_reprocess.editing.edit import Edit
from spark_reprocess.errors import InputError
from spark_reprocess.plan.reading import SqlFaults
from spark_reprocess.redrive.editor import CHANGES, Editor
from spark_reprocess.spark.allowed_sql import Place
from spark_reprocess.spark.conditions import attribute_value, matching

FAULT = "edit_fault"
"""Why a message cannot be edited; null where it can, or need not be."""

_FAULT_SCHEMA = "message_id string, edit_fault string"
_FIELDS: "list[pa.Field[Any]]" = [pa.field("message_id", pa.string()), pa.field(FAULT, pa.string())]
_FAULTS = pa.schema(_FIELDS)
_CHANGE = "struct<name: string, data_type: string, string_value: string, binary_value: binary>"


def sql_faults(spark: SparkSession) -> SqlFaults:
    """Return what says what is wrong with the SQL of a plan."""

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

    return SqlFaults(in_condition, in_expression)


def with_changes(rows: DataFrame, edits: Mapping[str, Edit]) -> DataFrame:
    """Add ``CHANGES``: of each row the new attribute values that its group's expressions give."""
    changes = F.lit(None).cast(f"array<{_CHANGE}>")
    for group_id, edit in edits.items():
        if edit.set_attributes:
            of_group = F.array(*(_change(rows, *pair) for pair in edit.set_attributes))
            changes = F.when(F.col("group_id") == group_id, of_group).otherwise(changes)
    return rows.withColumn(CHANGES, changes)


def with_edit_faults(numbered: DataFrame, messages: DataFrame, editor: Editor) -> DataFrame:
    """Add ``FAULT`` to a plan's numbered messages; edits those that have an edit, to find out."""
    if not editor.edits:
        return numbered.withColumn(FAULT, F.lit(None).cast("string"))
    groups = numbered.where(F.col("selected") & F.col("group_id").isin(*editor.edits))
    rows = messages.join(groups.select("message_id", "group_id"), on="message_id", how="inner")
    changed = with_changes(rows, editor.edits)
    faults = changed.mapInArrow(_FaultFinder(editor).find, _FAULT_SCHEMA)
    return numbered.join(faults, on="message_id", how="left")


def first_rows(
    messages: DataFrame, dispositions: DataFrame, edits: Mapping[str, Edit], count: int
) -> list[dict[str, Any]]:
    """The first *count* rows to be sent of each group that has an edit, ready to be edited."""
    order = Window.partitionBy("group_id").orderBy("place")
    chosen = (
        dispositions.where((F.col("disposition") == "send") & F.col("group_id").isin(*edits))
        .withColumn("rank", F.row_number().over(order))
        .where(F.col("rank") <= count)
        .select("message_id", "group_id", "rank")
    )
    rows = messages.join(chosen, on="message_id", how="inner")
    table = with_changes(rows, edits).orderBy("group_id", "rank").toArrow()
    return [dict(row) for row in table.to_pylist()]


@dataclass(frozen=True, slots=True)
class _FaultFinder:
    """What each task takes along; ``find`` is what Spark calls."""

    editor: Editor

    def find(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = ((row["message_id"], self.editor.fault(row)) for row in batch.to_pylist())
            rows = [{"message_id": one, FAULT: fault} for one, fault in found if fault]
            yield pa.RecordBatch.from_pylist(rows, schema=_FAULTS)


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
