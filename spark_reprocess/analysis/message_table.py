"""The table ``messages.parquet`` of a plan: the group and the position of each message it froze.

``analyze`` writes it, and later verbs join it, so that no body is grouped twice. It is in the
archive, found by the plan's id, wherever the report is. It holds no content, and stays when a
message is erased: a position never changes.

Columns: ``message_id``; ``group_id``; ``unit`` and ``position``, from 0, see ``numbered``;
``file``: path below the archive's root of the file with the message. Where a message has several
rows, it is the file of the one that is kept. Erasing a message replaces its file by one with
another name. ``plan_messages`` joins it with the archive; what the archive lacks is gone.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.frames import (
    DRIVER_ROWS,
    FILE,
    arrival_order,
    read_rows,
    read_table,
    write_table,
)
from spark_reprocess.archive.message_index import read_table_columns, table_folder
from spark_reprocess.archive.message_store import drain_of, message_files
from spark_reprocess.archive.table_parts import table_digest
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Plan
from spark_reprocess.spark.failures import explained

NUMBERING_COLUMNS = (
    "message_id",
    "message_group_id",
    "sequence_number",
    "sent_at",
    "queue_url",
    FILE,
)
"""What ``numbered`` needs of each message beside its ``group_id``."""

FOR_PEOPLE = ("first_id", "sent_at", "receive_count", "body_bytes")
"""Columns that find a message, or sort a group, without opening the files of messages: no verb of a
plan needs them. See ``archive.message_index``."""

TABLE_COLUMNS = tuple(dict.fromkeys((*NUMBERING_COLUMNS, *FOR_PEOPLE)))
"""What a table is made of, beside ``group_id``."""

_COLUMNS = f"message_id string, group_id string, unit string, position long, {FILE} string"
_UNIT_MESSAGES = 1000
_MOST_UNITS = 64


def write_message_table(grouped: DataFrame, archive: Archive, plan_id: str, messages: int) -> str:
    """Number the messages of a plan and save their table; return its digest.

    *grouped* has ``TABLE_COLUMNS`` and ``group_id``, one row for each of so many *messages*.

    Raises:
        ArchiveError: it cannot be written.
    """
    rows = numbered(grouped, messages)
    with explained(None):
        held = rows.toArrow() if messages <= DRIVER_ROWS else rows
    return write_table(held, archive, table_folder(plan_id))


def message_table(spark: SparkSession, archive: Archive, plan: Plan) -> DataFrame:
    """Return the table of *plan*. Lazy.

    Raises:
        InputError: the archive lacks the plan's table, or has another one under its id.
        ArchiveError: the table or the archive cannot be read.
    """
    folder, digest = table_folder(plan.plan_id), plan.snapshot.table_sha256
    if table_digest(archive, folder) is None:
        raise InputError(
            f"plan {plan.plan_id}: archive {archive.root} lacks its table {folder}; somebody "
            "removed it, or this is another archive: analyze again"
        )
    return read_table(spark, archive, folder, _COLUMNS, digest)


def numbered(grouped: DataFrame, messages: int) -> DataFrame:
    """Return the table's columns: where each message is in a plan of so many, the same always.

    A unit is a group. Of a FIFO parked queue, where a message group may be spread over several
    groups of the plan, a unit is a share of the message groups, by a hash of their ids.
    """
    is_ordered = F.col("message_group_id").isNotNull() & F.rtrim("queue_url", F.lit("/")).endswith(
        ".fifo"
    )
    unit = F.when(is_ordered, in_order_unit(in_order_units(messages))).otherwise(F.col("group_id"))
    kept = [name for name in FOR_PEOPLE if name in grouped.columns]
    columns = ("message_id", "group_id", "unit", "position", FILE, *kept)
    return with_positions(grouped, unit).select(*columns)


def with_positions(rows: DataFrame, unit: Column) -> DataFrame:
    """Add ``unit``, and ``position``: the place within it, from 0, as SQS got the messages."""
    order = Window.partitionBy("unit").orderBy(*arrival_order())
    return rows.withColumn("unit", unit).withColumn("position", F.row_number().over(order) - 1)


def in_order_units(messages: int) -> int:
    """How many units a plan of so many messages has for a FIFO queue: 1 to 64."""
    return max(1, min(_MOST_UNITS, messages // _UNIT_MESSAGES))


def in_order_unit(units: int) -> Column:
    """Which of so many units a message group is in."""
    group = F.coalesce("message_group_id", F.lit("")).cast("binary")
    return F.format_string("in-order-%02d", F.crc32(group) % units)


def plan_messages(
    archive: Archive, plan: Plan, table: DataFrame, columns: Sequence[str] | None
) -> tuple[DataFrame, DataFrame]:
    """Join a plan's *table* with the archive.

    *columns*, ``message_id`` and ``FILE`` among them, are wanted of each message; None for all.

    Returns:
        The archive's rows of the drains with messages of the plan. And *columns* of those of the
        plan's messages that are still there, a row each, with the columns of *table*; ``FILE`` is
        where the row is.

    Raises:
        ArchiveError: the table or the archive cannot be read.
    """
    paths = read_table_columns(archive, plan.plan_id, [FILE], plan.snapshot.table_sha256)[FILE]
    named = set(map(str, paths.unique().to_pylist()))
    existing = set(message_files(archive, set(map(drain_of, named))))
    # A drain of which all messages are gone has no files.
    drains = sorted(set(map(drain_of, existing)))
    rows, slim = read_rows(table.sparkSession, archive, drains, columns or [FILE])
    slim = slim if columns else rows
    if named <= existing:
        return rows, slim.join(table, ["message_id", FILE])
    # An erasure has replaced a file: its rows are in another one of the drain.
    joined = slim.join(table.withColumnRenamed(FILE, "_named"), "message_id")
    order = Window.partitionBy("message_id").orderBy(F.col(FILE) != F.col("_named"), FILE)
    ranked = joined.withColumn("_copy", F.row_number().over(order))
    return rows, ranked.where("_copy = 1").drop("_copy", "_named")
