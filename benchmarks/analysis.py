"""Measures analyses of 1,000,000 messages and of a quarter of them, on two cores.

The archives are written first and are the same in every run. Each analysis has its own process; the
start of its session is measured separately. To check that the analysis is also correct, the most
frequent errors have known causes: each must be the first lead of its group.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.findings import Finding
from benchmarks.incident import KNOWN_CAUSES, Cause, beginning_of, write_archive
from benchmarks.rig import Rig
from benchmarks.verbs import ANALYZE, TimedVerb, timed_verb

MESSAGES = 1_000_000
TIMES = 4
TIME_TARGET = 60
GROWTH_TARGET = 4.4
CAUSES_TARGET = 95
DRIVER_MEMORY = "4g"


def measure(rig: Rig) -> list[Finding]:
    """Analyze the smaller archive, then the larger one."""
    count = rig.sized(MESSAGES)
    with tempfile.TemporaryDirectory(prefix="bench-analysis-") as folder:
        large, small = Path(folder, "large"), Path(folder, "small")
        rig.notify(f"analysis: writing {count:,} messages")
        write_archive(large, count)
        beginning_of(large, small, count // TIMES)
        few = _analyzed(rig, small, count // TIMES)
        many = _analyzed(rig, large, count)
        return [*_findings(count, few, many), _causes_found(large)]


def _analyzed(rig: Rig, archive: Path, messages: int) -> TimedVerb:
    rig.notify(f"analysis of {messages:,} messages")
    took = timed_verb(*ANALYZE, "--archive", str(archive), driver_memory=DRIVER_MEMORY)
    found = _summary(archive)["messages"]
    if found != messages:
        raise RuntimeError(f"{messages:,} messages were written, and {found:,} analyzed")
    return took


def _findings(count: int, few: TimedVerb, many: TimedVerb) -> list[Finding]:
    growth = [many.seconds / few.seconds]
    return [
        Finding(f"analysis of {count:,} messages", [many.seconds], "s", at_most=TIME_TARGET),
        Finding(f"analysis of {count // TIMES:,} messages", [few.seconds], "s"),
        Finding(f"analysis, {TIMES} times the messages", growth, "times", at_most=GROWTH_TARGET),
        Finding("analysis, a worker's peak memory", [many.worker_peak_mb], "MB"),
    ]


def _causes_found(archive: Path) -> Finding:
    groups = _summary(archive)["groups"]
    found = sum(_is_first(cause, groups) for cause in KNOWN_CAUSES)
    percent = 100 * found / len(KNOWN_CAUSES)
    return Finding("analysis, causes that it names first", [percent], "%", at_least=CAUSES_TARGET)


def _is_first(cause: Cause, groups: list[dict[str, Any]]) -> bool:
    leads = [group["leads"] for group in groups if group["title"].startswith(cause.title)]
    first = [of_one[0]["parts"] for of_one in leads if of_one]
    return [(cause.field, cause.value)] in [
        [(p["field"], p["value"]) for p in one] for one in first
    ]


def _summary(archive: Path) -> dict[str, Any]:
    (path,) = archive.glob("reports/*/summary.json")
    summary: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return summary
