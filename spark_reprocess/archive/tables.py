"""A table in the archive that Spark tasks write and read; ``table_parts`` has its files.

Each task writes its rows through the archive's adapter, so a table on S3 needs no Hadoop file
system.
"""

from dataclasses import asdict
from functools import partial
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.table_parts import (
    PARTS,
    Part,
    commit,
    parts_of,
    read_parts,
    write_parts,
)
from spark_reprocess.spark.conditions import explained

_MOST_BROADCAST_ROWS = 100_000
DRIVER_ROWS = 20_000
"""The driver itself writes and reads a table of so few rows: that is quicker than Spark's tasks."""

_PARTS_PER_TASK = 4


def write_table(frame: DataFrame, archive: Archive, folder: str, rows: int | None = None) -> str:
    """Evaluate *frame* once and write it as the table *folder*.

    A table is written once. Where another writer was first, its table stays, and the files of this
    call are removed.

    Args:
        frame: the rows. Each task writes the rows of its partition.
        archive: where the table goes.
        folder: its path below the archive's root.
        rows: how many rows the frame has; None if unknown.

    Returns:
        The digest of the table that is there now: the SHA-256 of its manifest, in hex.

    Raises:
        ArchiveError: a file cannot be written. There is no table then.
    """
    write = partial(write_parts, archive, folder)
    with explained(None):
        if rows is not None and rows <= DRIVER_ROWS:
            written = pa.Table.from_batches(write(frame.toArrow().to_batches()), PARTS)
        else:
            written = frame.mapInArrow(write, from_arrow_schema(PARTS)).toArrow()
    return commit(archive, folder, [Part(**row) for row in written.to_pylist()])


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
    arrow_schema = to_arrow_schema(schema)
    read = partial(read_parts, archive, folder, arrow_schema)
    listed = pa.Table.from_pylist([asdict(one) for one in parts], schema=PARTS)
    rows_in_all = sum(one.rows for one in parts)
    if rows_in_all <= DRIVER_ROWS:
        found = pa.Table.from_batches(read(listed.to_batches()), arrow_schema)
        return spark.createDataFrame(found, schema)
    tasks = max(spark.sparkContext.defaultParallelism, len(parts) // _PARTS_PER_TASK)
    spread = spark.createDataFrame(listed).repartition(min(tasks, len(parts)))
    rows = spread.mapInArrow(read, schema)
    # Spark takes the rows for as many as the list of files has. It would broadcast millions.
    return rows.hint("merge") if rows_in_all > _MOST_BROADCAST_ROWS else rows
