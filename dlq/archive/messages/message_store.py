"""Messages in the archive: ``messages/drain_id=<id>/part-*.parquet``, one row per parked copy.

Files are written once and never changed; to erase a message, a file is replaced. A drain without
messages has no files. A crash may leave a message in two of them, so every read keeps one row per
message id.
"""

import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial, reduce
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA, Row, to_table
from dlq.archive.storage.files import MESSAGES, Archive
from dlq.archive.storage.records import damage_named
from dlq.archive.storage.table_parts import PARQUET_DAMAGE, parquet_bytes
from dlq.errors import InputError

FILE_MESSAGES = 2000
"""Messages of a full file."""

_FILE_BYTES = 8 * 1024 * 1024
"""So large a file is not made larger. A reader holds a file as a whole."""

_KEYS = ("message_id", "drained_at", "receive_count", "body_bytes")
_CONCURRENT_READS = 8
_FILES_AT_ONCE = 4 * _CONCURRENT_READS
_DRAIN = "drain_id="
_NAME = re.compile(r"/part-(?P<task>\d+)-(?P<rows>\d+)-[^/]+\.parquet$")


def drain_folder(drain_id: str) -> str:
    """Where a drain's files lie, below the archive's root."""
    return f"{MESSAGES}/{_DRAIN}{drain_id}"


def drain_of(path: str) -> str:
    """Which drain wrote the file at *path*."""
    return path.split("/")[1].removeprefix(_DRAIN)


def message_files(archive: Archive, drains: Collection[str] | None = None) -> list[str]:
    """Return the paths of the files of messages of these drains, or of all, sorted.

    The files of each drain are listed on their own: a listing of all is long in an old archive.
    """
    folders = [MESSAGES] if drains is None else map(drain_folder, sorted(drains))
    with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="list") as executor:
        paths = chain.from_iterable(executor.map(archive.list, folders))
        return [path for path in paths if path.endswith(".parquet")]


def drain_ids(archive: Archive) -> list[str]:
    """Return the ids of all drains that brought at least one message, oldest first."""
    paths = (path for path in message_files(archive) if path.startswith(drain_folder("")))
    return sorted({drain_of(path) for path in paths})


def require_drains(archive: Archive) -> list[str]:
    """Return the ids of all drains; raise InputError if the archive has no messages."""
    existing = drain_ids(archive)
    if not existing:
        raise InputError(f"archive {archive.root}: holds no messages; collect some first")
    return existing


@contextmanager
def opened(
    archive: Archive, path: str, advice: str = "restore it or take it away"
) -> Iterator[pq.ParquetFile | None]:
    """Open one Parquet file: only columns that are read are fetched. None if it is gone."""
    file = archive.open(path)
    if file is None:
        yield None
        return
    with file, damage_named(archive, path, PARQUET_DAMAGE, advice):
        yield pq.ParquetFile(file, pre_buffer=True)


def rows_of_file(
    archive: Archive,
    path: str,
    ids: Collection[str] | None = None,
    columns: Sequence[str] = ARROW_SCHEMA.names,
    keys: Sequence[str] = ("message_id",),
) -> pa.Table | None:
    """Read *columns* of the rows of one file of messages, or of those with *ids* alone.

    *keys* are the columns with *ids*. Without a match no other column is read. None if there is no
    such file.
    """
    with opened(archive, path) as file, suppress(FileNotFoundError):
        if file is None:
            return None
        is_wanted = None
        if ids is not None:
            is_wanted = have_any(file.read(columns=[*keys]), ids)
            if not pc.any(is_wanted).as_py():
                return pa.schema([ARROW_SCHEMA.field(name) for name in columns]).empty_table()
        rows = file.read(columns=[*columns]).select([*columns])
        return rows if is_wanted is None else rows.filter(is_wanted)
    return None


def have_any(keys: pa.Table, wanted: Any) -> Any:  # noqa: ANN401 - Arrow arrays
    """Return whether a column of each row has one of the *wanted* values."""
    return reduce(pc.or_, (is_in(column, wanted) for column in keys.columns))


def is_in(column: Any, values: Any) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return of each text in *column* whether it is among *values*: a collection, or a column."""
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        values = pa.array(values, pa.string())
    if len(values) > len(column):
        # Arrow makes a set of the values, of 80 bytes each: of few it is smaller.
        values = values.filter(pc.is_in(values, value_set=combined(column)))
    return pc.is_in(column, value_set=combined(values))


def combined(column: Any) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return the column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def rows_by_file(
    archive: Archive,
    paths: Sequence[str],
    columns: Sequence[str] = ARROW_SCHEMA.names,
    ids: Collection[str] | None = None,
    keys: Sequence[str] = ("message_id",),
) -> Iterator[tuple[str, pa.Table]]:
    """Read some files of messages, a few at a time; arguments as for ``rows_of_file``.

    An erase may replace files meanwhile: then the new ones of that drain are read, too.

    Yields:
        The path and the rows of each file, in the order of *paths*.
    """
    read = partial(rows_of_file, archive, ids=ids, columns=columns, keys=keys)
    seen = set[str]()
    with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="messages") as executor:
        while paths:
            seen.update(paths)
            gone = set[str]()
            for start in range(0, len(paths), _FILES_AT_ONCE):
                some = paths[start : start + _FILES_AT_ONCE]
                for path, rows in zip(some, executor.map(read, some), strict=True):
                    if rows is None:
                        gone.add(drain_of(path))
                    else:
                        yield path, rows
            paths = [path for path in message_files(archive, gone) if path not in seen]


def with_files(found: Iterable[tuple[str, pa.Table]], columns: Sequence[str]) -> pa.Table:
    """Return all rows that ``rows_by_file`` *found*, with ``file``."""
    of_file = pa.field("file", pa.dictionary(pa.int32(), pa.string()))
    fields = [ARROW_SCHEMA.field(name) for name in columns]
    tables = [pa.schema([*fields, of_file]).empty_table()]
    for number, (path, rows) in enumerate(found, 1):
        paths = pa.repeat(pa.scalar(path), rows.num_rows).dictionary_encode()
        tables.append(rows.append_column(of_file, paths))
        if number % _FILES_AT_ONCE == 0:
            # Many small buffers take a half more memory than they hold.
            some = pa.concat_tables(tables[-_FILES_AT_ONCE:]).unify_dictionaries()
            tables[-_FILES_AT_ONCE:] = [some.combine_chunks()]
    return pa.concat_tables(tables).unify_dictionaries()


def drains_of(rows: pa.Table) -> Any:  # noqa: ANN401 - an Arrow column
    """Return the drain of each of *rows*, which have ``file``."""
    files: Any = rows["file"].combine_chunks()
    drains = pa.array([drain_of(path) for path in files.dictionary.to_pylist()], pa.string())
    return drains.take(files.indices)


def rows_written(archive: Archive, drain_id: str) -> int:
    """Count the rows that a drain has written, by its files' names."""
    return sum(rows_named(path) or 0 for path in archive.list(drain_folder(drain_id)))


