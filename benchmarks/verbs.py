"""Runs verbs of the Spark job as an operator does: each in its own process, on two cores.

``python -m benchmarks.verbs RESULT VERB ...`` is that process: it times the verb without the start
of Spark's session.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import ROOT

DRAIN, ANALYZE = (("collect", "--only", part) for part in ("drain", "analyze"))
_TWO_CORES = "--master local[2] --driver-memory {memory} pyspark-shell"
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024
_MEASURING_TASKS = 16
"""The number of tasks: more than workers, so that each worker likely has one."""


@dataclass(frozen=True, slots=True)
class TimedVerb:
    """Time and memory of a verb.

    Attributes:
        seconds: after the start of the session.
        worker_peak_mb: peak memory of a Python worker of Spark.
    """

    seconds: float
    worker_peak_mb: float


def timed_verb(*arguments: str, driver_memory: str = "1g") -> TimedVerb:
    """Run a verb.

    Args:
        arguments: its name, then its own.
        driver_memory: size of the JVM's heap in Spark's form; the default is Spark's.

    Raises:
        RuntimeError: it failed; the text has the end of its standard error.
    """
    with tempfile.TemporaryDirectory(prefix="bench-verb-") as folder:
        result = Path(folder, "timed.json")
        ended = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "benchmarks.verbs", str(result), *arguments],
            cwd=ROOT,
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": _TWO_CORES.format(memory=driver_memory)},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            end = ended.stderr[-2000:]
            raise RuntimeError(f"{arguments[0]} ended with {ended.returncode}: {end}")
        return TimedVerb(**json.loads(result.read_text("utf-8")))


def approved(archive: Path) -> str:
    """Set every group of the archive's only plan to ``redrive``; return the plan's path."""
    (plan,) = archive.glob("reports/*/plan.yaml")
    text = plan.read_text("utf-8")
    plan.write_text(text.replace("action: leave", "action: redrive"), "utf-8")
    return str(plan)


def main(arguments: Sequence[str]) -> int:
    """Start a session, run the verb, write its duration; return the verb's exit code."""
    # Only this process needs Spark.
    from spark_reprocess.command_line.cli import main as run_verb  # noqa: PLC0415
    from spark_reprocess.spark.session import end_session, get_session  # noqa: PLC0415

    result, *verb = arguments
    spark = get_session()
    began = time.perf_counter()
    exit_code = run_verb(verb)
    ended = time.perf_counter()
    # Workers are reused for many tasks.
    tasks = spark.range(0, _MEASURING_TASKS, 1, _MEASURING_TASKS)
    rows = tasks.mapInArrow(_peaks, "peak_bytes long").collect()
    timed = TimedVerb(
        seconds=ended - began,
        worker_peak_mb=max(int(row["peak_bytes"]) for row in rows) / 1e6,
    )
    Path(result).write_text(json.dumps(asdict(timed)), "utf-8")
    end_session()
    return exit_code


def _peaks(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415 - in Spark's worker

    for _ in batches:
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_BYTES
        yield pa.RecordBatch.from_pydict({"peak_bytes": [peak_bytes]})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
