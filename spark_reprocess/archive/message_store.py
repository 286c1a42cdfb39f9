"""Messages in the archive: ``messages/drain_id=<id>/part-*.parquet``, one row per parked copy.

Files are written once and never changed; to erase a message, a file is replaced. A crash may leave
a message in two of them, so every read keeps one row per message id.
"""

import re
import secrets
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import reduce
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_reprocess.archive.dead_letter_schema import ARROW_SCHEMA, Row, to_table
from spark_reprocess.archive.files import MESSAGES, Archive, damage_named
from spark_reprocess.archive.table_parts import PARQUET_DAMAGE, parquet_bytes
from spark_reprocess.errors import ArchiveError, InputError

_CONCURRENT_READS = 8
_MOST_LISTINGS = 100
_DRAIN = "drain_id="
_NAME = re.compile(r"/part-(?P<task>\d+)-(?P<rows>\d+)-[^/]+\.parquet$")


def drain_folder(drain_id: str) -> str:
    """Where a drain's files lie, below the archive's root."""
    return f"{MESSAGES}/{_DRAIN}{drain_id}"


def drain_of(path: str) -> str:
    """Which drain wrote the file at *path*."""
    return path.split("/")[1].removeprefix(_DRAIN)


def message_files(archive: Archive, drain_id: str | None = None) -> list[str]:
    """Return the paths of a drain's files of messages, or of all drains', sorted."""
    paths = archive.list(MESSAGES if drain_id is None else drain_folder(drain_id))
    return [path for path in paths if path.endswith(".parquet")]


def drain_ids(archive: Archive) -> list[str]:
    """Return the ids of all drains that brought at least one message, oldest first."""
    paths = (path for path in message_files(archive) if path.startswith(drain_folder("")))
    return sorted({drain_of(path) for path in paths})


def require_drains(archive: Archive, wanted: Sequence[str] | None) -> Sequence[str]:
    """Return the drains *wanted*, or all.

    Raises:
        InputError: the archive has no messages, or lacks one of the drains.
    """
    existing = drain_ids(archive)
    if not existing:
        raise InputError(f"archive {archive.root}: holds no messages; run drain first")
    missing = sorted(set(wanted or ()) - set(existing))
    if missing:
        raise InputError(f"archive {archive.root}: holds no drain {', '.join(missing)}")
    return wanted or existing


def rows_of_file(
    archive: Archive,
    path: str,
    ids: Collection[str] | None = None,
    columns: Sequence[str] = ARROW_SCHEMA.names,
    keys: Sequence[str] = ("message_id",),
) -> pa.Table | None:
    """Read *columns* of the rows of one file of messages, or of those with *ids* alone.

    *keys* are the columns with *ids*. Without a match no other column is decoded.

    Returns:
        The rows; None if there is no such file.

    Raises:
        ArchiveError: the file cannot be read, or is damaged.
    """
    content = archive.read(path)
    if content is None:
        return None
    with message_damage_named(archive, path):
        file = pq.ParquetFile(pa.BufferReader(content))
        is_wanted = None
        if ids is not None:
            found, wanted = file.read(columns=[*keys]), pa.array(ids, pa.string())
            matches = (pc.is_in(found[name], value_set=wanted) for name in keys)
            is_wanted = reduce(pc.or_, matches)
            if not pc.any(is_wanted).as_py():
                return pa.schema([ARROW_SCHEMA.field(name) for name in columns]).empty_table()
        rows = file.read(columns=[*columns]).select([*columns])
        return rows if is_wanted is None else rows.filter(is_wanted)


def read_columns(
    archive: Archive, columns: Sequence[str], is_wanted: Callable[[str], bool] = bool
) -> pa.Table:
    """Read *columns* of all messages, ``drain_id`` and ``file``; several rows of a message.

    Needs no Spark. *is_wanted* says of the path of a file whether it is read.

    An erase may replace files meanwhile: then the new ones are read.

    Raises:
        ArchiveError: a file is damaged, or files are replaced all the time.
    """

    def read(path: str) -> pa.Table | None:
        rows = rows_of_file(archive, path, columns=columns)
        if rows is None:
            return None
        texts = [pa.repeat(pa.scalar(one), rows.num_rows) for one in (drain_of(path), path)]
        added = [texts[0], texts[1].dictionary_encode()]
        return pa.Table.from_arrays([*rows.columns, *added], schema=schema)

    fields = [ARROW_SCHEMA.field(name) for name in columns]
    of_file = pa.field("file", pa.dictionary(pa.int32(), pa.string()))
    schema = pa.schema([*fields, pa.field("drain_id", pa.string()), of_file])
    tables: dict[str, pa.Table | None] = {}
    with ThreadPoolExecutor(_CONCURRENT_READS) as executor:
        for _ in range(_MOST_LISTINGS):
            paths = list(filter(is_wanted, message_files(archive)))
            new = [path for path in paths if path not in tables]
            tables |= zip(new, executor.map(read, new), strict=True)
            found = [rows for path in paths if (rows := tables[path]) is not None]
            if len(found) == len(paths):
                every = pa.concat_tables(found) if found else schema.empty_table()
                return every.unify_dictionaries()
    raise ArchiveError(
        f"archive {archive.root}: its files are replaced all the time; try again after the erase"
    )


