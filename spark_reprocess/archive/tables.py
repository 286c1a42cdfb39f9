"""A table in the archive that Spark tasks write and read: Parquet files and a manifest.

Each task writes its rows through the archive's adapter, so a table on S3 needs no Hadoop file
system. ``<folder>/manifest.json`` names the files of the table. It is written last, by
create-if-absent: a table is there as a whole or not at all. Readers ignore files that the manifest
does not name; a task attempt that was repeated, or a writer that was killed, left them.
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import (
    require_version,
)
from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.spark.conditions import explained

_MANIFEST = "manifest.json"
_PART_BYTES = 64 * 1024 * 1024
"""A task starts a new file when its rows take so much memory: this bounds what it holds."""

_MOST_BROADCAST_ROWS = 100_000
DRIVER_ROWS = 20_000
"""The driver itself writes and reads a table of so few rows: that is quicker than Spark's tasks."""

_PARTS_PER_TASK = 4
_BATCH_ROWS = 10_000
_PART_SCHEMA = "name string, rows long, sha256 string"


@dataclass(frozen=True, slots=True)
class Part:
    """One Parquet file of a table.

    Attributes:
        name: its path below the table's folder.
        rows: how many rows it has.
        sha256: of its bytes, in hex.
    """

    name: str
    rows: int
    sha256: str


def write_table(frame: DataFrame, archive: Archive, folder: str, rows: int | None = None) -> str:
    """Evaluate *frame* once and write it as the table *folder*.

    A table is written once. Where another writer was first, its table stays, and the files of this
    call are removed.

    Args:
        frame: the rows. Each task writes the rows of its partition.
        archive: where the table goes.
        folder: its path below the archive's root.
        rows: how many rows the frame has; None where nobody knows.

    Returns:
        The digest of the table that is there now: the SHA-256 of its manifest, in hex.

    Raises:
        ArchiveError: a file cannot be written. There is no table then.
    """
    writer = PartWriter(archive, folder)
    with explained(None):
        if rows is not None and rows <= DRIVER_ROWS:
            written = pa.Table.from_batches(
                writer.write(frame.toArrow().to_batches()), to_arrow_schema(_parts_schema())
            )
        else:
            written = frame.mapInArrow(writer.write, _PART_SCHEMA).toArrow()
    return commit(archive, folder, [Part(**row) for row in written.to_pylist()])


def _parts_schema() -> StructType:
    return cast("StructType", StructType.fromDDL(_PART_SCHEMA))


