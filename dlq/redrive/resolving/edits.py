"""A plan's edits on the messages of its groups, in Spark: SQL and JSON Patch; see ``editor``."""

from collections.abc import Collection, Mapping
from functools import cache
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, DataType, NullType, NumericType, StringType, StructType

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.messages.dead_letter_schema import from_row
from dlq.archive.messages.frames import FILE, SPARK_SCHEMA, read_some
from dlq.archive.storage.files import Archive
from dlq.aws.actor import text_of
from dlq.errors import InputError
from dlq.explain.signature.mask import Masks
from dlq.plan.edit import Edit
from dlq.plan.reading import SqlCheck
from dlq.redrive.ids.columns import (
    arrow,
    have_disposition,
    in_order_of,
    numbered_values,
    values_among,
)
from dlq.redrive.ids.order import runs_of
from dlq.redrive.resolving.editor import (
    CHANGES,
    FAULTS,
    Editor,
    EditSample,
    edit_sample,
)
from spark_reprocess.allowed_sql import attribute_value
from spark_reprocess.evaluation import to_arrow

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


def edit_faults(
    spark: SparkSession, archive: Archive, edited: pa.Table, editor: Editor
) -> pa.Table:
    """Edit messages as a test; return ``FAULTS`` of those that cannot be edited.

    *edited* has ``message_id``, ``FILE`` and ``group_id`` of each message whose group has an edit.
    """
    if not edited.num_rows:
        return FAULTS.empty_table()
    rows = with_changes(_in_groups(spark, archive, edited), editor.edits)
    return to_arrow(rows.mapInArrow(editor.faults, from_arrow_schema(FAULTS)))


def _in_groups(spark: SparkSession, archive: Archive, messages: pa.Table) -> DataFrame:
    """Read these messages, with all columns of *messages*: ``group_id`` is one."""
    known = messages.drop_columns([FILE])
    group_ids = known["group_id"].cast(pa.string())
    known = known.set_column(known.schema.get_field_index("group_id"), "group_id", group_ids)
    return read_some(spark, archive, messages).join(spark.createDataFrame(known), "message_id")


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
    spark: SparkSession, archive: Archive, dispositions: pa.Table, editor: Editor, masks: Masks
) -> tuple[EditSample, ...]:
    """Show what the edit of each group changes in the first messages that are to be sent."""
    chosen = _first_of_groups(dispositions, editor.edits)
    if not chosen.num_rows:
        return ()
    rows = with_changes(_in_groups(spark, archive, chosen), editor.edits)
    in_order = to_arrow(rows.orderBy("group_id", "rank"))
    return tuple(
        edit_sample(row["group_id"], from_row(row), editor.message(row), masks)
        for row in in_order.to_pylist()
    )


def _first_of_groups(dispositions: pa.Table, group_ids: Collection[str]) -> pa.Table:
    """Return the first messages to send of each of these groups, with their ``rank`` in it."""
    is_sent = have_disposition(dispositions, [Disposition.SEND])
    is_edited = values_among(dispositions["group_id"], group_ids)
    rows = dispositions.select(["message_id", FILE, "group_id", "position"])
    rows = rows.filter(pa.array(is_sent & is_edited))

    groups = numbered_values(rows["group_id"])
    order = in_order_of(
        {"group": arrow(groups), "position": rows["position"], "message_id": rows["message_id"]}
    )
    starts, lengths = runs_of(groups[order])
    ranks = np.arange(len(order)) - np.repeat(starts, lengths)
    is_first = ranks < _PREVIEW_SAMPLES
    first = rows.take(arrow(order[is_first])).drop_columns(["position"])
    return first.append_column("rank", arrow(ranks[is_first]))
