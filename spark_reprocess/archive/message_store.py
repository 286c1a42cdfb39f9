"""Messages in the archive: ``messages/drain_id=<id>/part-*.parquet``, one row per parked copy.

Files are written once and never changed; to erase a message, a file is replaced. A crash may leave
a message in two of them, so every read keeps one row per message id.
"""

import re
import secrets
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.dead_letter_schema import Row, to_table
from spark_reprocess.archive.files import PARQUET_DAMAGE, Archive
from spark_reprocess.archive.message_set import MessageSet, message_set
from spark_reprocess.archive.reading import (
    DRAIN,
    FILE,
    MESSAGES,
    drain_folder,
    message_damage_named,
    rows_and_columns,
)
from spark_reprocess.errors import InputError
from spark_reprocess.spark.conditions import explained

_FEW_IDS = 100_000
"""So many message ids every task can take along: about 10 MB."""

_NAME = re.compile(r"/part-(?P<task>\d+)-(?P<rows>\d+)-[^/]+\.parquet$")


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


def write_without(archive: Archive, path: str, message_ids: Collection[str]) -> int:
    """Replace a file by one without these messages; return how many rows went.

    The new file is durable before the old one is removed, and has the same name each time, so that
    a repeat after a crash goes on where it was. A file that loses its last row stays as an empty
    one: plans name their drains.

    Raises:
        ArchiveError: the old file cannot be read or removed, or the new one cannot be written.
    """
    content = archive.read(path)
    if content is None:
        return 0
    with message_damage_named(archive, path):
        table = pq.read_table(pa.BufferReader(content))
    gone = pc.is_in(table["message_id"], value_set=pa.array(sorted(message_ids), pa.string()))
    kept = table.filter(pc.invert(gone))
    erased = int(table.num_rows - kept.num_rows)
    if erased:
        sink = pa.BufferOutputStream()
        pq.write_table(kept, sink, compression="zstd")
        archive.write(_name_without(path, kept), sink.getvalue().to_pybytes())
        archive.remove(path)
    return erased


def holds_any(content: bytes, ids: Collection[str]) -> bool:
    """Whether a file has a row with one of these message ids or first ids, or cannot be read."""
    wanted = pa.array(sorted(ids), pa.string())
    try:
        keys = pq.read_table(pa.BufferReader(content), columns=["message_id", "first_id"])
        found = (pc.is_in(keys[name], value_set=wanted) for name in keys.schema.names)
        return any(pc.any(one).as_py() for one in found)
    except PARQUET_DAMAGE:
        return True


def _name_without(path: str, kept: pa.Table) -> str:
    folder, name = path.rsplit("/", 1)
    task = name.split("-")[1] if name.count("-") > 1 else "00000"
    ids = "\n".join([path, *map(str, kept["message_id"].to_pylist())])
    return f"{folder}/part-{task}-{kept.num_rows}-{sha256(ids.encode()).hexdigest()[:16]}.parquet"


def rows_written(archive: Archive, drain_id: str, task: int | None = None) -> int:
    """How many rows a drain, or one task of it, has written so far, as its files' names tell it."""
    names = (_NAME.search(path) for path in archive.list(drain_folder(drain_id)))
    return sum(int(name["rows"]) for name in names if name and task in (None, int(name["task"])))


def drain_ids(archive: Archive) -> list[str]:
    """Return the ids of all drains that brought at least one message, oldest first."""
    folders = {path.split("/")[1] for path in archive.list(MESSAGES) if path.endswith(".parquet")}
    return sorted(f.removeprefix(DRAIN) for f in folders if f.startswith(DRAIN))


def read_archive(
    spark: SparkSession, archive: Archive, wanted: Sequence[str] | None = None
) -> DataFrame:
    """Read the messages of the drains *wanted*, or of all; one row per message id.

    Of several rows of one message the one drained first is kept, always the same. Looks at all
    message ids right away, so that bodies need to be moved for those alone that have several rows.

    Raises:
        InputError: the archive has no messages, or lacks one of the drains.
        ArchiveError: a file of the archive is broken.
    """
    return read_archive_set(spark, archive, wanted)[0].drop(FILE)


def read_rows(
    spark: SparkSession, archive: Archive, wanted: Sequence[str], columns: Sequence[str]
) -> tuple[DataFrame, DataFrame]:
    """Read the rows of the drains *wanted* as they were written: a message may have several.

    Reads nothing yet.

    Returns:
        The rows, and *columns* alone of the same rows.

    Raises:
        InputError: the archive has no messages, or lacks one of the drains.
    """
    drains = require_drains(archive, wanted)
    rows, some = rows_and_columns(spark, archive, drains, columns)
    return rows.drop(FILE), some


def read_archive_set(
    spark: SparkSession, archive: Archive, wanted: Sequence[str] | None = None
) -> tuple[DataFrame, MessageSet]:
    """Read as ``read_archive`` does, with ``FILE``; also return the set of the ids."""
    drains = require_drains(archive, wanted)
    rows, ids = rows_and_columns(spark, archive, drains, ["message_id"])
    with explained(None):
        known = message_set(ids)
        if known.rows == known.messages:
            return rows, known
        repeated = ids.groupBy("message_id").count().where("count > 1").select("message_id")
        return _one_row_per_message(rows, repeated, repeated.count()), known


def require_drains(archive: Archive, wanted: Sequence[str] | None) -> Sequence[str]:
    """Return the drains *wanted*, or all.

    Raises:
        InputError: the archive has no messages, or lacks one of the drains.
    """
    existing = drain_ids(archive)
    if not existing:
        raise InputError(f"archive {archive.root}: holds no messages; run drain first")
    missing = sorted(set(wanted or ()) - set(existing))
    if missing:
        raise InputError(f"archive {archive.root}: holds no drain {', '.join(missing)}")
    return wanted or existing


def column_texts(column: DataFrame) -> list[str]:
    """Bring a frame of one text column to the driver."""
    return [str(text) for text in column.toArrow().column(0).to_pylist()]


def _one_row_per_message(rows: DataFrame, repeated: DataFrame, how_many: int) -> DataFrame:
    ids = F.broadcast(repeated) if how_many <= _FEW_IDS else repeated
    once = rows.join(ids, "message_id", "left_anti")
    order = Window.partitionBy("message_id").orderBy(
        "drained_at", "drain_id", "receive_count", FILE
    )
    copies = rows.join(ids, "message_id", "left_semi")
    ranked = copies.withColumn("_copy", F.row_number().over(order))
    first = ranked.where("_copy = 1").drop("_copy")
    return once.unionByName(first).select(*rows.columns)