def read_table(
    spark: SparkSession, archive: Archive, folder: str, schema_ddl: str, digest: str | None = None
) -> DataFrame:
    """Read columns of the table *folder*. Lazy if it is large: each action reads the files again.

    Args:
        spark: the session.
        archive: where the table is.
        folder: its path below the archive's root.
        schema_ddl: the wanted columns, as Spark's DDL. A column that the table lacks is null.
        digest: what ``write_table`` returned; None accepts any table in that folder.

    Raises:
        InputError: the table in that folder has another digest.
        ArchiveError: there is no table, or its manifest cannot be read, or a file is missing or was
            changed. For a large table an action on the result raises the latter.
    """
    parts = parts_of(archive, folder, digest)
    schema = cast("StructType", StructType.fromDDL(schema_ddl))
    if not parts:
        return spark.createDataFrame([], schema)
    reader = PartReader(archive, folder, to_arrow_schema(schema))
    rows_in_all = sum(one.rows for one in parts)
    if rows_in_all <= DRIVER_ROWS:
        batches = [batch for part in parts for batch in reader.batches(part.name, part.sha256)]
        return spark.createDataFrame(pa.Table.from_batches(batches, reader.schema), schema)
    listed = {"name": [one.name for one in parts], "sha256": [one.sha256 for one in parts]}
    tasks = max(spark.sparkContext.defaultParallelism, len(parts) // _PARTS_PER_TASK)
    spread = spark.createDataFrame(pa.table(listed)).repartition(min(tasks, len(parts)))
    rows = spread.mapInArrow(reader.read, schema)
    # Spark takes the rows for as many as the list of files has. It would broadcast millions.
    return rows.hint("merge") if rows_in_all > _MOST_BROADCAST_ROWS else rows


def table_digest(archive: Archive, folder: str) -> str | None:
    """Return the digest of the table *folder*, None where there is no table.

    Raises:
        ArchiveError: the archive cannot be read.
    """
    content = archive.read(f"{folder}/{_MANIFEST}")
    return None if content is None else sha256(content).hexdigest()


def commit(archive: Archive, folder: str, parts: Sequence[Part]) -> str:
    """Write the manifest that names *parts*; return the digest of the table that is there then."""
    found = [asdict(one) for one in sorted(parts, key=lambda part: part.name)]
    content = json.dumps({"version": 1, "parts": found}, indent=1).encode()
    if archive.create(f"{folder}/{_MANIFEST}", content):
        return sha256(content).hexdigest()
    for part in parts:
        archive.discard(f"{folder}/{part.name}")
    first = table_digest(archive, folder)
    if first is None:
        raise ArchiveError(f"archive {archive.root}: {folder} was removed while it was written")
    return first


def parts_of(archive: Archive, folder: str, digest: str | None = None) -> list[Part]:
    """Read which files a table has. Raises as ``read_table`` does."""
    path = f"{folder}/{_MANIFEST}"
    content = archive.read(path)
    if content is None:
        raise ArchiveError(f"archive {archive.root}: {path} is missing; restore it from a backup")
    if digest is not None and sha256(content).hexdigest() != digest:
        raise InputError(
            f"archive {archive.root}: {folder} is not the table that the plan was made with; "
            "analyze again"
        )
    try:
        raw = json.loads(content)
        require_version(archive, path, raw)
        return [Part(one["name"], one["rows"], one["sha256"]) for one in raw["parts"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _changed(archive, path) from error


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes a task's rows as files under names that no other attempt uses. Picklable.

    Attributes:
        archive: where the table is.
        folder: its path.
        part_bytes: how many bytes of rows, in memory, go into one file.
    """

    archive: Archive
    folder: str
    part_bytes: int = _PART_BYTES

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows; yield one row of ``_PART_SCHEMA`` for each file, once it is durable.

        Raises:
            ArchiveError: a file cannot be written.
        """
        held: list[pa.RecordBatch] = []
        held_bytes = 0
        for batch in batches:
            held.append(batch)
            held_bytes += batch.nbytes
            if held_bytes >= self.part_bytes:
                yield from self._write(held)
                held, held_bytes = [], 0
        yield from self._write(held)

    def _write(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in batches)
        if not rows:
            return
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_batches(batches), sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
        name = f"part-{rows}-{secrets.token_hex(12)}.parquet"
        self.archive.write(f"{self.folder}/{name}", content)
        part = Part(name, rows, sha256(content).hexdigest())
        yield pa.RecordBatch.from_pylist([asdict(part)])


@dataclass(frozen=True, slots=True)
class PartReader:
    """Reads the files of a table in a task. Picklable.

    Attributes:
        archive: where the table is.
        folder: its path.
        schema: the wanted columns.
    """

    archive: Archive
    folder: str
    schema: pa.Schema

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the rows of the files whose ``name`` and ``sha256`` *batches* hold.

        Raises:
            ArchiveError: a file is missing, cannot be read or was changed.
        """
        for batch in batches:
            for part in batch.to_pylist():
                yield from self.batches(part["name"], part["sha256"])

    def batches(self, name: str, digest: str) -> Iterator[pa.RecordBatch]:
        """Read the rows of one file. Raises as ``read`` does."""
        path = f"{self.folder}/{name}"
        content = self.archive.read(path)
        if content is None:
            raise ArchiveError(
                f"archive {self.archive.root}: {path} is missing; restore it from a backup"
            )
        if sha256(content).hexdigest() != digest:
            raise _changed(self.archive, path)
        try:
            file = pq.ParquetFile(pa.BufferReader(content))
            names = [name for name in self.schema.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=names):
                yield self._conformed(batch)
        except pa.ArrowException as error:
            raise _changed(self.archive, path) from error

    def _conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return *batch* with the wanted columns: in their order, null where the file has none."""
        names = set(batch.schema.names)
        columns: list[Any] = [
            batch.column(field.name).cast(field.type)
            if field.name in names
            else pa.nulls(batch.num_rows, field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _changed(archive: Archive, path: str) -> ArchiveError:
    return ArchiveError(
        f"archive {archive.root}: {path} was changed after it was written; restore it from a backup"
    )
