"""Measures what a night costs in an archive of thirty, and what all its messages take.

Old nights are written as files, as drain, analysis and redrive write them. The fifth night and the
last one are real, and so is an analysis of a few messages among those of ten.
"""

import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
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

NIGHTS, FEW_NIGHTS, SOME_NIGHTS = 30, 5, 10
PENDING = 200
"""Few messages, of which an analysis is measured."""

TURNS = 3
EXPIRE = ("erase", "--execute", "--older-than-days")
NIGHT_TARGET, WRITES_TARGET, ANALYSIS_TARGET = 1.2, 1.2, 1.5
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
                for ago in range(nights, 0, -1):
                    write_night(archive, parts, ago, pending if ago == 1 else 0)
            read_messages(archive).open_set.write(archive)
            return archive

        old = archive_of("some", SOME_NIGHTS, PENDING)
        young = open_archive(f"{folder}/young", creates=True)
        write_night(young, [parts[0].slice(0, 2 * PENDING)], 1, PENDING)
        among = {"": partial(_verb, old, *ANALYZE), ", the other": partial(_verb, young, *ANALYZE)}
        for analyze in among.values():
            analyze()
        analyses = rig.by_turns(among, TURNS)
        few = _night(archive_of("few", FEW_NIGHTS - 1), parts)
        archive = archive_of("many", NIGHTS - 1)
        nights = {"": [_night(archive, parts)], f", night {FEW_NIGHTS}": [few]}
        what = f"analysis of {PENDING} among {SOME_NIGHTS * count:,}"
        units = (("processor_seconds", "s"), ("moved_mb", "MB"), ("calls", "S3 calls"))
        return [
            _ratio(f"{what}, processor", "processor_seconds", "s", analyses, ANALYSIS_TARGET),
            _ratio(f"{what}, written", "written_mb", "MB", analyses, WRITES_TARGET),
            *(_ratio(f"night {NIGHTS}, {u}", of, u, nights, NIGHT_TARGET) for of, u in units),
            *_all(NIGHTS * count, archive),
        ]


def _verb(archive: Archive, *verb: str, days_later: int = 0) -> TimedVerb:
    place = ("--archive", archive.root)
    return timed_verb(*verb, *place, driver_memory="4g", counts=True, days_later=days_later)


def _night(archive: Archive, parts: Sequence[pa.Table]) -> TimedVerb:
    """Return what analysis, redrive, status and expiry of a new drain take together."""
    write_drain(archive, parts, 0)
    analyzed, plan = _verb(archive, *ANALYZE), approved(Path(archive.root))
    url = boto3.client("sqs").create_queue(QueueName="main")["QueueUrl"]
    to_main = ("--plan", plan, "--to-queue-url", url, "--execute", "--reason", "benchmark")
    verbs = (("redrive", *to_main), ("status",), (*EXPIRE, str(NIGHTS)))
    took = [asdict(one) for one in (analyzed, *(_verb(archive, *verb) for verb in verbs))]
    return TimedVerb(**{name: sum(one[name] for one in took) for name in took[0]})


def write_night(archive: Archive, parts: Sequence[pa.Table], ago: int, pending: int = 0) -> None:
    """Write a night of so many days *ago*, of which all messages but *pending* were sent."""
    at, drain_id, rows = write_drain(archive, parts, ago)
    plan_id, run_id = (new_id((at + timedelta(minutes=n)).timestamp()) for n in (1, 2))
    digest = write_whole(archive, table_folder(plan_id), [rows])
    group = PlannedGroup("g-1", "an error", rows.num_rows, Action.REDRIVE)
    plan = Plan(plan_id, archive.root, Snapshot((drain_id,), rows.num_rows, digest), (group,))
    archive.write(f"reports/{plan_id}/plan.yaml", plan_text(plan, {"g-1": []}).encode())
    who, then = ("me@here", "an old night"), at.isoformat()
    record_run(archive, RunRecord(run_id, plan_id, "redrive", *who, then, "https://q"))
    ids, ledger = (
        list(map(str, rows["message_id"].to_pylist()))[pending:],
        Ledger(archive, plan_id, run_id),
    )
    for chunk, first in enumerate(range(0, len(ids), CHUNK_MESSAGES)):
        some = tuple(ids[first : first + CHUNK_MESSAGES])
        drains = (drain_id,) * len(some)
        claim = Claim("me@here", "", "https://q", then, some, drain_ids=drains)
        ledger.claim("without-order", chunk, claim)
        sent = [Result(one, Disposition.SENT, then, one[::-1]) for one in some]
        ledger.record("without-order", chunk, sent)
    write_result_files(archive, (plan_id, run_id))


def write_drain(
    archive: Archive, parts: Sequence[pa.Table], ago: int
) -> tuple[datetime, str, pa.Table]:
    """Write messages with ids of their own, as a drain of so many days *ago*.

    Returns:
        Its time, its id, and the table of a plan of all its messages.
    """
    at, chance, planned = datetime.now(UTC) - timedelta(days=ago), random.Random(ago), []
    drain_id, later = new_id(at.timestamp()), pa.scalar(at - END)
    for task, part in enumerate(parts):
        ids = pa.array([str(UUID(int=chance.getrandbits(128))) for _ in range(part.num_rows)])
        columns: dict[str, Any] = {name: part[name] for name in part.column_names} | dict.fromkeys(
            _PLANNED[:2], ids
        )
        for name in ("sent_at", "first_received_at", "first_seen_at", "drained_at"):
            columns[name] = pc.add(part[name], later)
        rows = pa.table(columns, schema=part.schema)
        path = f"{drain_folder(drain_id)}/part-{task:05d}-{rows.num_rows}-bench.parquet"
        archive.write(path, parquet_bytes(rows))
        added = {"file": path, "group_id": "g-1", "unit": None, "position": None}
        table = rows.select(_PLANNED)
        for name, value in added.items():
            kind = pa.int64() if name == "position" else pa.string()
            table = table.append_column(name, pa.array([value] * rows.num_rows, kind))
        planned.append(table)
    return at, drain_id, pa.concat_tables(planned)


def _ratio(
    what: str, of: str, unit: str, sides: Mapping[str, Sequence[TimedVerb]], target: float
) -> Finding:
    values = {unit + name: [*map(attrgetter(of), verbs)] for name, verbs in sides.items()}
    return Finding.of_ratio(what, values, at_most=target)


def _all(messages: int, archive: Archive) -> Iterator[Finding]:
    status, expiry = _verb(archive, "status"), _verb(archive, *EXPIRE, "15", days_later=60)
    for name, took in (("status", status), ("expiry", expiry)):
        what = f"{name} of {messages:,} messages"
        yield Finding(f"{what}, memory", [took.peak_mb], "MB", at_most=MEMORY_TARGET_MB)
        yield Finding(f"{what}, moved", [took.moved_mb], "MB")
