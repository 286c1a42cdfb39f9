"""Measures a hundred messages: on this machine in processor time, on Spark against a bare session.

Every figure includes the start of the process, and on Spark that of its session. A bare session
runs one job in a worker that loads nothing else.
"""

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import boto3

from benchmarks import ROOT
from benchmarks.findings import Finding
from benchmarks.rig import Rig
from benchmarks.transfers import fill
from benchmarks.verbs import approved

MESSAGES = 100
TURNS = 5

_COMMAND = (sys.executable, "-m", "dlq")
_BARE_SESSION = """
from dlq.cli.running import end_process
from spark_reprocess.session import get_session

spark = get_session()
conf = spark._jvm.org.apache.spark.SparkEnv.get().conf()
conf.set("spark.python.daemon.module", "pyspark.daemon")
spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
end_process(0)
"""


@dataclass(frozen=True, slots=True)
class Took:
    """What a process took: on the clock, and of processors with all that it started."""

    seconds: float
    processor_seconds: float


def measure(rig: Rig) -> list[Finding]:
    """Run each verb several times on both engines, alternately with the bare session."""
    rig.notify("a hundred messages, on this machine and against a bare Spark session")
    client = boto3.client("sqs")
    parked, main = (client.create_queue(QueueName=name)["QueueUrl"] for name in ("parked", "main"))
    with tempfile.TemporaryDirectory(prefix="bench-small-") as folder:
        place = ("--archive", f"{folder}/archive")

        def collect(engine: str) -> Took:
            shutil.rmtree(f"{folder}/archive", ignore_errors=True)
            fill(rig, parked, MESSAGES)
            words = ("--parked-queue-url", parked, "--wait-seconds", "0", "--engine", engine)
            return _took(*_COMMAND, "collect", *place, *words)

        def redrive(engine: str, *more: str) -> Took:
            shutil.rmtree(f"{folder}/archive/ledger", ignore_errors=True)
            plan = approved(Path(folder, "archive"))
            words = ("--plan", plan, "--to-queue-url", main, "--engine", engine)
            return _took(*_COMMAND, "redrive", *place, *words, *more)

        def dry_run(engine: str) -> Took:
            return redrive(engine)

        def executed(engine: str) -> Took:
            return redrive(engine, "--execute", "--reason", "benchmark")

        def here(what: str, run: Callable[[str], Took], most_seconds: float) -> Finding:
            values = [run("local").processor_seconds for _ in range(TURNS)]
            unit = "s of a processor"
            return Finding(f"{what} of {MESSAGES}, here", values, unit, at_most=most_seconds)

        def on_spark(what: str, run: Callable[[str], Took], most: float) -> Finding:
            programs: dict[str, Callable[[], float]] = {
                "s": lambda: run("spark").seconds,
                "s, a bare session": lambda: _took(sys.executable, "-c", _BARE_SESSION).seconds,
            }
            return rig.compare(f"{what} of {MESSAGES}, on Spark", programs, TURNS, at_most=most)

        return [
            here("drain and analysis", collect, 3),
            here("dry run", dry_run, 3),
            here("redrive", executed, 4),
            on_spark("drain and analysis", collect, 2),
            on_spark("redrive", executed, 1.6),
        ]


def _took(*command: str) -> Took:
    before = _processor_seconds_of_children()
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - our own
    return Took(time.perf_counter() - began, _processor_seconds_of_children() - before)


def _processor_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
