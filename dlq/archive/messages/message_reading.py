"""Work of an engine over archived messages: it reads files, and may make other rows of theirs.

A partition is a table of ``WANTED``: a row for each file. Bodies are read where the work runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.archive.messages.message_store import drain_of, is_in, opened, rows_named
from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import missing
from dlq.engine import Function, Work

FILE = "file"
"""A column that a read adds if it is asked for: the path of a row's file below the archive."""

DRAIN_ID = "drain_id"
"""A column that every read adds: the id of the drain that wrote the row's file."""

WANTED = pa.schema([(FILE, pa.string()), ("message_ids", pa.list_(pa.string()))])
"""A file, and the messages in it that are wanted; null for all."""

_BATCH_ROWS = 1000
"""A file has at most about the bytes of a chunk of a drain, so a batch has no more either."""

_FILES_OF_PARTITION = 50


def read_messages_work(
    archive: Archive,
    messages: pa.Table,
    columns: Sequence[str],
    slots: int,
    then: Work | None = None,
) -> Work:
    """Return the work of reading these messages; it opens their files alone.

    Args:
        archive: where they are.
        messages: ``message_id`` and ``FILE`` of each, one row a message.
        columns: of the archive, or ``FILE``; ``DRAIN_ID`` comes last, always.
        slots: of the engine.
        then: its function makes other rows of the batches that are read; its partitions are not
            used.
    """
    reader = FileReader(archive, tuple(columns), then.function if then else None)
    schema = then.schema if then else schema_of(columns)
    return Work(_partitions(_wanted(messages), slots), reader.read, schema)


def read_files_work(
    archive: Archive,
    paths: Sequence[str],
    columns: Sequence[str],
    slots: int,
    then: Work | None = None,
) -> Work:
    """Return the work of reading all rows of these files; see ``read_messages_work``."""
    wanted = [{FILE: path, "message_ids": None} for path in paths]
    reader = FileReader(archive, tuple(columns), then.function if then else None)
    schema = then.schema if then else schema_of(columns)
    return Work(_partitions(wanted, slots), reader.read, schema)


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of rows with these columns, and with ``DRAIN_ID``."""
    added = {FILE: pa.string(), DRAIN_ID: pa.string()}
    types = dict(zip(ARROW_SCHEMA.names, ARROW_SCHEMA.types, strict=True)) | added
    return pa.schema([(name, types[name]) for name in (*columns, DRAIN_ID)])


def _wanted(messages: pa.Table) -> list[dict[str, Any]]:
    """Return rows of ``WANTED``, sorted by file. A file that is wanted as a whole has no ids."""
    paths: Any = messages[FILE].cast(pa.string())
    ids_by_path = dict[str, list[str] | None]()
    partial_paths = []
    for count in pc.value_counts(paths).to_pylist():
        path = count["values"]
        ids_by_path[path] = None
        if rows_named(path) != count["counts"]:
            partial_paths.append(path)

    ids = messages.select(["message_id"]).append_column(FILE, paths)
    of_partial = ids.filter(is_in(paths, partial_paths)).group_by(FILE)
    for row in of_partial.aggregate([("message_id", "list")]).to_pylist():
        ids_by_path[row[FILE]] = row["message_id_list"]
    return [{FILE: path, "message_ids": ids_by_path[path]} for path in sorted(ids_by_path)]


def _partitions(wanted: Sequence[dict[str, Any]], slots: int) -> list[pa.Table]:
    count = partition_count(len(wanted), slots)
    return [pa.Table.from_pylist(wanted[number::count], WANTED) for number in range(count)]


def partition_count(files: int, slots: int) -> int:
    """Return the number of partitions for this many files; 0 for no file.

    Each slot gets the same number, so that none waits for the last partitions.
    """
    rounds = max(1, -(-files // (_FILES_OF_PARTITION * slots)))
    return min(files, rounds * slots)


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads the files that its batches name: rows of ``WANTED``. An engine calls ``read``."""

    archive: Archive
    columns: tuple[str, ...]
    then: Function | None = None

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, or the rows that the function ``then`` makes of all of them.

        Raises:
            ArchiveError: a file is gone or broken.
        """
        rows = self._rows(batches)
        return self.then(rows) if self.then else rows

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield from self._rows_of_file(row[FILE], row["message_ids"])

    def _rows_of_file(self, path: str, message_ids: list[str] | None) -> Iterator[pa.RecordBatch]:
        with opened(self.archive, path) as file:
            if file is None:
                raise missing(self.archive, path)
            try:
                yield from self._batches(file, path, message_ids)
            except FileNotFoundError as error:
                raise missing(self.archive, path) from error

    def _batches(
        self, file: pq.ParquetFile, path: str, message_ids: list[str] | None
    ) -> Iterator[pa.RecordBatch]:
        to_read = [name for name in self.columns if name in ARROW_SCHEMA.names]
        wanted_ids = None
        if message_ids is not None:
            wanted_ids = pa.array(message_ids, pa.string())
            if "message_id" not in to_read:
                to_read.append("message_id")

        names = [*self.columns, DRAIN_ID]
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=to_read):
            rows = batch
            if wanted_ids is not None:
                rows = batch.filter(pc.is_in(batch["message_id"], wanted_ids))
            arrays: dict[str, Any] = dict(zip(rows.schema.names, rows.columns, strict=True))
            arrays[FILE] = pa.repeat(pa.scalar(path), rows.num_rows)
            arrays[DRAIN_ID] = pa.repeat(pa.scalar(drain_of(path)), rows.num_rows)
            yield pa.RecordBatch.from_arrays([arrays[name] for name in names], names=names)
