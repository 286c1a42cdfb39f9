"""The ledgers of all plans, read without Spark; and compaction, so that readers open few files.

``ledger/compacted/00000001.parquet`` has one row for each claim that has a result: its name, all
fields of its claim and, for each message, all fields of its result. When a run ends, the file with
the next number is written: the rows of the one before, and the attempts that have finished since.
Readers open the newest file, and the claims and results of the attempts that it does not name.

Claims and results stay, so a compacted file holds nothing that is not elsewhere: without it readers
only open more files. An attempt without a result is never in it, since its result may still come;
an attempt with a result does not change any more.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_reprocess.archive.files import (
    RECORD_DAMAGE,
    Archive,
    damage_named,
)
from spark_reprocess.archive.ledger import (
    LEDGER,
    Attempt,
    AttemptName,
    Ledger,
    attempt_name,
    claim_of,
    result_of,
    values_of,
)
from spark_reprocess.archive.table_parts import PARQUET_DAMAGE
from spark_reprocess.errors import ArchiveError

_FOLDER = f"{LEDGER}/compacted"
_FILE = re.compile(rf"{_FOLDER}/(?P<number>\d{{8}})\.parquet")

_MESSAGE = pa.struct(
    [
        pa.field("message_id", pa.string(), nullable=False),
        pa.field("outcome", pa.string()),
        pa.field("time", pa.string()),
        pa.field("new_message_id", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
_COLUMNS: "list[pa.Field[Any]]" = [
    pa.field("plan_id", pa.string(), nullable=False),
    pa.field("unit", pa.string(), nullable=False),
    pa.field("chunk", pa.int64(), nullable=False),
    pa.field("number", pa.int64(), nullable=False),
    pa.field("first", pa.int64(), nullable=False),
    pa.field("end", pa.int64(), nullable=False),
    pa.field("run_id", pa.string()),
    pa.field("who", pa.string()),
    pa.field("reason", pa.string()),
    pa.field("destination", pa.string()),
    pa.field("time", pa.string()),
    pa.field("ttl_seconds", pa.float64()),
    pa.field("edits", pa.map_(pa.string(), pa.string())),
    pa.field("step", pa.int64()),
    pa.field("messages", pa.list_(pa.field("element", _MESSAGE))),
]
"""Columns are named like the JSON keys of claims and results.

``messages`` has an element for each message of the claim, in the claim's order; where the result
leaves a message out, all but ``message_id`` is null.
"""

_SCHEMA = pa.schema(_COLUMNS)

_ATTEMPTS_AT_ONCE = 500
"""With 100 messages each: about 10 MB of rows, and one row group of the file."""

_CONCURRENT_READS = 8
ADVICE = "restore it, or remove it if no other file of the ledger was changed"


@dataclass(frozen=True, slots=True)
class CompactedFile:
    """One compacted file, its bytes in memory."""

    archive: Archive
    path: str
    parquet: pq.ParquetFile

    @classmethod
    def open(cls, archive: Archive, path: str) -> Self:
        """Read the file at *path*.

        Raises:
            ArchiveError: it is gone, or somebody changed it.
        """
        content = archive.read(path)
        if content is None:
            raise ArchiveError(
                f"archive {archive.root}: {path} was there and is gone; the driver and all "
                "executors must share the archive"
            )
        with damage_named(archive, path, (*PARQUET_DAMAGE, *RECORD_DAMAGE), ADVICE):
            parquet = pq.ParquetFile(pa.BufferReader(content))
            if not parquet.schema_arrow.equals(_SCHEMA):
                raise pa.ArrowInvalid("it has other columns")
        return cls(archive, path, parquet)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Decode the rows, 500 attempts at once; *columns* is None for all.

        Raises:
            ArchiveError: the file is damaged.
        """
        with damage_named(self.archive, self.path, PARQUET_DAMAGE, ADVICE):
            yield from self.parquet.iter_batches(
                batch_size=_ATTEMPTS_AT_ONCE, columns=list(columns or _SCHEMA.names)
            )

    def names(self) -> Iterator[AttemptName]:
        """Return the name of each attempt."""
        for batch in self.batches(AttemptName._fields):
            columns = (batch.column(name).to_pylist() for name in AttemptName._fields)
            yield from map(AttemptName._make, zip(*columns, strict=True))

    def attempts_with(self, field: str, ids: Collection[str]) -> Iterator[Attempt]:
        """Return the attempts in which *field* of some message is one of *ids*.

        Raises:
            ArchiveError: the file is damaged.
        """
        wanted = pa.array(ids, pa.string())
        for batch in self.batches():
            messages = batch.column("messages")
            matches = pc.is_in(pc.struct_field(pc.list_flatten(messages), field), value_set=wanted)
            rows = pc.unique(pc.list_parent_indices(messages).filter(matches))
            with damage_named(self.archive, self.path, RECORD_DAMAGE, ADVICE):
                found = list(map(_attempt, batch.take(rows).to_pylist()))
            yield from found


