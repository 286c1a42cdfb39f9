"""The archive's rows as Spark sees them, duplicates included: one frame, whoever reads the files.

Spark's own Parquet reader does where it can reach them: on local disk, and on S3 where the cluster
has a Hadoop file system for the scheme, as Glue and EMR have. Plain pyspark has none; there each
task fetches files through the archive's adapter and reads them with pyarrow.

Both readers give null for a column that the file's version did not write, and leave out a column
that this version does not know.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import StructType

from spark_reprocess.archive.dead_letter_schema import (
    ARROW_SCHEMA,
    SPARK_SCHEMA,
    column_of,
)
from spark_reprocess.archive.files import PARQUET_DAMAGE, Archive, damage_named
from spark_reprocess.errors import ArchiveError

MESSAGES = "messages"
DRAIN = "drain_id="

FILE = "file"
"""A column that a read adds if it is asked for: the path of a row's file below the archive."""

_BATCH_ROWS = 1000
"""A file holds about as many bytes as a chunk of a drain at most, so a batch does too."""

_FILES_PER_TASK = 16


def message_damage_named(archive: Archive, path: str) -> AbstractContextManager[None]:
    """Raise ArchiveError where the block finds that a file of messages is damaged."""
    return damage_named(archive, path, PARQUET_DAMAGE, "restore it or take it away")


def drain_folder(drain_id: str) -> str:
    """Where a drain's files lie, below the archive's root."""
    return f"{MESSAGES}/{DRAIN}{drain_id}"


def drain_of(path: str) -> str:
    """Which drain wrote the file at *path*."""
    return path.split("/")[1].removeprefix(DRAIN)


def arrival_order() -> list[Column]:
    """Return what to sort by for the order in which SQS received the messages of a message group.

    Sequence numbers are decimal digits without leading zeros, so the longer one is greater.
    Messages of standard queues have none and are sorted by time and id.
    """
    names = ("sequence_number", "sent_at", "message_id")
    return [F.length("sequence_number"), *map(F.col, names)]


def archive_rows(
    spark: SparkSession,
    archive: Archive,
    drain_ids: Sequence[str],
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """Read the rows of these drains as they were written: a message may have several.

    Args:
        spark: the session.
        archive: where the rows are.
        drain_ids: at least one; each must exist.
        columns: of ``ARROW_SCHEMA``, in the order wanted; None for all. Name what you need:
            reading through the adapter decodes nothing else.

    Returns:
        These columns and ``drain_id``. Lazy: each action reads the files again.
    """
    wanted = tuple(columns or ARROW_SCHEMA.names)
    if _spark_reads(spark, archive):
        return _rows_by_spark(spark, archive, drain_ids).select(*wanted, "drain_id")
    return _rows_by_adapter(spark, archive, _files(archive, drain_ids), wanted)


def rows_and_columns(
    spark: SparkSession, archive: Archive, drain_ids: Sequence[str], columns: Sequence[str]
) -> tuple[DataFrame, DataFrame]:
    """Read the rows as ``archive_rows`` does, with ``FILE``, and *columns* alone of the same files.

    A file that a drain adds after this is in neither of the two.
    """
    all_columns = (*ARROW_SCHEMA.names, FILE)
    if _spark_reads(spark, archive):
        rows = _rows_by_spark(spark, archive, drain_ids)
        return rows.select(*all_columns, "drain_id"), rows.select(*columns)
    files = _files(archive, drain_ids)
    rows = _rows_by_adapter(spark, archive, files, all_columns)
    return rows, _rows_by_adapter(spark, archive, files, columns).select(*columns)


def spark_path(archive: Archive, path: str) -> str:
    """Spell *path* for Spark's readers, which take it for a glob pattern: its signs are escaped."""
    return "".join(f"\\{c}" if c in "{}[]*?\\" else c for c in f"{archive.root}/{path}")


def _spark_reads(spark: SparkSession, archive: Archive) -> bool:
    """Whether Spark has a file system for the archive's scheme."""
    scheme, is_remote, _ = archive.root.partition("://")
    if not is_remote:
        return True
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no public question
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, hadoop)
    except Py4JJavaError:
        return False
    return True


def _rows_by_spark(spark: SparkSession, archive: Archive, drain_ids: Sequence[str]) -> DataFrame:
    path = F.concat(F.lit(f"{MESSAGES}/{DRAIN}"), "drain_id", F.lit("/"), "_metadata.file_name")
    return (
        spark.read.schema(f"{SPARK_SCHEMA}, drain_id string")
        .parquet(spark_path(archive, MESSAGES))
        .where(F.col("drain_id").isin(*drain_ids))
        .withColumn(FILE, path)
    )


def _files(archive: Archive, drain_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Each file's path, and the drain that wrote it."""
    return [
        (path, drain_id)
        for drain_id in drain_ids
        for path in archive.list(drain_folder(drain_id))
        if path.endswith(".parquet")
    ]


def _rows_by_adapter(
    spark: SparkSession,
    archive: Archive,
    files: Sequence[tuple[str, str]],
    columns: Sequence[str],
) -> DataFrame:
    table = pa.table({"path": [file[0] for file in files], "drain_id": [file[1] for file in files]})
    tasks = max(spark.sparkContext.defaultParallelism, len(files) // _FILES_PER_TASK)
    all_fields = cast("StructType", StructType.fromDDL(f"{SPARK_SCHEMA}, {FILE} string"))
    schema = StructType([all_fields[name] for name in columns]).add("drain_id", "string")
    spread = spark.createDataFrame(table).repartition(tasks)
    return spread.mapInArrow(FileReader(archive, tuple(columns)).read, schema)


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads files of messages in a task. Picklable."""

    archive: Archive
    columns: tuple[str, ...]

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the rows of the files whose ``path`` and ``drain_id`` *batches* hold.

        Raises:
            ArchiveError: a file is gone or damaged.
        """
        for batch in batches:
            for file in batch.to_pylist():
                yield from self._rows(file["path"], file["drain_id"])

    def _rows(self, path: str, drain_id: str) -> Iterator[pa.RecordBatch]:
        content = self.archive.read(path)
        if content is None:
            raise ArchiveError(f"archive {self.archive.root}: {path} was there and is gone")
        for batch in self._decoded(path, content):
            known: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
            known["drain_id"] = pa.repeat(pa.scalar(drain_id), batch.num_rows)
            known[FILE] = pa.repeat(pa.scalar(path), batch.num_rows)
            names = [*self.columns, "drain_id"]
            yield pa.RecordBatch.from_arrays([known[name] for name in names], names=names)

    def _decoded(self, path: str, content: bytes) -> Iterator[pa.RecordBatch]:
        with message_damage_named(self.archive, path):
            file = pq.ParquetFile(pa.BufferReader(content))
            columns = [name for name in self.columns if name != FILE]
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
                # By name: a file lists its columns in its own order, and an old one lacks some.
                arrays = [column_of(batch, name) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, names=columns)
