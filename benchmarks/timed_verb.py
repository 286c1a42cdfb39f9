"""``python -m benchmarks.timed_verb RESULT VERB ...``: times a verb without its session start."""

import json
import re
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_reprocess.command_line.cli import main as run_verb
from spark_reprocess.spark.session import end_session, get_session

_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024
_MEASURING_TASKS = 16
"""The number of tasks: more than workers, so that each worker likely has one."""


def main(arguments: Sequence[str]) -> int:
    """Start a session, run the verb, write both durations; return the verb's exit code."""
    result, *verb = arguments
    began = time.perf_counter()
    spark = get_session()
    started = time.perf_counter()
    exit_code = run_verb(verb)
    ended = time.perf_counter()
    timed = {
        "session_seconds": started - began,
        "seconds": ended - started,
        "worker_peak_mb": _worker_peak_mb(spark),
        "driver_peak_mb": _driver_peak_mb(spark),
    }
    Path(result).write_text(json.dumps(timed), "utf-8")
    end_session()
    return exit_code


def _driver_peak_mb(spark: SparkSession) -> float | None:
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - only it knows the JVM's process
    status = Path(f"/proc/{gateway.proc.pid}/status")
    found = _PEAK.search(status.read_text("utf-8")) if status.exists() else None
    return int(found[1]) * 1024 / 1e6 if found else None


def _worker_peak_mb(spark: SparkSession) -> float:
    """Return the peak memory of a Python worker of Spark. Workers are reused for many tasks."""
    tasks = spark.range(0, _MEASURING_TASKS, 1, _MEASURING_TASKS)
    rows = tasks.mapInArrow(_peaks, "peak_bytes long").collect()
    return max(int(row["peak_bytes"]) for row in rows) / 1e6


def _peaks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_BYTES
        yield pa.RecordBatch.from_pydict({"peak_bytes": [peak_bytes]})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
