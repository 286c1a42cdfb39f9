"""Measures an analysis of 1,000,000 messages, on two cores.

The archive is written first and is the same in every run. The start of the session does not count.
"""

import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.findings import Finding
from benchmarks.incident import write_archive
from benchmarks.rig import Rig
from benchmarks.verbs import ANALYZE, timed_verb

MESSAGES = 1_000_000
TIME_TARGET = 60


def measure(rig: Rig) -> list[Finding]:
    """Analyze the archive of an incident."""
    count = rig.sized(MESSAGES)
    with tempfile.TemporaryDirectory(prefix="bench-analysis-") as folder:
        archive = Path(folder, "archive")
        rig.notify(f"analysis of {count:,} messages")
        write_archive(archive, count)
        took = timed_verb(*ANALYZE, "--archive", str(archive), driver_memory="4g")
        (groups,) = archive.glob("reports/*/groups.parquet")
        found = sum(map(int, pq.read_table(groups)["count"].to_numpy()))
        if found != count:
            raise RuntimeError(f"{count:,} messages were written, and {found:,} are in groups")
    return [Finding(f"analysis of {count:,} messages", [took.seconds], "s", at_most=TIME_TARGET)]
