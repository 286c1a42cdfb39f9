"""The verb ``find``: the messages that have a value, and what happened to each."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA, Row, to_table
from dlq.archive.messages.message_index import groups_of
from dlq.archive.messages.message_reading import DRAIN_ID, FILE, read_files_work
from dlq.archive.messages.message_store import (
    drain_of,
    is_in,
    message_files,
    rows_by_file,
    rows_named,
)
from dlq.archive.storage.files import Archive
from dlq.engine import Engine, Work
from dlq.explain.signature.mask import Masks
from dlq.inspect.matching import MATCHED_COLUMNS, Wanted, matching_rows, places_of
from dlq.inspect.show import ArchivedCopy, archived_copies
from dlq.progress import Progress, silent

_SENT_AT = "sent_at"
_RESULT = pa.schema(
    [
        ("message_id", pa.string()),
        (_SENT_AT, ARROW_SCHEMA.field(_SENT_AT).type),
        (FILE, pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class ArchivedMatch:
    """A message of the archive that has the value.

    Attributes:
        places: where it has it, see ``places_of``.
        group_id: its group in the newest plan that has it; empty if none has.
        copy: its state and its history.
    """

    places: tuple[str, ...]
    group_id: str
    copy: ArchivedCopy


@dataclass(frozen=True, slots=True)
class ArchiveMatches:
    """The messages of an archive that have a value.

    Attributes:
        searched: messages that were read; one that two drains brought counts twice.
        matching: messages with the value.
        newest: the newest of them, the newest first.
    """

    searched: int
    matching: int
    newest: tuple[ArchivedMatch, ...]


@dataclass(frozen=True, slots=True)
class QueuedMatch:
    """A message in a queue that has the value; *row* is its row, see ``to_row``."""

    places: tuple[str, ...]
    row: Row


def find_in_archive(
    engine: Engine,
    archive: Archive,
    wanted: Wanted,
    limit: int,
    *,
    masks: Masks | None,
    failure_table: str | None = None,
    progress: Progress = silent,
) -> ArchiveMatches:
    """Search all messages of an archive, and describe the newest *limit* that match.

    Reads the columns that are searched, once, and nothing else of messages that do not match.

    Raises:
        ArchiveError: the archive cannot be read.
    """
    paths = message_files(archive)
    search = _Search(wanted)
    columns = tuple(dict.fromkeys((*MATCHED_COLUMNS, _SENT_AT, FILE)))
    then = Work([], search.rows, _RESULT)
    work = read_files_work(archive, paths, columns, engine.slots, then)
    with progress("searching", str):
        matches = engine.run(work)

    ids = _newest_ids(matches, limit)
    rows = _rows_of(archive, matches, ids)
    places = {row["message_id"]: tuple(places_of(row, wanted)) for row in rows}
    groups = groups_of(archive, ids)
    copies: dict[str, ArchivedCopy] = {}
    for copy in archived_copies(archive, rows, masks, failure_table=failure_table):
        copies[copy.message_id] = copy

    newest: list[ArchivedMatch] = []
    for message_id in ids:
        # One that was erased meanwhile is left out.
        if message_id in copies:
            match = ArchivedMatch(
                places=places[message_id],
                group_id=groups.get(message_id, ""),
                copy=copies[message_id],
            )
            newest.append(match)

    return ArchiveMatches(
        searched=sum(rows_named(path) or 0 for path in paths),
        matching=len(pc.unique(matches["message_id"])),
        newest=tuple(newest),
    )


@dataclass(frozen=True, slots=True)
class _Search:
    """The function of the search's work: it takes the rows with the value."""

    wanted: Wanted

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``_RESULT`` that have the value."""
        for batch in batches:
            matching = batch.filter(matching_rows(batch, self.wanted))
            yield matching.select(_RESULT.names).cast(_RESULT)


def _newest_ids(matches: pa.Table, limit: int) -> list[str]:
    """Return the ids of the newest messages, each once, the newest first."""
    order: Any = [(_SENT_AT, "descending"), ("message_id", "ascending")]
    ids: dict[str, None] = {}
    for message_id in matches.sort_by(order)["message_id"].to_pylist():
        if len(ids) == limit:
            break
        ids[str(message_id)] = None
    return list(ids)


def _rows_of(archive: Archive, matches: pa.Table, ids: Sequence[str]) -> list[Row]:
    """Return all rows of these messages, with their ``drain_id``, as ``find_rows`` returns them."""
    files = matches.filter(is_in(matches["message_id"], ids))[FILE]
    paths = sorted(map(str, pc.unique(files).to_pylist()))
    rows: list[Row] = []
    for path, table in rows_by_file(archive, paths, ids=ids):
        for row in table.to_pylist():
            row[DRAIN_ID] = drain_of(path)
            rows.append(row)
    return rows


def find_in_rows(rows: Sequence[Row], wanted: Wanted) -> list[QueuedMatch]:
    """Return the messages that a look saw and that have the value, the newest first."""
    table = to_table(list(rows))
    matching = table.filter(matching_rows(table, wanted)).to_pylist()
    matching.sort(key=lambda row: (row[_SENT_AT] is not None, row[_SENT_AT]), reverse=True)
    return [QueuedMatch(tuple(places_of(row, wanted)), row) for row in matching]
