"""Measures the memory and the time that the ids of a redrive take in the driver.

Each size is a process of its own: it resolves a plan of that number of messages, writes the
dispositions, and draws a step of a ramp.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pyarrow as pa

from benchmarks.findings import Finding
from benchmarks.rig import Rig
from dlq.archive.ledger.claims import chunk_count
from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.archive.messages.message_index import table_folder
from dlq.archive.messages.message_store import FILE_MESSAGES, drain_folder
from dlq.archive.storage.files import Archive, open_archive
from dlq.archive.storage.table_parts import parquet_bytes, write_whole
from dlq.explain.signature.mask import compile_masks
from dlq.ids.order import with_chunks
from dlq.ids.origins import Queues
from dlq.ids.steps import drawn_step
from dlq.local_engine import LocalEngine
from dlq.memory import BYTES_PER_MESSAGE
from dlq.plan.plan import Action, Plan, PlannedGroup, Snapshot
from dlq.plan.plan_file import PlanFile
from dlq.redrive.request import RedriveRequest
from dlq.redrive.resolving.resolve import dispositions_of_plan, resolve
from dlq.redrive.send_run import RedriveRun
from dlq.redrive.sending.written_rows import write_rows

SIZES = (200_000, 1_000_000, 5_000_000)

_PLAN_ID = "20261121T021502Z-ab12cd"
_DRAIN_ID = "20261121T011502Z-ab12cd"
_BEGAN_AT = datetime(2026, 11, 21, tzinfo=UTC)
_PLANNED: dict[str, pa.DataType] = {
    "message_id": pa.string(),
    "group_id": pa.string(),
    "unit": pa.string(),
    "position": pa.int64(),
    "file": pa.string(),
}
_URL = "https://sqs.us-east-1.amazonaws.com/123456789012/"


def measure(rig: Rig) -> list[Finding]:
    """Measure a FIFO queue, whose messages have most columns, and a standard queue."""
    findings = []
    for messages in map(rig.sized, SIZES):
        for kind in ("FIFO", "standard"):
            rig.notify(f"ids: {messages:,} messages, {kind}")
            took = _measured(messages, kind)

            what = f"ids of a redrive of {messages:,} messages, {kind}"
            # Of few messages, what is loaded weighs more.
            most_mb = messages * BYTES_PER_MESSAGE / 1e6 if messages >= SIZES[1] else None
            findings.append(Finding(f"{what}, memory", [took["peak_mb"]], "MB", at_most=most_mb))
            findings.append(Finding(f"{what}, time", [took["seconds"]], "s"))
    return findings


def _measured(messages: int, kind: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="bench-ids-") as folder:
        program = (sys.executable, "-m", "benchmarks.ids", folder, str(messages), kind)
        subprocess.run((*program, "write"), check=True)  # noqa: S603 - ours
        answer = subprocess.run((*program, "read"), check=True, capture_output=True)  # noqa: S603
        figures: dict[str, float] = json.loads(answer.stdout)
        return figures


def write_plan(archive: Archive, messages: int, *, is_fifo: bool) -> str:
    """Write that number of messages, and the table of a plan of all; return its digest."""
    chance = random.Random(1)
    tables = []
    for number, first in enumerate(range(0, messages, FILE_MESSAGES)):
        rows = _rows(chance, first, min(FILE_MESSAGES, messages - first), is_fifo=is_fifo)
        path = f"{drain_folder(_DRAIN_ID)}/part-{number:05d}-{len(rows)}-bench.parquet"
        archive.write(path, parquet_bytes(pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)))

        planned = []
        for position, row in enumerate(rows, start=first):
            planned_row = {
                "message_id": row["message_id"],
                "group_id": f"s-{chance.randrange(100):016x}",
                "unit": f"in-order-{chance.randrange(64):02d}" if is_fifo else None,
                "position": position if is_fifo else None,
                "file": path,
            }
            planned.append(planned_row)
        tables.append(pa.Table.from_pylist(planned, schema=pa.schema(_PLANNED)))

    return write_whole(archive, table_folder(_PLAN_ID), [pa.concat_tables(tables)])


def _rows(
    chance: random.Random, first: int, messages: int, *, is_fifo: bool
) -> list[dict[str, Any]]:
    suffix = ".fifo" if is_fifo else ""
    tenant = {"data_type": "String", "string_value": "tenant-7", "binary_value": None}

    rows = []
    for number in range(first, first + messages):
        message_id = str(UUID(int=chance.getrandbits(128)))
        row: dict[str, Any] = {
            "message_id": message_id,
            "first_id": message_id,
            "body": "{}",
            "attributes": [("tenant", tenant)],
            "sent_at": _BEGAN_AT + timedelta(milliseconds=number),
            "first_seen_at": _BEGAN_AT,
            "parked_reason": "attempts_exhausted",
            "source_queue": f"main{suffix}",
            "body_bytes": 2,
            "queue_url": f"{_URL}parked{suffix}",
            "receive_count": 1,
            "drained_at": _BEGAN_AT,
        }
        if is_fifo:
            row["message_group_id"] = f"customer-{chance.randrange(10**7):012d}"
            row["sequence_number"] = str(18_870_000_000_000_000_000 + number)
        rows.append(row)

    return rows


def resolve_plan(archive: Archive, messages: int, digest: str, *, is_fifo: bool) -> None:
    """Do what the driver does before it sends: resolve, write the dispositions, draw a step."""
    main = f"{_URL}main.fifo" if is_fifo else f"{_URL}main"
    group_ids = [f"s-{number:016x}" for number in range(100)]
    groups = tuple(PlannedGroup(group_id, "", 0, Action.REDRIVE) for group_id in group_ids)
    snapshot = Snapshot(drain_ids=(_DRAIN_ID,), messages=messages, table_sha256=digest)
    plan = Plan(_PLAN_ID, archive.root, snapshot, groups)
    run = RedriveRun(
        archive,
        RedriveRequest(main_queue_url=main),
        plan.plan_id,
        main,
        plan_file=PlanFile(archive),
        plan=plan,
        queues=Queues(main, is_named=False, dead_letter_queues={"main": "dlq"}),
        masks=compile_masks(()),
        probes={},
        why_no_ramp="",
    )

    rows = dispositions_of_plan(LocalEngine(), run)
    resolved = resolve(with_chunks(rows, chunk_count(messages)), None)
    del rows

    written = write_rows(archive, resolved.dispositions, "dispositions").rows
    no_ids = pa.array([], pa.string())
    wanted = dict.fromkeys(group_ids, messages)
    units = 64 if is_fifo else None
    step = drawn_step(written, wanted, no_ids, no_ids, in_order=is_fifo, units=units)
    if step.num_rows != messages:
        raise RuntimeError(step.num_rows)


def _memory_mb(field: str) -> float:
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(field)


def _main(folder: str, messages: int, kind: str, act: str) -> None:
    archive = open_archive(folder, creates=True)
    is_fifo = kind == "FIFO"
    if act == "write":
        # What is made up need not be durable.
        with patch.object(os, "fsync"):
            digest = write_plan(archive, messages, is_fifo=is_fifo)
        archive.write("digest", digest.encode())
        return

    digest = (archive.read("digest") or b"").decode()
    idle_mb = _memory_mb("VmRSS")
    began = time.monotonic()
    resolve_plan(archive, messages, digest, is_fifo=is_fifo)
    figures = {
        "seconds": time.monotonic() - began,
        "peak_mb": _memory_mb("VmHWM") - idle_mb,
    }
    print(json.dumps(figures))  # noqa: T201


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
