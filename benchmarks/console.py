"""Measures how soon a new console shows its pages, on an archive of 1,000,000 messages.

Each figure is a process of its own: from the start of ``dlq console`` until the page is there. The
archive has 1,000 groups, of which the largest has three messages in ten; its files are in the cache
of the disk, because they were just written. No Spark takes part.
"""

import http.cookiejar
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import ROOT
from benchmarks.findings import Finding, at_most
from benchmarks.parked_archive import write_archive
from benchmarks.rig import Rig
from spark_reprocess.analysis.outputs import summary_json
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledger import Claim, Ledger, Result
from spark_reprocess.archive.ledgers import compact_ledger
from spark_reprocess.archive.message_index import table_folder
from spark_reprocess.archive.message_store import digest, drain_ids, message_files
from spark_reprocess.archive.table_parts import Part, commit, write_parts
from spark_reprocess.findings import Findings, GroupFinding, Lead, Sample, Spread
from spark_reprocess.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text

MESSAGES = 1_000_000
GROUPS = 1_000
LARGEST = 0.3
SENT = 20_000
"""Messages that a run has sent, in the compacted ledger."""

TURNS = 5
TARGET = at_most(2)

_PLAN_ID = "20261122T010000Z-bench0"
_ANALYZED_AT = datetime(2026, 11, 22, 1, tzinfo=UTC)
_BUCKETS = 72
_CHUNK = 100


def measure(rig: Rig) -> list[Finding]:
    """Write the archive, then start a console for each page and turn."""
    count = rig.sized(MESSAGES)
    with tempfile.TemporaryDirectory(prefix="bench-console-") as folder:
        rig.notify(f"console: writing {count:,} messages")
        began = time.perf_counter()
        write_archive(Path(folder), count)
        archive = open_archive(folder)
        message_id = write_report(archive)
        written = Finding("console, writing its archive", [time.perf_counter() - began], "s")
        largest = _group_id(0)
        middle = message_id[4:7]
        pages = {
            "the list of groups": "/",
            "the largest group, sorted and searched": (
                f"/groups/{largest}/messages?sort=largest&q={middle}"
            ),
            "a message's history": f"/messages/{message_id}",
            "one group": f"/groups/{largest}",
            "a search of texts": f"/groups/{largest}/messages?in=text&q=order",
        }
        found = []
        for number, (what, path) in enumerate(pages.items()):
            rig.notify(f"console: {what}")
            _seconds(folder, path)
            values = [_seconds(folder, path) for _ in range(rig.turns(TURNS))]
            target = TARGET if number <= 2 else None  # noqa: PLR2004 - the three that are promised
            found.append(Finding(f"console, {what}", values, "s", target))
    return [*found, written]


def _seconds(archive: str, path: str) -> float:
    """Start a console, open the page, and stop it; return the seconds until the page was there."""
    command = [sys.executable, "-m", "dlq_cli", "console", "--archive", archive, "--no-browser"]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "layers" / "core")])
    began = time.perf_counter()
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    ) as process:
        try:
            address = _address(process)
            jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
            opener = urllib.request.build_opener(jar)
            opener.open(address).read()
            page = opener.open(address.split("/open")[0] + path).read().decode()
            seconds = time.perf_counter() - began
        finally:
            process.terminate()
    if "</html>" not in page:
        raise RuntimeError(f"the console did not show {path}")
    return seconds


def _address(process: "subprocess.Popen[str]") -> str:
    for line in process.stdout or ():
        if found := re.search(r"http://\S+", line):
            return found[0]
    raise RuntimeError("the console did not start")


