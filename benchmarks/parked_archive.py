"""Writes the archive of an incident fast; it is the same in every run."""

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.invocation import ACCOUNT
from benchmarks.parked_messages import FIRST_SECOND, SECONDS, SKEWED, Draw, Ints
from benchmarks.rig import REGION
from spark_reprocess.archive.dead_letter_schema import ARROW_SCHEMA
from spark_reprocess.archive.message_store import drain_folder

ROWS_PER_FILE = 2500

_DRAIN_ID = "20261122T000000Z-bench0"


def write_archive(root: Path, messages: int) -> None:
    """Write messages as one drain does."""
    folder = root / drain_folder(_DRAIN_ID)
    folder.mkdir(parents=True)
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        firsts = range(0, messages, ROWS_PER_FILE)
        list(executor.map(partial(_write_file, folder, messages), firsts))


def beginning_of(archive: Path, part: Path, messages: int) -> None:
    """Make an archive of the first *messages* of another, with hard links to its files.

    Raises:
        ValueError: *messages* is not a multiple of the messages per file.
    """
    if messages % ROWS_PER_FILE:
        raise ValueError(f"{messages} is not a multiple of {ROWS_PER_FILE} messages per file")
    files = sorted((archive / drain_folder(_DRAIN_ID)).iterdir())
    (part / drain_folder(_DRAIN_ID)).mkdir(parents=True)
    for file in files[: messages // ROWS_PER_FILE]:
        (part / file.relative_to(archive)).hardlink_to(file)


def _write_file(folder: Path, messages: int, first: int) -> None:
    table = file_of(first, min(ROWS_PER_FILE, messages - first))
    name = f"part-{first // ROWS_PER_FILE:05d}-{table.num_rows}-bench.parquet"
    pq.write_table(table, folder / name, compression="zstd")


def file_of(first: int, rows: int) -> pa.Table:
    """Return *rows* messages from number *first* on; the same in every run."""
    draw = Draw(first, rows)
    ids, sent_at = draw.uuids(), draw.moments()
    body = draw.bodies(sent_at)
    error_types, error_messages = draw.errors()
    columns: dict[str, Any] = {
        "message_id": ids,
        "first_id": ids,
        "body": body,
        "attributes": draw.attributes(),
        "source_arn": [f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders-dlq"] * rows,
        "sender_id": ["AROAEXAMPLE:orders"] * rows,
        "sent_at": _times(sent_at),
        "first_received_at": _times(sent_at),
        "receive_count": [1] * rows,
        "replay_count": draw.numbers(7),
        "first_seen_at": _times(sent_at - draw.numbers(7200)),
        "parked_reason": draw.of(("attempts_exhausted", "too_old"), SKEWED),
        "error_type": error_types,
        "error_message": error_messages,
        "body_bytes": [len(text) for text in body],
        "queue_url": [f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/orders-parked"] * rows,
        "drained_at": _times(np.full(rows, FIRST_SECOND + SECONDS)),
    }
    arrays = [
        pa.array(columns.get(field.name, [None] * rows), field.type) for field in ARROW_SCHEMA
    ]
    return pa.table(arrays, schema=ARROW_SCHEMA)


def _times(seconds: Ints) -> "pa.Array[Any]":
    return pa.array(seconds * 1_000_000, pa.timestamp("us", tz="UTC"))
