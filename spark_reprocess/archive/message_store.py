"""Messages in the archive: ``messages/drain_id=<id>/part-*.parquet``, one row per parked copy.

Files are written once and never changed. A crash may leave a message in two of them, so every read
keeps one row per message id.
"""

import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.dead_letter_schema import Row, to_table
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.reading import DRAIN, MESSAGES, archive_rows, drain_folder
from spark_reprocess.errors import InputError

_ROWS_IN_NAME = re.compile(r"/part-\d+-(?P<rows>\d+)-[^/]+\.parquet$")


def new_id(now_seconds: float) -> str:
    """Make an id for a drain, a report or a run: sorts by time, unique, safe in a path."""
    return f"{datetime.fromtimestamp(now_seconds, UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def write_messages(archive: Archive, drain_id: str, task: int, rows: list[Row]) -> str:
    """Write rows as one new Parquet file; return its path once it is durable.

    The name says how many rows there are, so that a drain can be watched by its file names.

    Raises:
        ArchiveError: it could not be written; nothing of it may be deleted from the queue.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(to_table(rows), sink, compression="zstd")
    name = f"part-{task:05d}-{len(rows)}-{secrets.token_hex(8)}.parquet"
    path = f"{drain_folder(drain_id)}/{name}"
    archive.write(path, sink.getvalue().to_pybytes())
    return path


def rows_written(archive: Archive, drain_id: str) -> int:
    """How many rows a drain has written so far, as its files' names tell it."""
    names = (_ROWS_IN_NAME.search(path) for path in archive.list(drain_folder(drain_id)))
    return sum(int(name["rows"]) for name in names if name)


def drain_ids(archive: Archive) -> list[str]:
    """Return the ids of all drains that brought at least one message, oldest first."""
    folders = {path.split("/")[1] for path in archive.list(MESSAGES) if path.endswith(".parquet")}
    return sorted(f.removeprefix(DRAIN) for f in folders if f.startswith(DRAIN))


def read_archive(
    spark: SparkSession, archive: Archive, wanted: Sequence[str] | None = None
) -> DataFrame:
    """Read the messages of the drains *wanted*, or of all; one row per message id.

    Of several rows of one message the one drained first is kept, always the same.

    Raises:
        InputError: the archive has no messages, or lacks one of the drains.
    """
    existing = drain_ids(archive)
    if not existing:
        raise InputError(f"archive {archive.root}: holds no messages; run drain first")
    missing = sorted(set(wanted or ()) - set(existing))
    if missing:
        raise InputError(f"archive {archive.root}: holds no drain {', '.join(missing)}")
    return _one_row_per_message(archive_rows(spark, archive, wanted or existing))


def column_texts(column: DataFrame) -> list[str]:
    """Bring a frame of one text column to the driver."""
    return [str(text) for text in column.toArrow().column(0).to_pylist()]


def _one_row_per_message(rows: DataFrame) -> DataFrame:
    order = Window.partitionBy("message_id").orderBy("drained_at", "drain_id", "receive_count")
    return rows.withColumn("_copy", F.row_number().over(order)).where("_copy = 1").drop("_copy")
