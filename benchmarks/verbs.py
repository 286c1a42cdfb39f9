"""Verbs of the Spark job, run as an operator would, in processes of their own on two cores."""

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
    """What a verb took.

    Attributes:
        session_seconds: until Spark's session stood.
        seconds: from then on.
        worker_peak_mb: the most memory that one of Spark's Python workers held.
        driver_peak_mb: the most that the JVM held; None where the system does not tell.
    """

    session_seconds: float
    seconds: float
    worker_peak_mb: float
    driver_peak_mb: float | None


def timed_verb(*arguments: str, driver_memory: str = "1g") -> TimedVerb:
    """Run a verb.

    Args:
        arguments: its name, then its own.
        driver_memory: of the JVM's heap, as Spark spells it; the default is Spark's.

    Raises:
        RuntimeError: it failed; the message is what it said last.
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
