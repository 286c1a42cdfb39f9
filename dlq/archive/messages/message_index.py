"""Find messages in an archive, without Spark: by their ids, or as the members of a group.

Message ids are random, so the files' statistics exclude none: the tables of plans say which files
to open. ``analysis.message_table`` describes a plan's table and writes it. It has each message's
group and file, its first id and what people sort by. So a group's list costs the reading of one
table, not of the whole archive. ``reports/<plan id>/reasons/<drain id>.parquet`` has the errors
that the analysis found in logs for a drain's messages: a part of a report, so that an erase removes
it.
"""

import pickle
import re
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dlq.archive.ledger.claims import Attempt
from dlq.archive.ledger.open_set import sent_span, stored_open_set
from dlq.archive.ledger.run_results import ResultFile, ledger_files, read_results
from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA, Row
from dlq.archive.messages.message_store import (
    drain_of,
    have_any,
    message_files,
    rows_by_file,
    rows_named,
)
from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import damage_named
from dlq.archive.storage.table_parts import (
    PARQUET_DAMAGE,
    parquet_bytes,
    read_whole,
)
from dlq.errors import ArchiveError

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
_TYPES: dict[str, pa.DataType] = {
    **{field.name: field.type for field in ARROW_SCHEMA},
    "group_id": _NAMES,
    "unit": pa.string(),
    "position": pa.int64(),
    "file": _NAMES,
}
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
    return read_whole(archive, folder, schema, digest)


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
    end = f"/{TABLE}/manifest.json"
    plans = {path.split("/")[1] for path in archive.list(REPORTS) if path.endswith(end)}
    for plan_id in sorted(plans, reverse=True):
        keys = read_table_columns(archive, plan_id, _KEYS)
        yield keys, keys.filter(have_any(keys.select(_KEYS[:2]), ids))


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


def find_rows(archive: Archive, ids: Collection[str]) -> list[Row]:
    """Return every row whose message id or first id is one of *ids*, with its ``drain_id``.

    The oldest drain comes first. Values are as Arrow returns them.
    """
    keys = ("message_id", "first_id")
    found = rows_by_file(archive, files_with(archive, ids), ids=ids, keys=keys)
    return [{**row, "drain_id": drain_of(path)} for path, rows in found for row in rows.to_pylist()]


def ids_that_begin(archive: Archive, start: str) -> dict[str, str]:
    """Return the dead letters with a message id or first id that begins with *start*.

    By first id; the value is the id that begins so. Reads the ids of the whole archive.
    """
    keys = ("message_id", "first_id")
    matches = dict[str, str]()
    for _, rows in rows_by_file(archive, message_files(archive), keys):
        for key in keys:
            for row in rows.filter(pc.starts_with(rows[key], start)).to_pylist():
                matches.setdefault(row["first_id"], row[key])
    return matches


def member_rows(archive: Archive, members: Sequence[Member]) -> Iterator[Row]:
    """Yield the row of each of *members*, in their order. Of what was erased there is none.

    Each file is read once, and one at a time. An unnamed temporary file holds the rows until it is
    their turn, so memory does not grow with the number of messages.
    """
    wanted = defaultdict[str, list[str]](list)
    for member in members:
        wanted[member.file].append(member.message_id)
    places = dict[str, int]()
    with tempfile.TemporaryFile() as held:
        for file, ids in wanted.items():
            for _, rows in rows_by_file(archive, [file], ids=ids):
                for row in rows.to_pylist():
                    if row["message_id"] not in places:
                        places[row["message_id"]] = held.tell()
                        pickle.dump(row, held)
        for member in members:
            if (place := places.get(member.message_id)) is not None:
                held.seek(place)
                yield pickle.load(held)  # noqa: S301 - this function wrote it


def find_attempts(
    archive: Archive, message_ids: Collection[str], sent_at: Sequence[datetime | None] = ()
) -> list[Attempt]:
    """Return every attempt of any plan that claimed one of these messages, the oldest first.

    *sent_at* are their SentTimestamps, if somebody knows them: result files without such messages
    are not opened.
    """
    wanted = set(message_ids)
    sent = sent_span(pa.array(sent_at, ARROW_SCHEMA.field("sent_at").type)) if sent_at else None
    without = stored_open_set(archive).without(sent)
    found = [
        attempt
        for attempt in _attempts(archive, "message_id", wanted, without)
        if not wanted.isdisjoint(attempt.claim.message_ids)
    ]
    return sorted(found, key=lambda one: one.claim.time)


def _attempts(
    archive: Archive, field: str, ids: Collection[str], without: Collection[str] = ()
) -> Iterator[Attempt]:
    """Yield those of the attempts with such a *field* that result files have, and all others.

    The result files of *without* are left out.
    """
    paths, attempts = ledger_files(archive)
    paths = [path for path in paths if path not in without]

    def read(file: ResultFile) -> list[Attempt]:
        return list(file.attempts_with(field, ids))

    for found in read_results(archive, paths, read):
        yield from found
    yield from attempts


def find_sender(archive: Archive, new_message_id: str) -> str | None:
    """Return the id of the archived message that a redrive sent as that copy, None if none did."""
    attempts = _attempts(archive, "new_message_id", [new_message_id])
    results = (result for attempt in attempts for result in attempt.results or ())
    return next((one.message_id for one in results if one.new_message_id == new_message_id), None)


def sent_copies(archive: Archive, message_ids: Collection[str]) -> set[str]:
    """Return the ids of the copies that redrives and restores sent of these messages."""
    wanted = set(message_ids)
    found = find_attempts(archive, wanted)
    results = (result for one in found for result in one.results or ())
    return {r.new_message_id for r in results if r.message_id in wanted and r.new_message_id}


_REASONS_FILE = re.compile(rf"{REPORTS}/[^/]+/reasons/(?P<drain_id>[^/]+)\.parquet")
REASONS = pa.schema(
    [
        (name, pa.string())
        for name in ("message_id", "log_error_type", "log_error_message", "logged")
    ]
)
"""``logged`` says in lines how and where it was found, with a link and frames."""


def write_reasons(
    archive: Archive, plan_id: str, drain_id: str, rows: Iterable[Mapping[str, Any]]
) -> None:
    """Keep what an analysis found of messages of one drain."""
    table = pa.Table.from_pylist(list(rows), schema=REASONS)
    archive.write(f"{REPORTS}/{plan_id}/reasons/{drain_id}.parquet", parquet_bytes(table))


def read_reasons(archive: Archive, drain_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return what was found last of messages of these drains, by their id."""
    found: dict[str, dict[str, Any]] = {}
    for path in archive.list(REPORTS):
        match = _REASONS_FILE.fullmatch(path)
        if match is None or match["drain_id"] not in drain_ids:
            continue
        if (content := archive.read(path)) is None:
            continue
        with damage_named(archive, path, PARQUET_DAMAGE, "remove it"):
            rows = pq.read_table(pa.BufferReader(content)).select(REASONS.names).to_pylist()
        found.update((row["message_id"], row) for row in rows)
    return found
