"""Measures what a night costs in an archive of thirty, and what all its messages take.

Old nights are written as files, as drain, analysis and redrive write them. The fifth night and the
last one are real, and so is an analysis of a few messages among those of ten.
"""

import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import boto3
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.analysis import END, write_archive
from benchmarks.findings import Finding
from benchmarks.rig import Rig
from benchmarks.verbs import ANALYZE, TimedVerb, approved, timed_verb
from dlq.archive.ledger.claims import (
    CHUNK_MESSAGES,
    Claim,
    Ledger,
    Result,
    RunRecord,
    record_run,
)
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.open_set import read_messages
from dlq.archive.ledger.run_results import write_result_files
from dlq.archive.messages.message_index import table_folder
from dlq.archive.messages.message_store import drain_folder
from dlq.archive.storage.files import Archive, new_id, open_archive
from dlq.archive.storage.table_parts import parquet_bytes, write_whole
from dlq.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text

MESSAGES = 100_000
"""Of a night."""

NIGHTS = 30
FEW_NIGHTS = 5
SOME_NIGHTS = 10
"""Of the archive in which an analysis of few messages is measured."""

PENDING = 200
"""The messages of that analysis."""

TURNS = 3
EXPIRE = ("erase", "--execute", "--older-than-days")
NIGHT_TARGET = 1.2
WRITES_TARGET = 1.2
ANALYSIS_TARGET = 1.5
MEMORY_TARGET_MB = 300 * 1.048576

_PLANNED = ("message_id", "first_id", "sent_at", "receive_count", "body_bytes")


def measure(rig: Rig) -> list[Finding]:
    """Measure few messages in an old archive, the nights, and all messages."""
    count = rig.sized(MESSAGES)
    with tempfile.TemporaryDirectory(prefix="bench-growth-") as folder:
        write_archive(Path(folder, "night"), count)
        parts = [pq.read_table(path) for path in sorted(Path(folder).rglob("*.parquet"))]

        def archive_of(name: str, nights: int, pending: int = 0) -> Archive:
            rig.notify(f"growth: {nights} nights of {count:,} messages")
            archive = open_archive(f"{folder}/{name}", creates=True)
            # What is made up need not be durable.
            with patch.object(os, "fsync"):
                for days_ago in range(nights, 0, -1):
                    write_night(archive, parts, days_ago, pending if days_ago == 1 else 0)
            read_messages(archive).open_set.write(archive)
            return archive

        old = archive_of("some", SOME_NIGHTS, PENDING)
        young = open_archive(f"{folder}/young", creates=True)
        write_night(young, [parts[0].slice(0, 2 * PENDING)], 1, PENDING)
        analyses = _analyses(rig, old, young)

        few_nights = archive_of("few", FEW_NIGHTS - 1)
        fifth_night = _night(few_nights, parts)
        many_nights = archive_of("many", NIGHTS - 1)
        last_night = _night(many_nights, parts)
        nights = {"": [last_night], f", night {FEW_NIGHTS}": [fifth_night]}

        what = f"analysis of {PENDING} among {SOME_NIGHTS * count:,}"
        night = f"night {NIGHTS}"
        return [
            _ratio(f"{what}, processor", "processor_seconds", "s", analyses, ANALYSIS_TARGET),
            _ratio(f"{what}, written", "written_mb", "MB", analyses, WRITES_TARGET),
            _ratio(f"{night}, s", "processor_seconds", "s", nights, NIGHT_TARGET),
            _ratio(f"{night}, MB", "moved_mb", "MB", nights, NIGHT_TARGET),
            _ratio(f"{night}, S3 calls", "calls", "S3 calls", nights, NIGHT_TARGET),
            *_whole_archive(NIGHTS * count, many_nights),
        ]


def _analyses(rig: Rig, old: Archive, young: Archive) -> Mapping[str, Sequence[TimedVerb]]:
    """Analyze the pending messages of both archives by turns, after a warm-up."""
    programs = {
        "": partial(_verb, old, *ANALYZE),
        ", the other": partial(_verb, young, *ANALYZE),
    }
    for analyze in programs.values():
        analyze()
    return rig.by_turns(programs, TURNS)


def _verb(archive: Archive, *verb: str, days_later: int = 0) -> TimedVerb:
    return timed_verb(
        *verb,
        "--archive",
        archive.root,
        driver_memory="4g",
        counts=True,
        days_later=days_later,
    )


def _night(archive: Archive, parts: Sequence[pa.Table]) -> TimedVerb:
    """Return what analysis, redrive, status and expiry of a new drain take together."""
    write_drain(archive, parts, 0)
    total = _verb(archive, *ANALYZE)

    plan = approved(Path(archive.root))
    url = boto3.client("sqs").create_queue(QueueName="main")["QueueUrl"]
    total += _verb(
        archive,
        "redrive",
        "--plan",
        plan,
        "--to-queue-url",
        url,
        "--execute",
        "--reason",
        "benchmark",
    )

    total += _verb(archive, "status")
    total += _verb(archive, *EXPIRE, str(NIGHTS))
    return total