def rows_written(archive: Archive, drain_id: str, task: int | None = None) -> int:
    """Count the rows that a drain, or one task of it, has written, by its files' names."""
    names = (_NAME.search(path) for path in archive.list(drain_folder(drain_id)))
    return sum(int(name["rows"]) for name in names if name and task in (None, int(name["task"])))


def rows_named(path: str) -> int | None:
    """Return how many rows a file of messages has, by its name; None for a name without it."""
    name = _NAME.search(path)
    return int(name["rows"]) if name else None


def write_messages(archive: Archive, drain_id: str, task: int, rows: list[Row]) -> str:
    """Write rows as one new Parquet file; return its path once it is durable.

    The name says how many rows there are, so that a drain can be watched by its file names.

    Raises:
        ArchiveError: it could not be written; nothing of it may be deleted from the queue.
    """
    name = f"part-{task:05d}-{len(rows)}-{secrets.token_hex(8)}.parquet"
    path = f"{drain_folder(drain_id)}/{name}"
    archive.write(path, parquet_bytes(to_table(rows)))
    return path


def remove_messages(
    archive: Archive, drain_id: str, message_ids: Collection[str], before_each: Callable[[], None]
) -> int:
    """Remove these messages from a drain's files; return how many rows went.

    A drain keeps its last file, an empty one if need be: plans name their drains. *before_each* is
    called before each change and may raise.

    Raises:
        ArchiveError: as for ``write_without``.
    """
    rows, paths = 0, message_files(archive, drain_id)
    marks = {_mark(path) for path in paths}
    # A call that was killed, perhaps with other ids, has left the file beside that which it was to
    # replace, and which has all of its rows.
    for path in [one for one in paths if one.rpartition("-")[0].rpartition("-")[2] in marks]:
        before_each()
        archive.remove(path)
        paths.remove(path)
    for path in paths:
        before_each()
        rows += write_without(archive, path, message_ids, keeps_file=path == paths[-1])
    return rows


def write_without(
    archive: Archive, path: str, message_ids: Collection[str], *, keeps_file: bool = True
) -> int:
    """Replace a file by one without these messages; return how many rows went.

    The new file is durable before the old one is removed. Its name says which file it replaces, so
    that ``remove_messages`` can tell after a crash that both hold the same rows. A file that loses
    its last row is replaced by an empty one, or removed unless *keeps_file*.

    Raises:
        ArchiveError: the old file cannot be read or removed, or the new one cannot be written.
    """
    content = archive.read(path)
    if content is None:
        return 0
    with message_damage_named(archive, path):
        table = pq.read_table(pa.BufferReader(content))
    gone = pc.is_in(table["message_id"], value_set=pa.array(sorted(message_ids), pa.string()))
    kept = table.filter(pc.invert(gone))
    erased = int(table.num_rows - kept.num_rows)
    if erased:
        if kept.num_rows or keeps_file:
            archive.write(_name_without(path, kept), parquet_bytes(kept))
        archive.remove(path)
    return erased


def _name_without(path: str, kept: pa.Table) -> str:
    folder, name = path.rsplit("/", 1)
    task = name.split("-")[1] if name.count("-") > 1 else "00000"
    ids = "\n".join(map(str, kept["message_id"].to_pylist()))
    return f"{folder}/part-{task}-{kept.num_rows}-{_mark(path)}-{_mark(ids)}.parquet"


def _mark(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def holds_any(content: bytes, ids: Collection[str]) -> bool:
    """Whether a file has a row with one of these message ids or first ids, or cannot be read."""
    wanted = pa.array(sorted(ids), pa.string())
    try:
        keys = pq.read_table(pa.BufferReader(content), columns=["message_id", "first_id"])
        found = (pc.is_in(keys[name], value_set=wanted) for name in keys.schema.names)
        return any(pc.any(one).as_py() for one in found)
    except PARQUET_DAMAGE:
        return True


def message_damage_named(archive: Archive, path: str) -> AbstractContextManager[None]:
    """Raise ArchiveError where the block finds that a file of messages is damaged."""
    return damage_named(archive, path, PARQUET_DAMAGE, "restore it or take it away")