def rows_named(path: str) -> int | None:
    """Return how many rows a file of messages has, by its name; None for a name without it."""
    name = _NAME.search(path)
    return int(name["rows"]) if name else None


def write_messages(archive: Archive, drain_id: str, task: int, rows: list[Row]) -> str:
    """Write rows as one new Parquet file; return its path once it is durable.

    The name says how many rows there are, so that a drain can be watched by its file names. After
    an ArchiveError nothing of it may be deleted from the queue.
    """
    return _write(archive, drain_id, task, to_table(rows))


def _write(archive: Archive, drain_id: str, task: int, rows: pa.Table) -> str:
    name = f"part-{task:05d}-{rows.num_rows}-{secrets.token_hex(8)}.parquet"
    path = f"{drain_folder(drain_id)}/{name}"
    archive.write(path, parquet_bytes(rows))
    return path


def remove_messages(
    archive: Archive,
    drain_id: str,
    message_ids: Any,  # noqa: ANN401 - a collection, or Arrow's column
    before_each: Callable[[], None],
    *,
    merges: bool = False,
) -> int:
    """Remove these messages from a drain's files; return how many rows went.

    A file that loses rows is written anew, and removed once the new one is durable. A call that was
    killed in between leaves rows in two files: the next one removes the second. *merges* also
    writes small files into one of ``FILE_MESSAGES``. *before_each* is called before each change and
    may raise. Nobody else may remove messages meanwhile.
    """
    files = dict(rows_by_file(archive, message_files(archive, [drain_id]), _KEYS))
    rows = with_files(files.items(), _KEYS)
    stays = pc.invert(is_in(rows["message_id"], message_ids))
    if pc.count_distinct(rows["message_id"]).as_py() < rows.num_rows:
        # As every read does: of several rows of a message the one that was drained first stays.
        numbers = pa.array(range(rows.num_rows), pa.int64())
        stays = pc.and_(stays, pc.is_in(numbers, value_set=first_rows(rows, *_KEYS[:3])))
    start, held = 0, dict[str, pa.Table]()
    for path, of_file in files.items():
        stays_of_file = stays.slice(start, of_file.num_rows)
        start += of_file.num_rows
        body_bytes = pc.sum(of_file["body_bytes"]).as_py() or 0
        is_small = of_file.num_rows < FILE_MESSAGES and body_bytes < _FILE_BYTES
        if pc.all(stays_of_file).as_py() and not (merges and is_small):
            continue
        if not pc.any(stays_of_file).as_py():
            held[path] = ARROW_SCHEMA.empty_table()
        elif (table := rows_of_file(archive, path)) is not None:
            held[path] = table.filter(stays_of_file)
        messages = sum(one.num_rows for one in held.values())
        size_bytes = sum(one.nbytes for one in held.values())
        if not merges or messages >= FILE_MESSAGES or size_bytes >= _FILE_BYTES:
            _replace(archive, files, held, before_each)
            held = {}
    _replace(archive, files, held, before_each)
    return int(rows.num_rows - rows.filter(stays).num_rows)


def _replace(
    archive: Archive,
    files: Mapping[str, pa.Table],
    held: Mapping[str, pa.Table],
    before_each: Callable[[], None],
) -> None:
    """Write the rows in *held* as one file, in place of the *files* that they were in."""
    if not held or (len(held) == 1 and all(files[p].num_rows == held[p].num_rows for p in held)):
        return
    table, path = pa.concat_tables(held.values()), next(iter(held))
    if table.num_rows:
        before_each()
        name = _NAME.search(path)
        _write(archive, drain_of(path), int(name["task"]) if name else 0, table)
    for path in held:
        before_each()
        archive.remove(path)


def first_rows(rows: pa.Table, key: str, *order: str) -> Any:  # noqa: ANN401 - an Arrow array
    """Return the number of the row that is first in *order*, for each value of *key*."""
    numbered = rows.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    in_order = numbered.sort_by([(name, "ascending") for name in (key, *order, "row")])
    # With several threads the first row would be chance.
    first = in_order.group_by(key, use_threads=False).aggregate([("row", "first")])
    return first["row_first"].combine_chunks()


def holds_any(content: bytes, ids: Collection[str]) -> bool:
    """Whether a file has a row with one of these message ids or first ids, or cannot be read."""
    try:
        keys = pq.read_table(pa.BufferReader(content), columns=["message_id", "first_id"])
        return bool(pc.any(have_any(keys, ids)).as_py())
    except PARQUET_DAMAGE:
        return True
