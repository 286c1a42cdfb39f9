"""Reads archived messages for a redrive: what the rules about ids need, and whole rows for tasks.

For the rules several files are read at once. Each is reduced to what the rules need before the next
ones are read, so bodies are never read and attributes are never held.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.archive.messages.message_reading import DRAIN_ID, FILE
from dlq.archive.messages.message_store import (
    combined,
    drain_of,
    message_files,
    rows_by_file,
    rows_of_file,
)
from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import missing
from dlq.ids.columns import Mask, Numbers, arrow, texts_of, with_column

Reduction = Callable[[pa.Table], pa.Table]

_FILES_AT_ONCE = 32
"""Many small buffers take a half more memory than what they hold."""


def read_archived(
    archive: Archive, wanted: pa.Table, columns: Sequence[str], reduced: Reduction
) -> pa.Table:
    """Read *columns* of each of the *wanted* messages that is still in the archive.

    Rows come by file. An erase replaces a file by another one of its drain: messages whose file is
    gone are looked for in all files of the drain.

    Args:
        archive: where the messages are.
        wanted: a row for each message, with ``message_id`` and ``FILE``, a dictionary: the file
            that had it.
        columns: ``message_id`` among them.
        reduced: makes of the rows of one file those that are kept; each row stays in its place.

    Returns:
        The columns of *wanted*, and those of the *reduced* rows. ``FILE`` is where a message is.
    """
    search = _Search(archive, wanted)
    tables = list[pa.Table]()
    for path, rows in rows_by_file(archive, search.paths(), columns):
        numbers, places = search.matches(path, combined(rows["message_id"]))
        if not len(numbers):
            continue
        of_file = wanted.take(arrow(numbers))
        of_file = with_column(of_file, FILE, _repeated(path, len(numbers)))
        tables.append(_beside(of_file, reduced(rows.take(arrow(places)))))
        if len(tables) % _FILES_AT_ONCE == 0:
            tables[-_FILES_AT_ONCE:] = [_in_one_piece(tables[-_FILES_AT_ONCE:])]
    if not tables:
        return _empty(wanted, columns, reduced)
    return _in_one_piece(tables)


def read_beside(archive: Archive, rows: pa.Table, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read *columns* and ``DRAIN_ID`` of messages from the archive, beside *rows* about them.

    *rows* has ``message_id`` and ``FILE``, where each message is; ``message_id`` may be among
    *columns*, too.

    Yields:
        For each file its part of *rows*, in their order, with all columns.

    Raises:
        ArchiveError: a file is gone or broken.
    """
    paths: Any = rows[FILE].cast(pa.string())
    for path in texts_of(paths.unique()):
        of_file = rows.filter(pc.equal(paths, pa.scalar(path)))
        archived = rows_of_file(archive, path, texts_of(of_file["message_id"]), columns)
        if archived is None:
            raise missing(archive, path)

        places = pc.index_in(of_file["message_id"], value_set=combined(archived["message_id"]))
        messages = _beside(of_file, archived.take(combined(places)))
        drain_id = pa.repeat(pa.scalar(drain_of(path)), messages.num_rows)
        yield with_column(messages, DRAIN_ID, drain_id)


class _Search:
    """Finds the wanted messages in the files of an archive, each once."""

    def __init__(self, archive: Archive, wanted: pa.Table) -> None:
        self._archive = archive
        self._ids = combined(wanted["message_id"])
        self._is_found: Mask = np.zeros(wanted.num_rows, dtype=np.bool_)
        self._of_file = _rows_by_value(combined(wanted[FILE]))
        self._files_of_drain = defaultdict[str, list[str]](list)
        for path in self._of_file:
            self._files_of_drain[drain_of(path)].append(path)

    def paths(self) -> list[str]:
        """Return the files to read: those that are named, and all of drains that miss one."""
        existing = set(message_files(self._archive, self._files_of_drain.keys()))
        changed_drains: set[str] = set()
        for path in self._of_file:
            if path not in existing:
                changed_drains.add(drain_of(path))

        paths: list[str] = []
        for path in existing:
            if path in self._of_file or drain_of(path) in changed_drains:
                paths.append(path)
        return sorted(paths)

    def matches(self, path: str, ids: Any) -> tuple[Numbers, Numbers]:  # noqa: ANN401 - Arrow's
        """Return which of the wanted messages the rows of one file are, and the rows' numbers."""
        numbers = self._of_file.get(path)
        if numbers is None:
            # It replaces files of its drain that were there when the messages were named.
            files = self._files_of_drain[drain_of(path)]
            numbers = np.concatenate([self._of_file[file] for file in files])
        numbers = numbers[~self._is_found[numbers]]

        places = pc.index_in(self._ids.take(arrow(numbers)), value_set=ids)
        is_here = places.is_valid().to_numpy(zero_copy_only=False)
        here = numbers[is_here]
        self._is_found[here] = True
        return here, places.drop_null().to_numpy().astype(np.int64)


def _rows_by_value(column: Any) -> dict[str, Numbers]:  # noqa: ANN401 - an Arrow array
    """Return the numbers of the rows with each value of a dictionary column."""
    codes = column.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable").astype(np.int64)
    starts = np.searchsorted(codes[order], np.arange(len(column.dictionary) + 1))
    rows: dict[str, Numbers] = {}
    for code, value in enumerate(column.dictionary.to_pylist()):
        of_value = order[starts[code] : starts[code + 1]]
        if len(of_value):
            rows[value] = of_value
    return rows


def _repeated(text: str, rows: int) -> Any:  # noqa: ANN401 - an Arrow array
    return pa.repeat(pa.scalar(text), rows).dictionary_encode()


def _in_one_piece(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _empty(wanted: pa.Table, columns: Sequence[str], reduced: Reduction) -> pa.Table:
    nothing = pa.schema([ARROW_SCHEMA.field(name) for name in columns]).empty_table()
    return _beside(wanted.slice(0, 0), reduced(nothing))


def _beside(rows: pa.Table, more: pa.Table) -> pa.Table:
    """Return *rows* with the columns of *more*, which has the same messages in the same order."""
    for name in more.column_names:
        rows = with_column(rows, name, more[name])
    return rows
