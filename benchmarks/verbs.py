"""Runs verbs of the Spark job as an operator does: each in its own process, on two cores."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks import ROOT

_TWO_CORES = "--master local[2] --driver-memory {memory} pyspark-shell"


@dataclass(frozen=True, slots=True)
class TimedVerb:
    """Time and memory of a verb.

    Attributes:
        session_seconds: until Spark's session had started.
        seconds: after the start of the session.
        worker_peak_mb: peak memory of a Python worker of Spark.
        driver_peak_mb: peak memory of the JVM; None if the system does not provide it.
    """

    session_seconds: float
    seconds: float
    worker_peak_mb: float
    driver_peak_mb: float | None


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
        command = [sys.executable, "-m", "benchmarks.timed_verb", str(result), *arguments]
        ended = subprocess.run(  # noqa: S603 - our own program
            command,
            cwd=ROOT,
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": _TWO_CORES.format(memory=driver_memory)},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(
                f"{arguments[0]} ended with {ended.returncode}: {ended.stderr[-2000:]}"
            )
        return TimedVerb(**json.loads(result.read_text("utf-8")))


def analyzed(archive: str) -> str:
    """Analyze an archive, set every group of the plan to ``redrive``; return the plan's path."""
    timed_verb("analyze", "--archive", archive)
    (plan,) = Path(archive).glob("reports/*/plan.yaml")
    text = plan.read_text("utf-8")
    plan.write_text(text.replace("action: leave", "action: redrive"), "utf-8")
    return str(plan)
