"""The rows that say what a run does with each message: written once, and read by its tasks."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.archive.messages.message_reading import DRAIN_ID, FILE
from dlq.archive.messages.message_store import FILE_MESSAGES
from dlq.archive.storage.files import Archive, ArchiveProof
from dlq.archive.storage.records import values_of
from dlq.archive.storage.table_parts import PARTS, TablePart, parts_of, read_part, write_whole
from dlq.engine import Work
from dlq.ids.columns import (
    DESTINATION,
    DETAIL,
    DISPOSITION,
    Numbers,
    arrow,
    numbered_values,
    texts_of,
    values_among,
)
from dlq.ids.order import runs_of
from dlq.redrive.resolving.archived_rows import read_beside
from dlq.redrive.resolving.edits import columns_for
from dlq.redrive.sending.send_task import TASK
from dlq.redrive.sending.task_context import TaskContext

_WRITTEN_TYPES: dict[str, pa.DataType] = {
    "message_id": pa.string(),
    FILE: pa.string(),
    "group_id": pa.string(),
    DISPOSITION: pa.string(),
    DESTINATION: pa.string(),
    DETAIL: pa.string(),
    "unit": pa.string(),
    "chunk": pa.int64(),
    "position": pa.int64(),
}

_WRITTEN = pa.schema(_WRITTEN_TYPES)
"""The columns that are written of a message."""

_PART_ROWS = FILE_MESSAGES
"""The fewest rows in a file of dispositions, but for the last one: a task reads the file, and then
the messages."""

_ADDED: dict[str, pa.DataType] = {
    **dict.fromkeys((DRAIN_ID, "group_id", DISPOSITION, "unit"), pa.string()),
    **dict.fromkeys(("chunk", "position"), pa.int64()),
    TASK: pa.int32(),
}
"""The columns that a task needs of a message beside those that are archived."""

_BATCH_ROWS = 1000


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows of messages, in chunks: in the driver, and in the archive for the tasks."""

    rows: pa.Table
    folder: str


def write_rows(archive: Archive, rows: pa.Table, folder: str) -> WrittenRows:
    """Write what the run does with each message as the table *folder*, durably.

    Nothing of a message but its id and file is written, because an erase does not reach the ledger.
    Messages of one archived file are in one file here, where the rows are by file.

    Raises:
        ArchiveError: it cannot be written.
    """
    columns = rows.select(_WRITTEN.names)
    starts, _ = runs_of(numbered_values(rows[FILE]))
    write_whole(archive, folder, [*_slices(columns, starts, _PART_ROWS)])
    return WrittenRows(rows, folder)


def _slices(rows: pa.Table, starts: Numbers, least_rows: int) -> Iterator[pa.Table]:
    """Divide rows where a file begins, so that each slice but the last has *least_rows*."""
    begin = 0
    for end in (*starts.tolist(), rows.num_rows):
        is_last = end == rows.num_rows
        if end - begin >= least_rows or is_last:
            yield rows.slice(begin, end - begin)
            begin = end


@dataclass(frozen=True, slots=True)
class MessageReader:
    """Reads the messages that tasks send.

    Attributes:
        folder: of a table with ``_WRITTEN`` of each message; see ``write_rows``.
        destination, dispositions: which of them are read; see ``rows_here``.
        tasks: the task of each chunk.
        schema: the columns to read of a message, and those of ``_ADDED``.
    """

    archive: Archive
    proof: ArchiveProof | None
    folder: str
    destination: str
    dispositions: frozenset[str]
    tasks: Mapping[tuple[str, int], int]
    schema: pa.Schema

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the messages of the parts that *batches* list: rows of ``PARTS``.

        Raises:
            ArchiveError: a file is gone or damaged, or this is another archive than the driver's.
        """
        if self.proof:
            self.proof.check(self.archive)
        for batch in batches:
            for row in batch.to_pylist():
                yield from self._read_part(TablePart(**row))

    def _read_part(self, part: TablePart) -> Iterator[pa.RecordBatch]:
        """Read the messages that one file of dispositions names, and add their tasks."""
        written = read_part(self.archive, self.folder, _WRITTEN, part)
        work = rows_here(written, self.destination, self.dispositions)
        chunks: Any = zip(texts_of(work["unit"]), work["chunk"].to_pylist(), strict=True)
        task_numbers = pa.array([self.tasks[chunk] for chunk in chunks], pa.int32())
        with_tasks = work.append_column(TASK, task_numbers)

        columns = [name for name in self.schema.names if name not in _ADDED]
        for messages in read_beside(self.archive, with_tasks, columns):
            in_schema = messages.select(self.schema.names).cast(self.schema)
            yield from in_schema.to_batches(_BATCH_ROWS)


def reading_work(
    archive: Archive,
    written: WrittenRows,
    to_settle: Collection[str],
    context: TaskContext,
    tasks: Mapping[tuple[str, int], int],
    *,
    most_readers: int,
) -> Work:
    """Return the work of reading the messages of these *tasks*, each with the number of its task.

    *to_settle* are the dispositions of the messages that are read.
    """
    columns = [*columns_for(context.editor.edits)]
    if "sent_at" not in columns:
        columns.append("sent_at")
    archived = [ARROW_SCHEMA.field(name) for name in columns]
    schema = pa.schema([*archived, *pa.schema(_ADDED)])

    reader = MessageReader(
        archive=archive,
        proof=context.proof,
        folder=written.folder,
        destination=context.destination,
        dispositions=frozenset(to_settle),
        tasks=tasks,
        schema=schema,
    )

    parts = pa.Table.from_pylist(values_of(parts_of(archive, written.folder)), schema=PARTS)
    numbers = np.arange(parts.num_rows)
    readers = min(parts.num_rows, most_readers)
    partitions = [parts.take(arrow(numbers[first::readers])) for first in range(readers)]
    return Work(partitions, reader.read, schema)


def rows_here(rows: pa.Table, destination: str, dispositions: Collection[str]) -> pa.Table:
    """Return the rows that go to *destination* and have one of these dispositions."""
    is_here = values_among(rows[DESTINATION], [destination])
    has_disposition = values_among(rows[DISPOSITION], dispositions)
    return rows.filter(pa.array(is_here & has_disposition))