def write_night(
    archive: Archive, parts: Sequence[pa.Table], days_ago: int, pending: int = 0
) -> None:
    """Write a night of the past, of which all messages but *pending* were sent."""
    drained_at, drain_id, rows = write_drain(archive, parts, days_ago)
    plan_id = new_id((drained_at + timedelta(minutes=1)).timestamp())
    digest = write_whole(archive, table_folder(plan_id), [rows])
    group = PlannedGroup("g-1", "an error", rows.num_rows, Action.REDRIVE)
    snapshot = Snapshot(drain_ids=(drain_id,), messages=rows.num_rows, table_sha256=digest)
    plan = Plan(plan_id, archive.root, snapshot, (group,))
    archive.write(f"reports/{plan_id}/plan.yaml", plan_text(plan, {"g-1": []}).encode())

    time = drained_at.isoformat()
    run = RunRecord(
        run_id=new_id((drained_at + timedelta(minutes=2)).timestamp()),
        plan_id=plan_id,
        verb="redrive",
        actor="me@here",
        reason="an old night",
        time=time,
        destination="https://q",
    )
    record_run(archive, run)

    ledger = Ledger(archive, plan_id, run.run_id)
    sent_ids = list(map(str, rows["message_id"].to_pylist()))[pending:]
    for chunk, first in enumerate(range(0, len(sent_ids), CHUNK_MESSAGES)):
        chunk_ids = tuple(sent_ids[first : first + CHUNK_MESSAGES])
        claim = Claim(
            who="me@here",
            reason="",
            destination="https://q",
            time=time,
            message_ids=chunk_ids,
            drain_ids=(drain_id,) * len(chunk_ids),
        )
        ledger.claim("without-order", chunk, claim)

        results = []
        for message_id in chunk_ids:
            new_message_id = message_id[::-1]
            results.append(Result(message_id, Disposition.SENT, time, new_message_id))
        ledger.record("without-order", chunk, results)
    write_result_files(archive, (plan_id, run.run_id))


def write_drain(
    archive: Archive, parts: Sequence[pa.Table], days_ago: int
) -> tuple[datetime, str, pa.Table]:
    """Write messages with ids of their own, as a drain of the past.

    Returns:
        Its time, its id, and the table of a plan of all its messages.
    """
    drained_at = datetime.now(UTC) - timedelta(days=days_ago)
    drain_id = new_id(drained_at.timestamp())
    shift = pa.scalar(drained_at - END)
    chance = random.Random(days_ago)
    planned = []

    for task, part in enumerate(parts):
        count = part.num_rows
        ids = pa.array([str(UUID(int=chance.getrandbits(128))) for _ in range(count)])
        columns: dict[str, Any] = {name: part[name] for name in part.column_names}
        columns["message_id"] = ids
        columns["first_id"] = ids
        for name in ("sent_at", "first_received_at", "first_seen_at", "drained_at"):
            columns[name] = pc.add(part[name], shift)
        rows = pa.table(columns, schema=part.schema)
        path = f"{drain_folder(drain_id)}/part-{task:05d}-{count}-bench.parquet"
        archive.write(path, parquet_bytes(rows))

        table = rows.select(_PLANNED)
        table = table.append_column("file", pa.array([path] * count, pa.string()))
        table = table.append_column("group_id", pa.array(["g-1"] * count, pa.string()))
        table = table.append_column("unit", pa.nulls(count, pa.string()))
        table = table.append_column("position", pa.nulls(count, pa.int64()))
        planned.append(table)

    return drained_at, drain_id, pa.concat_tables(planned)


def _ratio(
    what: str, figure: str, unit: str, sides: Mapping[str, Sequence[TimedVerb]], target: float
) -> Finding:
    """Divide a figure of the first side's verbs by that of the second's."""
    values = {}
    for side, verbs in sides.items():
        values[unit + side] = [getattr(verb, figure) for verb in verbs]
    return Finding.of_ratio(what, values, at_most=target)


def _whole_archive(messages: int, archive: Archive) -> Iterator[Finding]:
    """Measure verbs that read all messages of an archive."""
    status = _verb(archive, "status")
    expiry = _verb(archive, *EXPIRE, "15", days_later=60)
    for name, took in (("status", status), ("expiry", expiry)):
        what = f"{name} of {messages:,} messages"
        yield Finding(f"{what}, memory", [took.peak_mb], "MB", at_most=MEMORY_TARGET_MB)
        yield Finding(f"{what}, moved", [took.moved_mb], "MB")
