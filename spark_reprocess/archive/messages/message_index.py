"""Find messages by the tables of plans, without Spark and without opening files of messages.

``analysis.message_table`` describes a plan's table and writes it. It has each message's group and
file, its first id and what people sort by. So a group's list costs the reading of one table, not of
the whole archive.
"""

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.archive.messages.message_store import have_any, message_files, rows_named
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.archive.storage.table_parts import parts_of, read_part
from spark_reprocess.errors import ArchiveError

REPORTS = "reports"
"""The folder of an archive in which each report has one."""

TABLE = "messages.parquet"


class Member(NamedTuple):
    """One message of a group, and the path of the file that had it when it was analyzed."""

    message_id: str
    file: str


def table_folder(plan_id: str) -> str:
    """Where a plan's table is, below the archive's root."""
    return f"{REPORTS}/{plan_id}/{TABLE}"


def read_members(archive: Archive, plan_id: str, digest: str, group_id: str) -> list[Member]:
    """Return the messages of a group as SQS received them; *digest* is that which the plan names.

    Raises:
        InputError: the table is another one than the plan's.
    """
    order = ("unit", "position", "sent_at", "message_id")
    columns = ("group_id", "file", *order)
    table = read_table_columns(archive, plan_id, columns, digest)
    of_group = table.filter(pc.equal(table["group_id"].cast(pa.string()), pa.scalar(group_id)))
    in_order = of_group.sort_by([(name, "ascending") for name in order])
    return [Member(row["message_id"], row["file"]) for row in in_order.to_pylist()]


_NAMES = pa.dictionary(pa.int32(), pa.string())
_TIME = pa.timestamp("us", tz="UTC")
_TYPES: dict[str, pa.DataType] = {
    "message_id": pa.string(),
    "first_id": pa.string(),
    "group_id": _NAMES,
    "unit": pa.string(),
    "position": pa.int64(),
    "file": _NAMES,
    "sent_at": _TIME,
    "receive_count": pa.int32(),
    "body_bytes": pa.int64(),
}
_CONCURRENT_READS = 8
_MOST_TABLES = 100


def read_table_columns(
    archive: Archive, plan_id: str, columns: Sequence[str], digest: str | None = None
) -> pa.Table:
    """Read columns of a plan's table, which are in ``_TYPES``.

    Texts of which many are equal come as dictionaries. *digest* is that which the plan names; None
    accepts any table.

    Raises:
        InputError: the table has another digest.
    """
    folder = table_folder(plan_id)
    schema = pa.schema([(name, _TYPES[name]) for name in columns])
    read = partial(read_part, archive, folder, schema)
    with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="index") as executor:
        tables = list(executor.map(read, parts_of(archive, folder, digest)))
    return pa.concat_tables(tables).unify_dictionaries() if tables else schema.empty_table()


@lru_cache(maxsize=1)
def shown_table(archive: Archive, plan_id: str, digest: str) -> pa.Table:
    """Read what people look at of a plan's table, and keep the last one: it never changes.

    A million messages take 140 MB. Raises as ``read_table_columns`` does.
    """
    texts = ("message_id", "first_id", "file", "group_id")
    columns = (*texts, "sent_at", "receive_count", "body_bytes")
    return read_table_columns(archive, plan_id, columns, digest)


_KEYS = ("message_id", "first_id", "file")


def _tables_of_plans(archive: Archive, ids: Collection[str]) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield, the newest plan first, ``_KEYS`` of its table; and the rows with one of these ids."""
    end, wanted = f"/{TABLE}/manifest.json", pa.array(sorted(ids), pa.string())
    plans = {path.split("/")[1] for path in archive.list(REPORTS) if path.endswith(end)}
    for plan_id in sorted(plans, reverse=True):
        keys = read_table_columns(archive, plan_id, _KEYS)
        yield keys, keys.filter(have_any(keys.select(_KEYS[:2]), wanted))


def planned_copies(archive: Archive, ids: Collection[str]) -> list[dict[str, str]]:
    """Return ``_KEYS`` of messages with these message ids or first ids, of each plan's table."""
    return [row for _, found in _tables_of_plans(archive, ids) for row in found.to_pylist()]


def files_with(archive: Archive, ids: Collection[str]) -> list[str]:
    """Return the files that can have a row with one of these message ids or first ids, sorted.

    The tables of the newest plans are read, at most a hundred, until they name every file. A table
    has what was pending, so a file of a drain is named by the first table after it.
    """
    left = {path: rows_named(path) for path in message_files(archive)}
    named = set[str]()
    # Without a table the files are read, which are right in any case.
    with suppress(ArchiveError):
        for keys, found in islice(_tables_of_plans(archive, ids), _MOST_TABLES):
            counts: Any = pc.value_counts(keys["file"])
            # A file with more rows than the table names has a message twice, or one that was
            # decided, or that the plan's condition left out.
            whole = {
                o["values"] for o in counts.to_pylist() if left.get(o["values"]) == o["counts"]
            }
            named |= whole.intersection(map(str, found["file"].to_pylist()))
            left = {path: rows for path, rows in left.items() if path not in whole}
            if not left:
                break
    return sorted({*named, *left})
