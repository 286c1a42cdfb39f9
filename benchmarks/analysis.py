"""Measures an analysis of 1,000,000 messages, on two cores.

The archive is written first and is the same in every run. The start of the session does not count.
To check that the analysis is also correct, the most frequent errors have known causes: each must be
the first lead of its group.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.findings import Finding
from benchmarks.incident import KNOWN_CAUSES, Cause, write_archive
from benchmarks.rig import Rig
from benchmarks.verbs import ANALYZE, timed_verb

MESSAGES = 1_000_000
TIME_TARGET = 60
CAUSES_TARGET = 95


def measure(rig: Rig) -> list[Finding]:
    """Analyze the archive of an incident."""
    count = rig.sized(MESSAGES)
    with tempfile.TemporaryDirectory(prefix="bench-analysis-") as folder:
        archive = Path(folder, "archive")
        rig.notify(f"analysis of {count:,} messages")
        write_archive(archive, count)
        took = timed_verb(*ANALYZE, "--archive", str(archive), driver_memory="4g")
        found = _summary(archive)["messages"]
        if found != count:
            raise RuntimeError(f"{count:,} messages were written, and {found:,} analyzed")
        return [
            Finding(f"analysis of {count:,} messages", [took.seconds], "s", at_most=TIME_TARGET),
            Finding("analysis, a worker's peak memory", [took.peak_mb], "MB"),
            _causes_found(archive),
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
