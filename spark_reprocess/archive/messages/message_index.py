"""Find messages by the tables of plans, without Spark and without opening files of messages.

``analysis.message_table`` describes a plan's table and writes it. It has each message's group and
file, its first id and what people sort by. So a message's history and a group's list cost the
reading of one table, not of the whole archive.
"""

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.archive.messages.message_store import have_any, message_files, rows_named
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.archive.storage.table_parts import parts_of, read_part
from spark_reprocess.errors import ArchiveError

REPORTS = "reports"
"""The folder of an archive in which each report has one."""

TABLE = "messages.parquet"


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
    """Return the messages of a group as SQS received them; *digest* is that which the plan names.

    Raises:
        InputError: the table is another one than the plan's.
        ArchiveError: the table is missing, or was changed.
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
        ArchiveError: it is missing, or a file of it is, or somebody changed one.
    """
    folder = table_folder(plan_id)
    schema = pa.schema([(name, _TYPES[name]) for name in columns])
    read = partial(read_part, archive, folder, schema)
    with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="index") as executor:
        tables = list(executor.map(read, parts_of(archive, folder, digest)))
    return pa.concat_tables(tables).unify_dictionaries() if tables else schema.empty_table()


_SHOWN = ("message_id", "first_id", "file", "sent_at", "receive_count", "body_bytes", "group_id")
_tables: dict[tuple[str, str, str], pa.Table] = {}
"""The table that was read last, by archive, plan and digest: it never changes."""


def shown_table(archive: Archive, plan_id: str, digest: str) -> pa.Table:
    """Read what people look at of a plan's table, and keep it: a million messages take 140 MB.

    Raises: as ``read_table_columns`` does.
    """
    key = (archive.root, plan_id, digest)
    table = _tables.get(key)
    if table is None:
        table = read_table_columns(archive, plan_id, _SHOWN, digest)
        _tables.clear()
        _tables[key] = table
    return table


_KEYS = ("message_id", "first_id", "file")
_KEYS_SCHEMA = pa.schema([(name, _TYPES[name]) for name in _KEYS])


def _newest_plans(archive: Archive) -> list[str]:
    end = f"/{TABLE}/manifest.json"
    plans = {path.split("/")[1] for path in archive.list(REPORTS) if path.endswith(end)}
    return sorted(plans, reverse=True)


def _keys(archive: Archive, plan_id: str) -> Iterator[pa.Table]:
    """Read ``_KEYS`` of a plan's table, one file after the other."""
    folder = table_folder(plan_id)
    return (read_part(archive, folder, _KEYS_SCHEMA, one) for one in parts_of(archive, folder))


def _with_ids(keys: pa.Table, wanted: Any) -> pa.Table:  # noqa: ANN401 - an Arrow array
    return keys.filter(have_any(keys.select(["message_id", "first_id"]), wanted))


def _hashed(keys: pa.Table) -> pa.Table:
    """Return eight bytes of each id. Two that are alike cost the reading of another file."""
    ids: Any = [pa.array(map(hash, keys[name].to_pylist()), pa.int64()) for name in _KEYS[:2]]
    return pa.Table.from_arrays([*ids, keys["file"]], [*_KEYS])


def planned_copies(archive: Archive, ids: Collection[str]) -> list[dict[str, str]]:
    """Return what the tables of all plans say of the messages with these message ids or first ids.

    Returns:
        ``message_id, first_id, file`` for each plan that has the message.

    Raises:
        ArchiveError: a table was changed.
    """
    wanted = pa.array(sorted(ids), pa.string())
    tables = (keys for plan_id in _newest_plans(archive) for keys in _keys(archive, plan_id))
    return [row for keys in tables for row in _with_ids(keys, wanted).to_pylist()]


@dataclass(frozen=True, slots=True)
class MessageIndex:
    """Where messages are.

    Attributes:
        keys: ``message_id``, ``first_id`` and ``file`` of every message of the other files; hashes
            of the ids.
        unknown: files that may have rows beside those: drained since, or a message of several rows.
        files: all files of messages.
    """

    keys: pa.Table
    unknown: tuple[str, ...]
    files: frozenset[str]

    def files_with(self, ids: Collection[str]) -> list[str]:
        """Return the files that can have a row with one of these ids, sorted.

        The ids are message ids or first ids.
        """
        found = _with_ids(self.keys, pa.array(map(hash, ids), pa.int64()))
        named = {str(path) for path in found["file"].to_pylist()}
        return sorted({*self.unknown, *(named & self.files)})


def read_message_index(archive: Archive) -> MessageIndex:
    """Read the tables of the newest plans, at most a hundred, until they name every file.

    A table has what was pending. So a file of a drain is named by the first table after it.

    Raises:
        ArchiveError: the archive cannot be read.
    """
    files = message_files(archive)
    left = {path: rows_named(path) for path in files}
    tables = []
    for plan_id in _newest_plans(archive)[:_MOST_TABLES]:
        try:
            hashed = [_hashed(_KEYS_SCHEMA.empty_table()), *map(_hashed, _keys(archive, plan_id))]
            keys = pa.concat_tables(hashed).unify_dictionaries()
        except ArchiveError:
            # Without the table the files are read, which are right in any case.
            continue
        counts: Any = pc.value_counts(keys["file"])
        # A file with more rows than the table names has a message twice, or one that was decided,
        # or that the plan's condition left out.
        whole = [o["values"] for o in counts.to_pylist() if left.get(o["values"]) == o["counts"]]
        paths = keys["file"].cast(pa.string())
        tables.append(keys.filter(pc.is_in(paths, value_set=pa.array(whole, pa.string()))))
        for path in whole:
            del left[path]
        if not left:
            break
    tables.append(_hashed(_KEYS_SCHEMA.empty_table()))
    keys = pa.concat_tables(tables).unify_dictionaries()
    return MessageIndex(keys, tuple(sorted(left)), frozenset(files))
