"""Functions that tests give to engines; importable by Spark's workers."""

import hashlib
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dlq.engine import CHANGE, CHANGES, GROUP_ID
from dlq.errors import ArchiveError, InputError

NUMBERS = pa.schema({"number": pa.int64()})
TASK = "task"
POSITION = "position"
GROUPS = ("g-0", "it's g-1", "g-2", None)

_ADDED: dict[str, Any] = {GROUP_ID: pa.string(), TASK: pa.int32(), POSITION: pa.int64()}
_DESCRIBED: dict[str, Any] = {
    "place": pa.int64(),
    TASK: pa.int32(),
    "message_id": pa.string(),
    "body_digest": pa.string(),
    CHANGES: pa.list_(CHANGE),
}
DESCRIBED = pa.schema(_DESCRIBED)


def numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what comes, and a row with the number of rows that came."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        yield batch
    yield pa.RecordBatch.from_pylist([{"number": -rows}], schema=NUMBERS)


@dataclass(frozen=True, slots=True)
class Grouping:
    """Gives each message a group, a task and a place in it, by its id."""

    tasks: int

    def schema(self, read: pa.Schema) -> pa.Schema:
        """Return that of the rows, of which those of *read* are made."""
        return pa.schema([*read, *_ADDED.items()])

    def add(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Add the three columns."""
        for batch in batches:
            ids = map(str, batch["message_id"].to_pylist())
            digests = [zlib.crc32(message_id.encode()) for message_id in ids]
            values: dict[str, Any] = {
                GROUP_ID: [GROUPS[digest % len(GROUPS)] for digest in digests],
                TASK: [digest // 7 % self.tasks for digest in digests],
                POSITION: [digest // 5 % 1000 for digest in digests],
            }
            arrays = [pa.array(values[name], kind) for name, kind in _ADDED.items()]
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *arrays], schema=self.schema(batch.schema)
            )


def described(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield a row of ``DESCRIBED`` for each row, with its place among those of this call."""
    place = 0
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            digest = hashlib.sha256(row["body"].encode()).hexdigest()
            described_row = {name: row[name] for name in (TASK, "message_id", CHANGES)}
            rows.append({**described_row, "place": place, "body_digest": digest})
            place += 1
        yield pa.RecordBatch.from_pylist(rows, schema=DESCRIBED)


@dataclass(frozen=True, slots=True)
class Failing:
    """Fails where it gets the number 1."""

    error: Exception

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what comes before that."""
        for batch in batches:
            if 1 in batch["number"].to_pylist():
                raise self.error from ArchiveError("only the cause")
            yield batch


FAILURES = (
    ArchiveError("archive /a: messages/b is missing; restore it"),
    InputError("plan p-1: is wrong: {'a': 1}"),
)


@dataclass(frozen=True, slots=True)
class Sleeping:
    """Leaves a file in *folder*, and sleeps for a minute."""

    folder: str

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what comes, afterwards."""
        rows = [*batches]
        Path(self.folder, "begun").touch()
        time.sleep(60)
        yield from rows


@dataclass(frozen=True, slots=True)
class Large:
    """Makes bodies of a mebibyte."""

    schema = pa.schema({"body": pa.string()})

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one batch with a body for each number."""
        for batch in batches:
            bodies = [f"{number}".ljust(2**20, "é") for number in batch["number"].to_pylist()]
            yield pa.record_batch({"body": pa.array(bodies)})
