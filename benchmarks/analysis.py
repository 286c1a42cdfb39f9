"""Measures ``analyze`` for 1,000,000 messages and for a quarter of them, on two cores; the console.

The archives are written first and are the same in every run. Each analysis has its own process; the
start of its session is measured separately. To check that the analysis is also correct, the most
frequent errors have known causes: each must be the first lead of its group.

Each page of the console is a process of its own: from the start of ``dlq console`` until the page
of the analyzed archive is there. No Spark takes part.
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
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.findings import Finding
from benchmarks.incident import KNOWN_CAUSES, Cause, beginning_of, write_archive
from benchmarks.rig import Rig
from benchmarks.verbs import TimedVerb, timed_verb

MESSAGES = 1_000_000
TIMES = 4
PAGE_TURNS = 5
TIME_TARGET = 60
GROWTH_TARGET = 4.4
CAUSES_TARGET = 95
PAGE_TARGET = 2
DRIVER_MEMORY = "4g"


def measure(rig: Rig) -> list[Finding]:
    """Analyze the smaller archive, then the larger one; open the console on it."""
    count = rig.sized(MESSAGES)
    with tempfile.TemporaryDirectory(prefix="bench-analysis-") as folder:
        large, small = Path(folder, "large"), Path(folder, "small")
        rig.notify(f"analysis: writing {count:,} messages")
        write_archive(large, count)
        beginning_of(large, small, count // TIMES)
        few = _analyzed(rig, small, count // TIMES)
        many = _analyzed(rig, large, count)
        return [*_findings(count, few, many), _causes_found(large), *_pages(rig, large)]


def _analyzed(rig: Rig, archive: Path, messages: int) -> TimedVerb:
    rig.notify(f"analysis of {messages:,} messages")
    took = timed_verb("analyze", "--archive", str(archive), driver_memory=DRIVER_MEMORY)
    found = _summary(archive)["messages"]
    if found != messages:
        raise RuntimeError(f"{messages:,} messages were written, and {found:,} analyzed")
    return took


def _findings(count: int, few: TimedVerb, many: TimedVerb) -> list[Finding]:
    memory = {"driver's": many.driver_peak_mb, "a worker's": many.worker_peak_mb}
    growth = [many.seconds / few.seconds]
    return [
        Finding(f"analysis of {count:,} messages", [many.seconds], "s", at_most=TIME_TARGET),
        Finding(f"analysis of {count // TIMES:,} messages", [few.seconds], "s"),
        Finding(f"analysis, {TIMES} times the messages", growth, "times", at_most=GROWTH_TARGET),
        Finding("analysis, session start", [few.session_seconds, many.session_seconds], "s"),
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
    return Finding("analysis, causes that it names first", [percent], "%", at_least=CAUSES_TARGET)


def _is_first(cause: Cause, groups: list[dict[str, Any]]) -> bool:
    leads = [group["leads"] for group in groups if group["title"].startswith(cause.title)]
    first = [(of_one[0]["field"], of_one[0]["value"]) for of_one in leads if of_one]
    return (cause.field, cause.value) in first


def _summary(archive: Path) -> dict[str, Any]:
    (path,) = archive.glob("reports/*/summary.json")
    summary: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return summary


def _pages(rig: Rig, archive: Path) -> list[Finding]:
    largest = max(_summary(archive)["groups"], key=lambda group: int(group["count"]))
    group_page = f"/groups/{largest['group_id']}"
    message_id = largest["samples"][0]["message_id"]
    pages = {
        "the list of groups": "/",
        "the largest group, sorted and searched": (
            f"{group_page}/messages?sort=largest&q={message_id[4:7]}"
        ),
        "a message's history": f"/messages/{message_id}",
    }
    found = []
    for what, path in pages.items():
        rig.notify(f"console: {what}")
        _seconds_to_page(archive, path)  # warms the disk's cache
        values = [_seconds_to_page(archive, path) for _ in range(rig.turns(PAGE_TURNS))]
        found.append(Finding(f"console, {what}", values, "s", at_most=PAGE_TARGET))
    return found


def _seconds_to_page(archive: Path, path: str) -> float:
    """Start a console, open the page, and stop it; return the seconds until the page was there."""
    command = [sys.executable, "-m", "dlq_cli", "console", "--archive", str(archive)]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "layers" / "core")])
    began = time.perf_counter()
    with subprocess.Popen(  # noqa: S603 - our own program
        [*command, "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    ) as process:
        try:
            lines = (re.search(r"http://\S+", line) for line in process.stdout or ())
            address = next((found[0] for found in lines if found), "")
            jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
            opener = urllib.request.build_opener(jar)
            base = opener.open(address).read().decode().split("url=")[1].split('/"')[0]
            page = opener.open(address.split("/open")[0] + base + path).read().decode()
            seconds = time.perf_counter() - began
        finally:
            process.terminate()
    if "</html>" not in page:
        raise RuntimeError(f"the console did not show {path}")
    return seconds
