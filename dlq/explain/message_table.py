"""The table ``messages.parquet`` of a plan: the group and the file of each message that it froze.

``analyze`` writes it into the archive, wherever the report is, and later verbs read it with
``message_index``. It holds no content, and stays when a message is erased.

Columns: ``message_id``; ``group_id``; ``unit`` and ``position``, from 0, see ``with_positions``;
``file``: path below the archive's root of the file with the message. Erasing a message replaces its
file by one with another name.
"""

import pyarrow as pa

from dlq.archive.ledger.claims import in_order_units
from dlq.archive.messages.dead_letter_schema import ORDER_COLUMNS
from dlq.archive.messages.message_index import table_folder
from dlq.archive.messages.message_reading import FILE
from dlq.archive.storage.files import Archive
from dlq.archive.storage.table_parts import write_whole
from dlq.ids.order import with_positions

FOR_PEOPLE = ("first_id", "sent_at", "receive_count", "body_bytes")
"""Columns for ``message_index``: no verb of a plan needs them."""

TABLE_COLUMNS = tuple(dict.fromkeys((*ORDER_COLUMNS, FILE, *FOR_PEOPLE)))
"""The columns from which a table is made, beside ``group_id``."""

_FILE_ROWS = 250_000
"""Rows of one file: some 30 MB in memory."""


def write_message_table(grouped: pa.Table, archive: Archive, plan_id: str) -> str:
    """Save the table of a plan; return its digest. Raises ArchiveError.

    *grouped* has ``TABLE_COLUMNS`` and ``group_id``, one row for each message.
    """
    columns = ["message_id", "group_id", "unit", "position", FILE, *FOR_PEOPLE]
    rows = with_positions(grouped, in_order_units(grouped.num_rows)).select(columns)
    files = [rows.slice(start, _FILE_ROWS) for start in range(0, rows.num_rows, _FILE_ROWS)]
    return write_whole(archive, table_folder(plan_id), files)
