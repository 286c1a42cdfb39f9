"""The archive as Spark DataFrames: its messages and its tables.

The driver reads few files of messages. Spark's own Parquet reader reads more where it can reach
them: on local disk, and on S3 where the cluster has a Hadoop file system for the scheme, as AWS
Glue has. Plain pyspark has none; there each task fetches files through the archive's adapter.
Tables (see ``table_parts``), ledgers (see ``run_results``), and messages that a function in Python
makes other rows of (see ``map_files``) are always read through the adapter.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructType

from dlq.archive.ledger.open_set import first_rows_of
from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.archive.messages.message_store import (
    drain_folder,
    drain_of,
    is_in,
    opened,
    require_drains,
    rows_named,
)
from dlq.archive.storage.files import MESSAGES, Archive
from dlq.archive.storage.records import missing
from spark_reprocess.evaluation import to_arrow
from spark_reprocess.session import compile_queries

SPARK_SCHEMA = ", ".join(
    f"{field.name} {from_arrow_type(field.type).simpleString()}" for field in ARROW_SCHEMA
)
"""The columns of the archive as Spark's DDL. A read adds the partition column ``drain_id``."""

FILE = "file"
"""A column that a read adds if it is asked for: the path of a row's file below the archive."""

_BATCH_ROWS = 1000
"""A file holds about as many bytes as a chunk of a drain at most, so a batch does too."""

_FILES_PER_TASK = 50
"""Between two tasks a Python worker collects its garbage, which takes a tenth of a second."""

FEW_FILES = 8
"""The messages of so many files, at most 16,000 or 128 MiB, the driver itself reads and holds. That
is quicker than to start Python workers, and to load what Spark needs to read Parquet."""


Reader = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def read_archive(spark: SparkSession, archive: Archive) -> DataFrame:
    """Read the messages of all drains; one row per message id, with ``FILE``. Lazy.

    Of several rows of one message the one drained first is kept, always the same. The driver holds
    all message ids.

    Raises:
        InputError: the archive has no messages.
    """
    return read_some(spark, archive, first_rows_of(archive, require_drains(archive)))


def read_some(
    spark: SparkSession,
    archive: Archive,
    messages: pa.Table,
    columns: Sequence[str] = ARROW_SCHEMA.names,
    through: tuple[Reader, pa.Schema] | None = None,
) -> DataFrame:
    """Read *columns*, ``FILE`` and ``drain_id`` of these messages; open their files alone. Lazy.

    *messages* has ``message_id`` and ``FILE``: a row of each message, one of them. With *through*,
    a function and the schema of its rows (see ``map_files``), the frame has the columns of those;
    ``message_id`` and ``FILE`` must be among them.
    """
    counted: Any = pc.value_counts(messages[FILE].cast(pa.string()))
    counts = {row["values"]: row["counts"] for row in counted.to_pylist()}
    mixed = sorted(path for path, count in counts.items() if rows_named(path) != count)
    whole = sorted(counts.keys() - set(mixed))
    names = list(dict.fromkeys(("message_id", *columns, FILE)))
    few = len(counts) <= FEW_FILES
    rows = _rows_of(spark, archive, whole, names, through, is_few=few or not whole)
    if mixed:
        keys = messages.select(["message_id", FILE])
        keys = keys.set_column(1, FILE, keys[FILE].cast(pa.string()))
        keys = keys.filter(is_in(keys[FILE], mixed))
        wanted = spark.createDataFrame(keys)
        if keys.num_rows <= DRIVER_ROWS:
            wanted = F.broadcast(wanted)
            if through:
                ids, (function, schema) = keys["message_id"], through

                def of_wanted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                    return function(one.filter(is_in(one["message_id"], ids)) for one in batches)

                through = of_wanted, schema
        found = _rows_of(spark, archive, mixed, names, through, is_few=few)
        found = found.join(wanted, ["message_id", FILE], "left_semi")
        rows = rows.unionByName(found) if whole else found
    return rows


def read_rows(
    spark: SparkSession, archive: Archive, paths: Sequence[str], columns: Sequence[str]
) -> tuple[DataFrame, DataFrame]:
    """Read the rows of these files, which exist; a message may have several.

    Lazy unless they are few: each action reads the files again. A file that a drain adds after this
    is in neither frame.

    Returns:
        All columns, ``drain_id`` and ``FILE`` of the rows; and *columns* alone of the same rows.
    """
    few = tuned(spark, paths)
    rows = _rows_of(spark, archive, paths, (*ARROW_SCHEMA.names, FILE), is_few=few)
    prunes = few or _spark_reads(spark, archive)
    slim = rows if prunes else _rows_of(spark, archive, paths, columns, is_few=False)
    return rows, slim.select(*columns)


