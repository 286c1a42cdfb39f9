"""A plan's edits on the messages of its groups, in Spark: SQL and JSON Patch; see ``editor``."""

from collections.abc import Mapping
from functools import cache
from typing import cast

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, DataType, NullType, NumericType, StringType, StructType

from spark_reprocess.analysis.groups.mask import Masks
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.messages.dead_letter_schema import from_row
from spark_reprocess.archive.messages.frames import FILE, SPARK_SCHEMA
from spark_reprocess.aws.actor import text_of
from spark_reprocess.editing.edit import Edit
from spark_reprocess.errors import InputError
from spark_reprocess.plan.reading import SqlCheck
from spark_reprocess.redrive.resolving.editor import (
    CHANGES,
    FAULT,
    FAULTS,
    Editor,
    EditSample,
    edit_sample,
)
from spark_reprocess.spark.allowed_sql import attribute_value

_CHANGE = "struct<name: string, data_type: string, string_value: string, binary_value: binary>"

_PREVIEW_SAMPLES = 3
"""Messages shown of each group."""


def sql_check(spark: SparkSession) -> SqlCheck:
    """Return the check of the SQL in a plan's edits."""

    @cache
    def nothing() -> DataFrame:
        schema = cast("StructType", StructType.fromDDL(f"{SPARK_SCHEMA}, drain_id string"))
        return spark.createDataFrame([], schema)

    def fault_of(sql: str) -> str | None:
        try:
            _, kind = attribute_value(nothing(), sql)
        except InputError as error:
            return text_of(error)
        if _attribute_type(kind) is None:
            return f"gives {kind.simpleString()}; cast it to string, binary or a number"
        return None

    return fault_of


def with_changes(rows: DataFrame, edits: Mapping[str, Edit]) -> DataFrame:
    """Add ``CHANGES``."""
    changes = F.lit(None).cast(f"array<{_CHANGE}>")
    for group_id, edit in edits.items():
        if edit.set_attributes:
            of_group = F.array(*(_change(rows, *pair) for pair in edit.set_attributes))
            changes = F.when(F.col("group_id") == group_id, of_group).otherwise(changes)
    return rows.withColumn(CHANGES, changes)


def with_edit_faults(numbered: DataFrame, messages: DataFrame, editor: Editor) -> DataFrame:
    """Add ``FAULT`` to a plan's numbered messages: edit those that have an edit, as a test."""
    if not editor.edits:
        return numbered.withColumn(FAULT, F.lit(None).cast("string"))
    groups = numbered.where(F.col("selected") & F.col("group_id").isin(*editor.edits))
    rows = messages.join(groups.select("message_id", FILE, "group_id"), on=["message_id", FILE])
    faults = with_changes(rows, editor.edits).mapInArrow(editor.faults, from_arrow_schema(FAULTS))
    return numbered.join(faults, on="message_id", how="left")


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
    types = {StringType: "String", NullType: "String", NumericType: "Number", BinaryType: "Binary"}
    return next((name for one, name in types.items() if isinstance(kind, one)), None)


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
        .select("message_id", FILE, "group_id", "rank")
    )
    edited = messages.join(chosen, on=["message_id", FILE])
    table = with_changes(edited, editor.edits).orderBy("group_id", "rank").toArrow()
    return tuple(
        edit_sample(row["group_id"], from_row(row), editor.message(row), masks)
        for row in table.to_pylist()
    )
