"""Which message is in which group of a plan, read from its table without Spark.

``analysis.message_table`` describes the table and writes it.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.table_parts import read_part_table

REPORTS = "reports"
TABLE = "messages.parquet"

_TYPES: dict[str, pa.DataType] = {
    "message_id": pa.string(),
    "group_id": pa.string(),
    "unit": pa.string(),
    "position": pa.int64(),
    "file": pa.string(),
}
_SCHEMA = pa.schema(_TYPES)


@dataclass(frozen=True, slots=True)
class Member:
    """One message of a group.

    Attributes:
        file: path below the archive's root of the file that had the message when it was analyzed.
    """

    message_id: str
    file: str


def table_folder(plan_id: str) -> str:
    """Where a plan's table is, below the archive's root."""
    return f"{REPORTS}/{plan_id}/{TABLE}"


def read_members(archive: Archive, plan_id: str, digest: str, group_id: str) -> list[Member]:
    """Return the messages of a group in the plan's order.

    Raises:
        InputError: the table is another one than the plan's.
        ArchiveError: the table is missing, or was changed.
    """
    table = read_part_table(archive, table_folder(plan_id), _SCHEMA, digest)
    of_group = table.filter(pc.field("group_id") == group_id)
    in_order = of_group.sort_by([("unit", "ascending"), ("position", "ascending")])
    return [Member(row["message_id"], row["file"]) for row in in_order.to_pylist()]
