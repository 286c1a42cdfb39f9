"""Messages in the archive: ``messages/drain_id=<id>/part-*.parquet``, one row per parked copy.

Files are written once and never changed; to erase a message, a file is replaced. A drain without
messages has no files. A crash may leave a message in two files, so every read keeps one row per
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
"""A file of this size is not made larger: a reader holds a file as a whole."""

_KEYS = ("message_id", "drained_at", "receive_count", "body_bytes")
_CONCURRENT_READS = 8
_FILES_AT_ONCE = 4 * _CONCURRENT_READS
_DRAIN = "drain_id="
_NAME = re.compile(r"/part-(?P<task>\d+)-(?P<rows>\d+)-[^/]+\.parquet$")


def drain_folder(drain_id: str) -> str:
    """Return the folder of a drain's files, below the archive's root."""
    return f"{MESSAGES}/{_DRAIN}{drain_id}"


def drain_of(path: str) -> str:
    """Return the id of the drain that wrote the file at *path*."""
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
    paths = message_files(archive)
    return sorted({drain_of(path) for path in paths if path.startswith(drain_folder(""))})


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
                return ARROW_SCHEMA.empty_table().select([*columns])

        rows = file.read(columns=[*columns]).select([*columns])
        return rows if is_wanted is None else rows.filter(is_wanted)
    return None


def have_any(keys: pa.Table, wanted: Any) -> Any:  # noqa: ANN401 - Arrow arrays
    """Return for each row whether one of its columns has one of the *wanted* values."""
    return reduce(pc.or_, (is_in(column, wanted) for column in keys.columns))


def is_in(column: Any, values: Any) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return for each text in *column* whether it is in *values*: a collection, or a column."""
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        values = pa.array(values, pa.string())
    if len(values) > len(column):
        # Arrow makes a set of the values, of 80 bytes each: leave out those that cannot match.
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
            changed_drains = set[str]()
            for start in range(0, len(paths), _FILES_AT_ONCE):
                some_paths = paths[start : start + _FILES_AT_ONCE]
                tables = executor.map(read, some_paths)
                for path, rows in zip(some_paths, tables, strict=True):
                    if rows is None:
                        changed_drains.add(drain_of(path))
                    else:
                        yield path, rows
            paths = [path for path in message_files(archive, changed_drains) if path not in seen]


def with_files(rows_by_path: Iterable[tuple[str, pa.Table]], columns: Sequence[str]) -> pa.Table:
    """Return all rows of ``rows_by_file`` in one table, with their path as ``file``."""
    file_field = pa.field("file", pa.dictionary(pa.int32(), pa.string()))
    no_rows = ARROW_SCHEMA.empty_table().select([*columns])
    tables = [no_rows.append_column(file_field, pa.array([], file_field.type))]

    for number, (path, rows) in enumerate(rows_by_path, 1):
        paths = pa.repeat(pa.scalar(path), rows.num_rows).dictionary_encode()
        tables.append(rows.append_column(file_field, paths))
        if number % _FILES_AT_ONCE == 0:
            # Many small buffers take 1.5 times the memory of their content.
            some_rows = pa.concat_tables(tables[-_FILES_AT_ONCE:]).unify_dictionaries()
            tables[-_FILES_AT_ONCE:] = [some_rows.combine_chunks()]
    return pa.concat_tables(tables).unify_dictionaries()


def drains_of(rows: pa.Table) -> Any:  # noqa: ANN401 - an Arrow column
    """Return the drain of each of *rows*, which have ``file``."""
    files: Any = rows["file"].combine_chunks()
    drains = pa.array(map(drain_of, files.dictionary.to_pylist()), pa.string())
    return drains.take(files.indices)


def rows_written(archive: Archive, drain_id: str) -> int:
    """Count the rows that a drain has written, by the names of its files."""
    return sum(rows_named(path) or 0 for path in archive.list(drain_folder(drain_id)))


def rows_named(path: str) -> int | None:
    """Return the number of rows of a file of messages, by its name; None if the name has none."""
    name = _NAME.search(path)
    return int(name["rows"]) if name else None


