"""Find messages in an archive, without Spark: by their ids, or as the members of a group.

Message ids are random, so the statistics of the files exclude no file. But the tables of plans name
the files to open. A plan's table has the group and the file of each message, its first id, and the
columns that people sort by; ``dlq.explain.message_table`` writes it. So the list of a group needs
one table, not the whole archive.

``reports/<plan id>/reasons/<drain id>.parquet`` has the errors that the analysis found in logs for
a drain's messages. It is a part of a report, so that an erase removes it.
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
    """Return the folder of a plan's table, below the archive's root."""
    return f"{REPORTS}/{plan_id}/{TABLE}"


def read_members(archive: Archive, plan_id: str, digest: str, group_id: str) -> list[Member]:
    """Return the messages of a group in the order in which SQS received them.

    Args:
        archive: where they are.
        plan_id: of the plan with the group.
        digest: of the plan's table, as in the plan.
        group_id: of the group.

    Raises:
        InputError: the table has another digest.
    """
    order = ("unit", "position", "sent_at", "message_id")
    columns = ("group_id", "file", *order)
    table = read_table_columns(archive, plan_id, columns, digest)
    of_group = table.filter(pc.equal(table["group_id"].cast(pa.string()), pa.scalar(group_id)))
    in_order = of_group.sort_by([(name, "ascending") for name in order])
    return [Member(row["message_id"], row["file"]) for row in in_order.to_pylist()]


_NAMES = pa.dictionary(pa.int32(), pa.string())
_TYPES: dict[str, pa.DataType] = {
    **dict(zip(ARROW_SCHEMA.names, ARROW_SCHEMA.types, strict=True)),
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

    Texts of which many are equal come as dictionaries. *digest* is that in the plan; None accepts
    any table.

    Raises:
        InputError: the table has another digest.
    """
    folder = table_folder(plan_id)
    schema = pa.schema([(name, _TYPES[name]) for name in columns])
    return read_whole(archive, folder, schema, digest)


@lru_cache(maxsize=1)
def shown_table(archive: Archive, plan_id: str, digest: str) -> pa.Table:
    """Read the columns of a plan's table that people see; cache the last one: it never changes.

    A million messages take 140 MB. Raises as ``read_table_columns`` does.
    """
    texts = ("message_id", "first_id", "file", "group_id")
    columns = (*texts, "sent_at", "receive_count", "body_bytes")
    return read_table_columns(archive, plan_id, columns, digest)


_KEYS = ("message_id", "first_id", "file")


def _tables_of_plans(archive: Archive, ids: Collection[str]) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield ``_KEYS`` of each plan's table, newest first, and its rows with one of these ids."""
    end = f"/{TABLE}/manifest.json"
    plan_ids = {path.split("/")[1] for path in archive.list(REPORTS) if path.endswith(end)}
    for plan_id in sorted(plan_ids, reverse=True):
        keys = read_table_columns(archive, plan_id, _KEYS)
        yield keys, keys.filter(have_any(keys.select(_KEYS[:2]), ids))


def groups_of(archive: Archive, ids: Collection[str]) -> dict[str, str]:
    """Return the group of each of these messages, by message id, in the newest plan that has it.

    A message that no plan has is left out.
    """
    end = f"/{TABLE}/manifest.json"
    plan_ids = {path.split("/")[1] for path in archive.list(REPORTS) if path.endswith(end)}
    groups = dict[str, str]()
    missing = set(ids)
    for plan_id in sorted(plan_ids, reverse=True):
        if not missing:
            break
        table = read_table_columns(archive, plan_id, ("message_id", "group_id"))
        matches = table.filter(have_any(table.select(["message_id"]), missing))
        for row in matches.to_pylist():
            groups[row["message_id"]] = row["group_id"]
        missing -= groups.keys()
    return groups


def planned_copies(archive: Archive, ids: Collection[str]) -> list[dict[str, str]]:
    """Return ``_KEYS`` of messages with these message ids or first ids, of each plan's table."""
    copies = list[dict[str, str]]()
    for _, matches in _tables_of_plans(archive, ids):
        copies += matches.to_pylist()
    return copies


def files_with(archive: Archive, ids: Collection[str]) -> list[str]:
    """Return the files that can have a row with one of these message ids or first ids, sorted.

    The tables of the newest plans are read, at most a hundred, until they name every file. A table
    has the messages that were pending, so the first table after a drain names the drain's files.
    """
    unread = {path: rows_named(path) for path in message_files(archive)}
    files = set[str]()
    # Without a table the files themselves are read, which is right in any case.
    with suppress(ArchiveError):
        for keys, matches in islice(_tables_of_plans(archive, ids), _MOST_TABLES):
            whole_files = _files_in_whole(keys, unread)
            files |= whole_files.intersection(map(str, matches["file"].to_pylist()))
            for path in whole_files:
                del unread[path]
            if not unread:
                break
    return sorted({*files, *unread})


