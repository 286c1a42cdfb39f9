"""The table ``messages.parquet`` of a plan: the group and the position of each message it froze.

``analyze`` writes it, and later verbs join it, so that no body is grouped twice. It is in the
archive, found by the plan's id, wherever the report is. It holds no content, and stays when a
message is erased: a position never changes.

Columns: ``message_id``; ``group_id``; ``unit`` and ``position``, from 0, see ``numbered``;
``file``: path below the archive's root of the file with the message. Where a message has several
rows, it is the file of the one that is kept. Erasing a message replaces its file by one with
another name.

``plan_messages`` joins it with the archive; ``check_messages`` checks the result against what the
plan froze.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.erasures import ErasedOfPlan, erased_of, erasures
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.frames import (
    DRIVER_ROWS,
    FILE,
    Held,
    arrival_order,
    column_texts,
    message_set,
    read_archive,
    read_rows,
    read_table,
    write_table,
)
from spark_reprocess.archive.message_index import table_folder
from spark_reprocess.archive.message_store import require_drains
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
        InputError: the archive lacks the plan's table, or has another one under its id, or lacks
            one of its drains.
        ArchiveError: the table or the archive cannot be read.
    """
    folder, digest = table_folder(plan.plan_id), plan.snapshot.table_sha256
    if table_digest(archive, folder) is None:
        require_drains(archive, plan.snapshot.drain_ids)
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
    archive: Archive,
    plan: Plan,
    table: DataFrame,
    columns: Sequence[str] | None,
    *,
    each_once: bool,
) -> tuple[DataFrame, DataFrame]:
    """Join a plan's *table* with the archive.

    *columns*, ``message_id`` among them, are wanted of each message; None for all. With *each_once*
    a message that a crash left in two files comes once; this looks at all ids first.

    Returns:
        The archive's rows of the plan's drains; others than the plan's may be among them. And
        *columns* of the plan's messages, with the columns of *table*.

    Raises:
        InputError: the archive lacks one of the plan's drains.
    """
    spark, drains = table.sparkSession, plan.snapshot.drain_ids
    if each_once:
        rows = read_archive(spark, archive, drains).drop(FILE)
        wanted = rows.select(*columns or rows.columns)
    else:
        rows, wanted = read_rows(spark, archive, drains, columns or ["message_id"])
        rows = rows.drop(FILE)
        wanted = wanted if columns else rows
    return rows, wanted.join(table, on="message_id", how="inner")


def erased_messages(archive: Archive, table: DataFrame, rows: DataFrame) -> list[ErasedOfPlan]:
    """Return who erased which messages of a plan's *table*. Brings no other ids to the driver.

    *rows* are those of the plan's drains.
    """
    records = erasures(archive)
    erased = {message_id for record in records for message_id in record.messages}
    if not erased:
        return []
    named = pa.table({"message_id": pa.array(sorted(erased), pa.string())})
    ids = F.broadcast(table.sparkSession.createDataFrame(named))
    found = column_texts(rows.select("message_id").join(ids, "message_id", "left_semi"))
    frozen = column_texts(table.select("message_id").join(ids, "message_id", "left_semi"))
    return erased_of(records, set(frozen) - set(found))


def check_messages(plan: Plan, messages: Held, erased: Sequence[str]) -> bool:
    """Check the ids of *messages*, and the *erased* ones, against the digest that the plan froze.

    Returns:
        Whether each message has one row.

    Raises:
        InputError: the archive does not hold this set of messages.
    """
    gone = pa.table({"message_id": pa.array(erased, pa.string())})
    if messages.table is not None:
        found = message_set(pa.concat_tables([messages.table.select(["message_id"]), gone]))
    else:
        ids = messages.frame.select("message_id")
        found = message_set(ids.union(ids.sparkSession.createDataFrame(gone)) if erased else ids)
    snapshot = plan.snapshot
    if (found.messages, found.sha256) != (snapshot.messages, snapshot.sha256):
        raise InputError(
            f"plan {plan.plan_id}: its drains hold {found.messages - len(erased)} messages, not "
            f"the {snapshot.messages} that it froze, or others; the archive has changed since or "
            "is another one: analyze again"
        )
    return found.rows == found.messages
