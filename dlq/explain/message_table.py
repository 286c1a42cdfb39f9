"""The table ``messages.parquet`` of a plan: the group and the file of each message that it froze.

``analyze`` writes it into the archive, wherever the report is, and later verbs read it with
``message_index``. It holds no content, and stays when a message is erased.

Columns: ``message_id``; ``group_id``; ``unit`` and ``position``, from 0, see ``with_positions``;
``file``: path below the archive's root of the file with the message. Erasing a message replaces its
file by one with another name.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq.archive.ledger.claims import in_order_units
from dlq.archive.messages.dead_letter_schema import ORDER_COLUMNS
from dlq.archive.messages.frames import DRIVER_ROWS, FILE, write_table
from dlq.archive.messages.message_index import table_folder
from dlq.archive.storage.files import Archive
from spark_reprocess.failures import explained

FOR_PEOPLE = ("first_id", "sent_at", "receive_count", "body_bytes")
"""Columns for ``message_index``: no verb of a plan needs them."""

TABLE_COLUMNS = tuple(dict.fromkeys((*ORDER_COLUMNS, FILE, *FOR_PEOPLE)))
"""What a table is made of, beside ``group_id``."""


def write_message_table(grouped: DataFrame, archive: Archive, plan_id: str, messages: int) -> str:
    """Save the table of a plan; return its digest. Raises ArchiveError.

    *grouped* has ``TABLE_COLUMNS`` and ``group_id``, one row for each of so many *messages*.
    """
    columns = ("message_id", "group_id", "unit", "position", FILE, *FOR_PEOPLE)
    rows = with_positions(grouped, in_order_units(messages)).select(*columns)
    with explained():
        held = rows.toArrow() if messages <= DRIVER_ROWS else rows
    return write_table(held, archive, table_folder(plan_id))


def with_positions(rows: DataFrame, units: int) -> DataFrame:
    """Add ``unit`` and ``position``; the rule is that of ``redrive.ids.order.with_positions``."""
    has_group = F.col("message_group_id").isNotNull()
    share = F.crc32(F.col("message_group_id").cast("binary")) % units
    arrived = ("sequence_number", "sent_at", "message_id")
    order = Window.partitionBy("unit").orderBy(F.length("sequence_number"), *arrived)
    in_order = (
        rows.where(has_group)
        .withColumn("unit", F.format_string("in-order-%02d", share))
        .withColumn("position", F.row_number().over(order).cast("long") - 1)
    )
    return in_order.unionByName(rows.where(~has_group), allowMissingColumns=True)
