"""Finding single messages in an archive without Spark: every file is looked at, few are read.

Message ids are random, so no file can be left out by its statistics; but of a file that does not
hold the message only two columns are decoded.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_reprocess.archive.dead_letter_schema import ARROW_SCHEMA, Row, column_of
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import Attempt, AttemptName, Ledger, attempt_names
from spark_reprocess.archive.reading import MESSAGES, drain_of
from spark_reprocess.errors import ArchiveError

_CONCURRENT_READS = 8

_Of = TypeVar("_Of")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class FoundRow:
    """One row of a message: where it lies, and what it says (Arrow's spelling)."""

    drain_id: str
    path: str
    row: Row


@dataclass(frozen=True, slots=True)
class FoundAttempt:
    """One attempt that claimed a message."""

    name: AttemptName
    attempt: Attempt


def find_rows(archive: Archive, ids: Collection[str]) -> list[FoundRow]:
    """Return every row whose message id or first id is one of *ids*, oldest drain first.

    Raises:
        ArchiveError: a file cannot be read.
    """
    paths = [path for path in archive.list(MESSAGES) if path.endswith(".parquet")]
    found = _side_by_side(lambda path: _rows_in(archive, path, ids), paths)
    return [row for rows in found for row in rows]


def find_attempts(archive: Archive, message_ids: Collection[str]) -> list[FoundAttempt]:
    """Return every attempt of any plan that claimed one of these messages, the oldest first.

    Raises:
        ArchiveError: a ledger cannot be read.
    """

    def look(name: AttemptName) -> FoundAttempt | None:
        attempt = Ledger(archive, name.plan_id).attempt_at(name, message_ids)
        return FoundAttempt(name, attempt) if attempt else None

    found = _side_by_side(look, attempt_names(archive))
    return sorted((one for one in found if one), key=lambda one: one.attempt.claim.time)


def find_sender(archive: Archive, new_message_id: str) -> str | None:
    """Return the id of the archived message that a redrive sent as that copy, None if none did.

    Raises:
        ArchiveError: a ledger cannot be read.
    """

    def look(name: AttemptName) -> str | None:
        return Ledger(archive, name.plan_id).sent_as(name, new_message_id)

    return next(filter(None, _side_by_side(look, attempt_names(archive))), None)


def sent_copies(archive: Archive, message_ids: Collection[str]) -> set[str]:
    """Return the ids of the copies that redrives and restores sent of these messages.

    Raises:
        ArchiveError: a ledger cannot be read.
    """
    wanted = set(message_ids)

    def look(name: AttemptName) -> list[str]:
        attempt = Ledger(archive, name.plan_id).attempt(name)
        results = (attempt.results or ()) if attempt else ()
        return [r.new_message_id for r in results if r.message_id in wanted and r.new_message_id]

    return {one for found in _side_by_side(look, attempt_names(archive)) for one in found}


def _side_by_side(look: Callable[[_Of], _Found], among: Iterable[_Of]) -> Iterator[_Found]:
    with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="lookup") as executor:
        yield from executor.map(look, among)


def _rows_in(archive: Archive, path: str, ids: Collection[str]) -> list[FoundRow]:
    content = archive.read(path)
    if content is None:
        return []
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        keys = file.read(columns=["message_id", "first_id"])
        wanted = pa.array(ids, pa.string())
        matches = [
            pc.is_in(column_of(keys, name), value_set=wanted) for name in ("message_id", "first_id")
        ]
        is_match = pc.or_(*matches)
        rows = _rows(file.read().filter(is_match)) if pc.any(is_match).as_py() else []
    except pa.ArrowException as error:
        raise ArchiveError(
            f"archive {archive.root}: {path} cannot be read as Parquet ({type(error).__name__}); "
            "somebody changed it: restore it or take it away"
        ) from error
    return [FoundRow(drain_of(path), path, row) for row in rows]


def _rows(found: pa.Table) -> list[Row]:
    names = ARROW_SCHEMA.names
    columns = [column_of(found, name) for name in names]
    return list(pa.Table.from_arrays(columns, names=names).to_pylist())
