"""Measures ``analyze`` for 1,000,000 messages and for a quarter of them, on two cores.

The archives are written first and are the same in every run. Each analysis has its own process; the
start of its session is measured separately. To check that the analysis is also correct, the most
frequent errors have known causes: each must be the first lead of its group.
"""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.findings import Finding, at_least, at_most
from benchmarks.parked_archive import beginning_of, write_archive
from benchmarks.parked_messages import KNOWN_CAUSES, Cause
from benchmarks.rig import Rig
from benchmarks.verbs import TimedVerb, timed_verb

MESSAGES = 1_000_000
TIMES = 4
TIME_TARGET = at_most(60)
GROWTH_TARGET = at_most(4.4)
CAUSES_TARGET = at_least(95)
DRIVER_MEMORY = "4g"


def measure(rig: Rig) -> list[Finding]:
    """Analyze the smaller archive, then the larger one."""
    count = rig.sized(MESSAGES)
    with tempfile.TemporaryDirectory(prefix="bench-analysis-") as folder:
        large, small = Path(folder, "large"), Path(folder, "small")
        rig.notify(f"analysis: writing {count:,} messages")
        began = time.perf_counter()
        write_archive(large, count)
        beginning_of(large, small, count // TIMES)
        written = Finding("analysis, writing its archives", [time.perf_counter() - began], "s")
        few = _analyzed(rig, small, count // TIMES)
        many = _analyzed(rig, large, count)
        return [*_findings(count, few, many), _causes_found(large), written]


def _analyzed(rig: Rig, archive: Path, messages: int) -> TimedVerb:
    rig.notify(f"analysis of {messages:,} messages")
    took = timed_verb("analyze", "--archive", str(archive), driver_memory=DRIVER_MEMORY)
    found = _summary(archive)["messages"]
    if found != messages:
        raise RuntimeError(f"{messages:,} messages were written, and {found:,} analyzed")
    return took


def _findings(count: int, few: TimedVerb, many: TimedVerb) -> list[Finding]:
    sessions = [few.session_seconds, many.session_seconds]
    memory = {"driver's": many.driver_peak_mb, "a worker's": many.worker_peak_mb}
    return [
        Finding(f"analysis of {count:,} messages", [many.seconds], "s", TIME_TARGET),
        Finding(f"analysis of {count // TIMES:,} messages", [few.seconds], "s"),
        Finding(
            f"analysis, {TIMES} times the messages",
            [many.seconds / few.seconds],
            "times",
            GROWTH_TARGET,
        ),
        Finding("analysis, session start", sessions, "s"),
        *(
            Finding(f"analysis, {whose} peak memory", [peak], "MB")
            for whose, peak in memory.items()
            if peak is not None
        ),
    ]


def _causes_found(archive: Path) -> Finding:
    groups = _summary(archive)["groups"]
    found = sum(_is_first(cause, groups) for cause in KNOWN_CAUSES)
    percent = 100 * found / len(KNOWN_CAUSES)
    return Finding("analysis, causes that it names first", [percent], "%", CAUSES_TARGET)


def _is_first(cause: Cause, groups: list[dict[str, Any]]) -> bool:
    leads = [group["leads"] for group in groups if group["title"].startswith(cause.title)]
    first = [(of_one[0]["field"], of_one[0]["value"]) for of_one in leads if of_one]
    return (cause.field, cause.value) in first


def _summary(archive: Path) -> dict[str, Any]:
    (path,) = archive.glob("reports/*/summary.json")
    summary: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return summary