def write_report(archive: Archive) -> str:
    """Write what an analysis writes, without one; return the id of a message.

    Groups are drawn by a power law, but for the largest; the same in every run.
    """
    rows = _rows(archive)
    ids = rows["message_id"].to_pylist()
    sizes = np.bincount(rows["group"], minlength=GROUPS)
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty(GROUPS, dtype=np.int64)
    rank[order] = np.arange(GROUPS)
    of_row = rank[rows["group"]]
    names = pa.array([_group_id(place) for place in range(GROUPS)])
    table = pa.table(
        {
            "message_id": rows["message_id"],
            "group_id": names.take(pa.array(of_row)),
            "unit": names.take(pa.array(of_row)),
            "position": pa.array(_positions(of_row)),
            "file": rows["file"],
            **{name: rows[name] for name in ("first_id", "sent_at", "receive_count", "body_bytes")},
        }
    ).sort_by([("unit", "ascending"), ("position", "ascending")])
    folder = table_folder(_PLAN_ID)
    batches = table.to_batches(max_chunksize=100_000)
    parts = [
        Part(**one) for batch in write_parts(archive, folder, batches) for one in batch.to_pylist()
    ]
    snapshot = Snapshot(
        tuple(drain_ids(archive)),
        len(ids),
        digest(ids),
        table_sha256=commit(archive, folder, parts),
    )
    findings = _findings(archive, [int(one) for one in sizes[order]])
    planned = [
        PlannedGroup(one.group_id, one.title, one.count, Action.LEAVE) for one in findings.groups
    ]
    base = f"reports/{_PLAN_ID}"
    archive.write(f"{base}/summary.json", summary_json(findings).encode())
    plan = Plan(_PLAN_ID, archive.root, snapshot, tuple(planned))
    archive.write(f"{base}/plan.yaml", plan_text(plan).encode())
    _send(archive, ids[: min(SENT, len(ids) // 10)])
    return str(ids[len(ids) // 2])


def _rows(archive: Archive) -> dict[str, Any]:
    columns = ("message_id", "first_id", "sent_at", "receive_count", "body_bytes")
    files = message_files(archive)
    tables = [pq.read_table(Path(archive.root, path), columns=list(columns)) for path in files]
    paths = np.repeat(files, [one.num_rows for one in tables])
    whole = pa.concat_tables(tables)
    random = np.random.default_rng(7)
    drawn = (GROUPS * random.power(3, whole.num_rows)).astype(np.int64)
    group = np.where(random.random(whole.num_rows) < LARGEST, 0, drawn)
    return {
        **{name: whole[name].combine_chunks() for name in columns},
        "file": pa.array(paths),
        "group": group,
    }


def _positions(groups: Any) -> Any:  # noqa: ANN401 - arrays of numbers
    """Return the place of each row within its group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.r_[0, np.flatnonzero(np.diff(ordered)) + 1]
    lengths = np.diff(np.r_[starts, len(ordered)])
    positions = np.empty(len(groups), dtype=np.int64)
    positions[order] = np.arange(len(groups)) - np.repeat(starts, lengths)
    return positions


def _group_id(place: int) -> str:
    return f"g-{place:010x}"


def _findings(archive: Archive, counts: Sequence[int]) -> Findings:
    total = sum(counts)
    starts = tuple(
        _ANALYZED_AT - timedelta(minutes=30 * (_BUCKETS - number)) for number in range(_BUCKETS)
    )
    body = json.dumps({"order": {"id": "***", "lines": [{"sku": str(n)} for n in range(30)]}})
    groups = [
        GroupFinding(
            group_id=_group_id(place),
            title=f"ValidationError {place}: field <text> must be one of <text>, not <text>",
            count=count,
            share=count / total,
            first_sent_at=starts[0],
            last_sent_at=_ANALYZED_AT,
            arrivals=tuple((place * 7 + number) % 11 for number in range(_BUCKETS)),
            trend="steady",
            reasons=(("attempts_exhausted", count),),
            sources=(("orders", count),),
            replay_counts=((6, count),),
            body_bytes=Spread(100, 300, 900, 1200),
            age_seconds=Spread(60, 3600, 7200, 9000),
            leads=tuple(Lead(f"body.field_{n}", f"v{place}", 0.9, 0.1, 0.8) for n in range(5)),
            samples=tuple(
                Sample(f"m-{place}-{n}", _ANALYZED_AT, body)
                for n in range(5 if place < 100 else 1)  # noqa: PLR2004
            ),
            status="new" if place % 5 == 0 else "known",
        )
        for place, count in enumerate(counts)
    ]
    return Findings(
        plan_id=_PLAN_ID,
        archive=archive.root,
        plan_path=f"{archive.root}/reports/{_PLAN_ID}/plan.yaml",
        analyzed_at=_ANALYZED_AT,
        messages=total,
        decided=0,
        bucket_starts=starts,
        bucket_seconds=1800.0,
        groups=tuple(groups),
        unlisted_groups=0,
        unlisted_messages=0,
        where=None,
    )


def _send(archive: Archive, ids: Sequence[str]) -> None:
    """Write the ledger of a run that has sent these messages, compacted."""
    ledger, time_text = Ledger(archive, _PLAN_ID), _ANALYZED_AT.isoformat()
    for start in range(0, len(ids), _CHUNK):
        chunk = tuple(ids[start : start + _CHUNK])
        claim = Claim("run-1", "bench@here", "measured", "https://q", time_text, chunk)
        ledger.claim("g-0", start // _CHUNK, 1, claim)
        results = [Result(one, Disposition.SENT, time_text, f"new-{one}") for one in chunk]
        ledger.record("g-0", start // _CHUNK, 1, results)
    compact_ledger(archive)