@dataclass(frozen=True, slots=True)
class LedgerFiles:
    """The newest compacted file, if there is one, and the attempts that it does not have."""

    compacted: CompactedFile | None
    others: tuple[AttemptName, ...]


def ledger_files(archive: Archive) -> LedgerFiles:
    """List the ledgers of all plans, and open the newest compacted file.

    Raises:
        ArchiveError: as for ``CompactedFile.open``, or the archive cannot be listed.
    """
    paths = archive.list(LEDGER)
    # The numbers have leading zeros, so the greatest text has the greatest number.
    newest = max((path for path in paths if _FILE.fullmatch(path)), default=None)
    compacted = CompactedFile.open(archive, newest) if newest else None
    known = set(compacted.names()) if compacted else set()
    names = filter(None, map(attempt_name, paths))
    return LedgerFiles(compacted, tuple(name for name in names if name not in known))


def read_attempts(archive: Archive, names: Sequence[AttemptName]) -> Iterator[Attempt]:
    """Read claims and results, several at once; return them in the order of *names*.

    Raises:
        ArchiveError: one cannot be read, or is gone.
    """

    def read(name: AttemptName) -> Attempt:
        attempt = Ledger(archive, name.plan_id).attempt(name)
        if attempt is None:
            raise ArchiveError(
                f"archive {archive.root}: the claim of attempt {name.number} at chunk "
                f"{name.chunk} of {name.unit} in plan {name.plan_id} was there and is gone; the "
                "driver and all executors must share the archive"
            )
        return attempt

    with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="ledger") as executor:
        for start in range(0, len(names), _ATTEMPTS_AT_ONCE):
            yield from executor.map(read, names[start : start + _ATTEMPTS_AT_ONCE])


def compact_ledger(archive: Archive) -> tuple[str, ...]:
    """Add the attempts that have finished since to a new compacted file; hold the plan lock.

    Of several runs of one plan that do so at once, one writes the file. What it does not have is
    added when the next run ends. Does not raise, so that no run fails after it has sent.

    Returns:
        A sentence for the operator if it failed: readers then open more files.
    """
    try:
        _compact(archive)
    except (ArchiveError, pa.ArrowException, ValueError) as error:
        # The last two: Parquet cannot hold a value, such as a reason that is not valid Unicode.
        return (f"the ledger was not compacted, so later commands open more files: {error}",)
    return ()


def _compact(archive: Archive) -> None:
    files = ledger_files(archive)
    added = list(_finished(archive, files.others))
    if not added:
        return
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, _SCHEMA, compression="zstd") as writer:
        for batch in files.compacted.batches() if files.compacted else ():
            writer.write_table(pa.Table.from_batches([batch]).cast(_SCHEMA))
        for batch in added:
            writer.write_batch(batch)
    newest = _FILE.fullmatch(files.compacted.path) if files.compacted else None
    path = f"{_FOLDER}/{int(newest['number']) + 1 if newest else 1:08d}.parquet"
    archive.create(path, sink.getvalue().to_pybytes())


def _finished(archive: Archive, names: Sequence[AttemptName]) -> Iterator[pa.RecordBatch]:
    """Return a row for each of these attempts that has a result."""
    for start in range(0, len(names), _ATTEMPTS_AT_ONCE):
        rows = [
            _row(attempt)
            for attempt in read_attempts(archive, names[start : start + _ATTEMPTS_AT_ONCE])
            if attempt.results is not None
        ]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)


def _row(attempt: Attempt) -> dict[str, Any]:
    ids = attempt.claim.message_ids
    results = {one.message_id: values_of(one) for one in attempt.results or ()}
    messages = [results.get(message_id, {"message_id": message_id}) for message_id in ids]
    return {**attempt.name._asdict(), **values_of(attempt.claim), "messages": messages}


def _attempt(row: dict[str, Any]) -> Attempt:
    name = AttemptName(*(row[column] for column in AttemptName._fields))
    messages = row["messages"]
    message_ids = [one["message_id"] for one in messages]
    values = {key: row[key] for key in row.keys() - {"messages", *AttemptName._fields}}
    claim = claim_of({**values, "edits": dict(row["edits"]), "message_ids": message_ids})
    results = tuple(result_of(one) for one in messages if one["outcome"] is not None)
    return Attempt(name, claim, results)
