"""The table ``messages.parquet`` of a plan: the group and the file of each message that it froze.

``analyze`` writes it into the archive, wherever the report is, and later verbs join it. It holds no
content, and stays when a message is erased.

Columns: ``message_id``; ``group_id``; ``unit`` and ``position``, from 0, see ``with_positions``;
``file``: path below the archive's root of the file with the message. Erasing a message replaces its
file by one with another name.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.messages.frames import (
    DRIVER_ROWS,
    FILE,
    read_rows,
    read_table,
    write_table,
)
from spark_reprocess.archive.messages.message_index import read_table_columns, table_folder
from spark_reprocess.archive.messages.message_order import (
    ORDER_COLUMNS,
    in_order_units,
    with_positions,
)
from spark_reprocess.archive.messages.message_store import drain_of, message_files
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.plan.plan import Plan
from spark_reprocess.spark.failures import explained

FOR_PEOPLE = ("first_id", "sent_at", "receive_count", "body_bytes")
"""Columns for ``message_index``: no verb of a plan needs them."""

TABLE_COLUMNS = tuple(dict.fromkeys((*ORDER_COLUMNS, FILE, *FOR_PEOPLE)))
"""What a table is made of, beside ``group_id``."""

_COLUMNS = f"message_id string, group_id string, unit string, position long, {FILE} string"


def write_message_table(grouped: DataFrame, archive: Archive, plan_id: str, messages: int) -> str:
    """Save the table of a plan; return its digest. Raises ArchiveError.

    *grouped* has ``TABLE_COLUMNS`` and ``group_id``, one row for each of so many *messages*.
    """
    columns = ("message_id", "group_id", "unit", "position", FILE, *FOR_PEOPLE)
    rows = with_positions(grouped, in_order_units(messages)).select(*columns)
    with explained():
        held = rows.toArrow() if messages <= DRIVER_ROWS else rows
    return write_table(held, archive, table_folder(plan_id))


def message_table(spark: SparkSession, archive: Archive, plan: Plan) -> DataFrame:
    """Return the table of *plan*, see ``read_table``."""
    folder, digest = table_folder(plan.plan_id), plan.snapshot.table_sha256
    return read_table(spark, archive, folder, _COLUMNS, digest)


def plan_messages(
    archive: Archive, plan: Plan, table: DataFrame, columns: Sequence[str] | None
) -> tuple[DataFrame, DataFrame]:
    """Join a plan's *table* with the archive. Raises ArchiveError.

    *columns*, ``message_id`` and ``FILE`` among them, are wanted of each message; None for all.

    Returns:
        The archive's rows of the files with messages of the plan. And *columns* of those of the
        plan's messages that are still there, a row each, with the columns of *table*; ``FILE`` is
        where the row is.
    """
    column = read_table_columns(archive, plan.plan_id, [FILE], plan.snapshot.table_sha256)[FILE]
    named = set(map(str, column.unique().to_pylist()))
    existing = set(message_files(archive, set(map(drain_of, named))))
    # An erasure has replaced a file: its rows are in another one of the drain.
    replaced = set(map(drain_of, named - existing))
    paths = sorted(path for path in existing if path in named or drain_of(path) in replaced)
    rows, slim = read_rows(table.sparkSession, archive, paths, columns or [FILE])
    slim = slim if columns else rows
    if not replaced:
        return rows, slim.join(table, ["message_id", FILE])
    joined = slim.join(table.withColumnRenamed(FILE, "_named"), "message_id")
    order = Window.partitionBy("message_id").orderBy(F.col(FILE) != F.col("_named"), FILE)
    ranked = joined.withColumn("_copy", F.row_number().over(order))
    return rows, ranked.where("_copy = 1").drop("_copy", "_named")