def _files_in_whole(keys: pa.Table, row_counts: Mapping[str, int | None]) -> set[str]:
    """Return the files of which the table has all rows.

    A file with more rows than the table has of it has a message twice, or one that was decided, or
    that the plan's condition left out.
    """
    in_table: Any = pc.value_counts(keys["file"])
    files = set()
    for count in in_table.to_pylist():
        path = count["values"]
        if row_counts.get(path) == count["counts"]:
            files.add(path)
    return files


def find_rows(archive: Archive, ids: Collection[str]) -> list[Row]:
    """Return every row whose message id or first id is one of *ids*, with its ``drain_id``.

    The oldest drain comes first. Values are as Arrow returns them.
    """
    keys = ("message_id", "first_id")
    matches = list[Row]()
    for path, rows in rows_by_file(archive, files_with(archive, ids), ids=ids, keys=keys):
        for row in rows.to_pylist():
            row["drain_id"] = drain_of(path)
            matches.append(row)
    return matches


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
    """Yield the row of each of *members*, in their order, without those that were erased.

    Each file is read once, and one at a time. An unnamed temporary file holds the rows until it is
    their turn, so memory does not grow with the number of messages.
    """
    ids_by_file = defaultdict[str, list[str]](list)
    for member in members:
        ids_by_file[member.file].append(member.message_id)

    offsets = dict[str, int]()
    with tempfile.TemporaryFile() as buffer:
        for file, ids in ids_by_file.items():
            for _, rows in rows_by_file(archive, [file], ids=ids):
                for row in rows.to_pylist():
                    if row["message_id"] not in offsets:
                        offsets[row["message_id"]] = buffer.tell()
                        pickle.dump(row, buffer)

        for member in members:
            offset = offsets.get(member.message_id)
            if offset is not None:
                buffer.seek(offset)
                yield pickle.load(buffer)  # noqa: S301 - this function wrote it


def find_attempts(
    archive: Archive, message_ids: Collection[str], sent_at: Sequence[datetime | None] = ()
) -> list[Attempt]:
    """Return every attempt of any plan that claimed one of these messages, the oldest first.

    *sent_at* are their SentTimestamps, if the caller knows them: result files without such messages
    are not opened.
    """
    wanted_ids = set(message_ids)
    sent = sent_span(pa.array(sent_at, ARROW_SCHEMA.field("sent_at").type)) if sent_at else None
    without = stored_open_set(archive).files_without(sent)
    attempts = _attempts(archive, "message_id", wanted_ids, without)
    matching: list[Attempt] = []
    for attempt in attempts:
        if not wanted_ids.isdisjoint(attempt.claim.message_ids):
            matching.append(attempt)
    return sorted(matching, key=lambda attempt: attempt.claim.time)


def _attempts(
    archive: Archive, field: str, ids: Collection[str], without: Collection[str] = ()
) -> Iterator[Attempt]:
    """Yield the attempts in result files with one of *ids* in *field*, and all that are in none.

    The result files of *without* are left out.
    """
    paths, attempts = ledger_files(archive, without=without)

    def read(file: ResultFile) -> list[Attempt]:
        return list(file.attempts_with(field, ids))

    for attempts_of_file in read_results(archive, paths, read):
        yield from attempts_of_file
    yield from attempts


def find_sender(archive: Archive, new_message_id: str) -> str | None:
    """Return the id of the archived message that a redrive sent as that copy, None if none did."""
    for attempt in _attempts(archive, "new_message_id", [new_message_id]):
        for result in attempt.results or ():
            if result.new_message_id == new_message_id:
                return result.message_id
    return None


def sent_copies(archive: Archive, message_ids: Collection[str]) -> set[str]:
    """Return the ids of the copies that redrives and restores sent of these messages."""
    wanted_ids = set(message_ids)
    copies = set()
    for attempt in find_attempts(archive, wanted_ids):
        for result in attempt.results or ():
            if result.message_id in wanted_ids and result.new_message_id:
                copies.add(result.new_message_id)
    return copies


_REASONS_FILE = re.compile(rf"{REPORTS}/[^/]+/reasons/(?P<drain_id>[^/]+)\.parquet")
REASONS = pa.schema(
    [
        ("message_id", pa.string()),
        ("log_error_type", pa.string()),
        ("log_error_message", pa.string()),
        ("logged", pa.string()),
    ]
)
"""``logged`` has lines for people: how and where the error was found, with a link and frames."""


def write_reasons(
    archive: Archive, plan_id: str, drain_id: str, rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write the errors that an analysis found in logs for messages of one drain."""
    table = pa.Table.from_pylist(list(rows), schema=REASONS)
    archive.write(f"{REPORTS}/{plan_id}/reasons/{drain_id}.parquet", parquet_bytes(table))


def read_reasons(archive: Archive, drain_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the last error that was found for each message of these drains, by its id."""
    reasons: dict[str, dict[str, Any]] = {}
    for path in archive.list(REPORTS):
        match = _REASONS_FILE.fullmatch(path)
        if match is None or match["drain_id"] not in drain_ids:
            continue
        content = archive.read(path)
        if content is None:
            continue
        with damage_named(archive, path, PARQUET_DAMAGE, "remove it"):
            rows = pq.read_table(pa.BufferReader(content)).select(REASONS.names).to_pylist()
        for row in rows:
            reasons[row["message_id"]] = row
    return reasons