def write_messages(archive: Archive, drain_id: str, task: int, rows: list[Row]) -> str:
    """Write rows as one new Parquet file; return its path once it is durable.

    The name has the number of rows, so that a drain can be watched by its file names. After an
    ArchiveError none of the messages may be deleted from the queue.
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
    """Remove these messages from a drain's files; return the number of removed rows.

    A file that loses rows is replaced: it is removed when the new one is durable. A call that was
    killed in between leaves rows in two files: the next one removes the second. *merges* also
    writes small files into one of ``FILE_MESSAGES``. *before_each* is called before each change and
    may raise. No other process may remove messages meanwhile.
    """
    files = dict(rows_by_file(archive, message_files(archive, [drain_id]), _KEYS))
    rows = with_files(files.items(), _KEYS)
    stays = pc.invert(is_in(rows["message_id"], message_ids))
    if pc.count_distinct(rows["message_id"]).as_py() < rows.num_rows:
        # As in every read: of several rows of a message the one that was drained first stays.
        numbers = pa.array(range(rows.num_rows), pa.int64())
        stays = pc.and_(stays, pc.is_in(numbers, value_set=first_rows(rows, *_KEYS[:3])))

    start = 0
    rows_to_write = dict[str, pa.Table]()
    for path, keys in files.items():
        stays_of_file = stays.slice(start, keys.num_rows)
        start += keys.num_rows
        if pc.all(stays_of_file).as_py() and not (merges and _is_small(keys)):
            continue

        if not pc.any(stays_of_file).as_py():
            rows_to_write[path] = ARROW_SCHEMA.empty_table()
        elif (table := rows_of_file(archive, path)) is not None:
            rows_to_write[path] = table.filter(stays_of_file)
        if not merges or _fill_a_file(rows_to_write.values()):
            _replace(archive, files, rows_to_write, before_each)
            rows_to_write = {}

    _replace(archive, files, rows_to_write, before_each)
    return int(rows.num_rows - rows.filter(stays).num_rows)


def _is_small(keys: pa.Table) -> bool:
    """Return whether a file with these ``_KEYS`` may be made larger."""
    body_bytes = pc.sum(keys["body_bytes"]).as_py() or 0
    return keys.num_rows < FILE_MESSAGES and body_bytes < _FILE_BYTES


def _fill_a_file(tables: Collection[pa.Table]) -> bool:
    """Return whether these rows are enough for a file."""
    messages = sum(table.num_rows for table in tables)
    size_bytes = sum(table.nbytes for table in tables)
    return messages >= FILE_MESSAGES or size_bytes >= _FILE_BYTES


def _replace(
    archive: Archive,
    files: Mapping[str, pa.Table],
    rows_to_write: Mapping[str, pa.Table],
    before_each: Callable[[], None],
) -> None:
    """Write *rows_to_write* as one file, in place of those of *files* that they were in."""
    if not rows_to_write:
        return
    first_path = next(iter(rows_to_write))
    is_same_file = rows_to_write[first_path].num_rows == files[first_path].num_rows
    if len(rows_to_write) == 1 and is_same_file:
        return

    table = pa.concat_tables(rows_to_write.values())
    if table.num_rows:
        before_each()
        name = _NAME.search(first_path)
        task = int(name["task"]) if name else 0
        _write(archive, drain_of(first_path), task, table)
    for path in rows_to_write:
        before_each()
        archive.remove(path)


def first_rows(rows: pa.Table, key: str, *order: str) -> Any:  # noqa: ANN401 - an Arrow array
    """Return the number of the row that is first in *order*, for each value of *key*."""
    numbered = rows.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    in_order = numbered.sort_by([(name, "ascending") for name in (key, *order, "row")])
    # With several threads "first" would be any row.
    first = in_order.group_by(key, use_threads=False).aggregate([("row", "first")])
    return first["row_first"].combine_chunks()


def holds_any(content: bytes, ids: Collection[str]) -> bool:
    """Return whether a file has a row with one of these message ids or first ids, or is damaged."""
    try:
        keys = pq.read_table(pa.BufferReader(content), columns=["message_id", "first_id"])
        return bool(pc.any(have_any(keys, ids)).as_py())
    except PARQUET_DAMAGE:
        return True