def _rows_of(
    spark: SparkSession,
    archive: Archive,
    paths: Sequence[str],
    names: Sequence[str],
    through: tuple[Reader, pa.Schema] | None = None,
    *,
    is_few: bool,
) -> DataFrame:
    """Return columns of these files, and ``drain_id``; or what *through* makes of them."""
    if is_few or through or not _spark_reads(spark, archive):
        fields = cast("StructType", StructType.fromDDL(f"{SPARK_SCHEMA}, {FILE} string"))
        own = StructType([fields[name] for name in names]).add("drain_id", "string")
        function, schema = through or (iter, to_arrow_schema(own))
        return map_files(spark, archive, paths, names, function, schema, is_few=is_few)
    path = F.concat(F.lit(drain_folder("")), "drain_id", F.lit("/"), "_metadata.file_name")
    rows = (
        spark.read.schema(f"{SPARK_SCHEMA}, drain_id string")
        .option("basePath", f"{archive.root}/{MESSAGES}")
        .parquet(*(f"{archive.root}/{one}" for one in paths))
    )
    return rows.withColumn(FILE, path).select(*names, "drain_id")


def map_files(
    spark: SparkSession,
    archive: Archive,
    paths: Sequence[str],
    columns: Sequence[str],
    function: Reader,
    schema: pa.Schema,
    *,
    is_few: bool,
) -> DataFrame:
    """Apply *function* to all rows of these files: in Spark's tasks, or here and at once if few.

    Its batches are those of ``read_files``. What it drops never comes into the JVM.
    """
    read = partial(read_files, archive, columns)
    if is_few:
        return local_frame(spark, pa.Table.from_batches(function(read(paths)), schema))
    tasks = max(spark.sparkContext.defaultParallelism, len(paths) // _FILES_PER_TASK)

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch["id"].to_pylist())
        return function(read(path for number in numbers for path in paths[number::tasks]))

    # Each task takes the list along: to shuffle its rows would be a job of its own.
    each = spark.range(tasks, numPartitions=tasks)
    return each.mapInArrow(of_task, from_arrow_schema(schema))


def tuned(spark: SparkSession, paths: Collection[str]) -> bool:
    """Prepare the session for a verb over the messages of these files; say whether they are few.

    The settings stay until the verb ends, see ``under_our_settings``.
    """
    few = len(paths) <= FEW_FILES
    # To compile a query takes longer than to run it over few rows.
    compile_queries(spark, does_compile=not few)
    return few


def local_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return rows that the driver holds as a frame of one partition: nothing is shuffled."""
    # Of columns without any chunk Spark cannot tell the type.
    held = rows if rows.num_rows else rows.schema.empty_table()
    return spark.createDataFrame(held).coalesce(1)


def map_rows(rows: DataFrame, function: Reader, schema: pa.Schema, *, is_few: bool) -> DataFrame:
    """Apply *function* to the batches of *rows*: in Spark's tasks, or here and at once if few."""
    if is_few:
        found = pa.Table.from_batches(function(rows.toArrow().to_batches()), schema)
        return local_frame(rows.sparkSession, found)
    return rows.mapInArrow(function, from_arrow_schema(schema))


def _spark_reads(spark: SparkSession, archive: Archive) -> bool:
    """Whether Spark has a file system for the archive, and takes its root for no glob pattern."""
    if not set("{}[]*?\\").isdisjoint(archive.root):
        return False
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


def read_files(
    archive: Archive, columns: Sequence[str], paths: Iterable[str]
) -> Iterator[pa.RecordBatch]:
    """Read *columns* and ``drain_id`` of the files at *paths*."""
    stored = [name for name in columns if name != FILE]
    names = [*columns, "drain_id"]
    for path in paths:
        with opened(archive, path) as file:
            if file is None:
                raise missing(archive, path)
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=stored):
                known: dict[str, Any] = {name: batch.column(name) for name in stored}
                known["drain_id"] = pa.repeat(pa.scalar(drain_of(path)), batch.num_rows)
                known[FILE] = pa.repeat(pa.scalar(path), batch.num_rows)
                yield pa.RecordBatch.from_arrays([known[name] for name in names], names=names)


def column_texts(column: DataFrame) -> list[str]:
    """Bring a frame of one text column to the driver."""
    return [str(text) for text in to_arrow(column).column(0).to_pylist()]


DRIVER_ROWS = 100_000
"""So few rows of ids and short texts, about 20 MB, the driver itself writes, reads and holds: that
is quicker than Spark's tasks. And every task can take them along."""
