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
from typing import TYPE_CHECKING

import boto3

from benchmarks import ROOT
from benchmarks.findings import Finding
from benchmarks.rig import Rig
from benchmarks.transfers import fill
from benchmarks.verbs import approved

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MESSAGES = 100
LOOK_MESSAGES = 500
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
    """The time of a process: on the clock, and of processors with all that it started."""

    seconds: float
    processor_seconds: float


def measure(rig: Rig) -> list[Finding]:
    """Run each verb several times on both engines, alternately with the bare session."""
    rig.notify("a hundred messages, on this machine and against a bare Spark session")
    client = boto3.client("sqs")
    parked_url = client.create_queue(QueueName="parked")["QueueUrl"]
    main_url = client.create_queue(QueueName="main")["QueueUrl"]
    with tempfile.TemporaryDirectory(prefix="bench-small-") as folder:
        verbs = _Verbs(rig, Path(folder, "archive"), parked_url, main_url)
        return [
            _here("drain and analysis", verbs.collect, 3),
            _here("dry run", verbs.dry_run, 3),
            _here("redrive", verbs.redrive, 4),
            *_looks(rig, client),
            _on_spark(rig, "drain and analysis", verbs.collect, 2),
            _on_spark(rig, "redrive", verbs.redrive, 1.6),
        ]


@dataclass(frozen=True, slots=True)
class _Verbs:
    """The measured verbs, on an archive of their own. Each takes the name of an engine."""

    rig: Rig
    archive: Path
    parked_url: str
    main_url: str

    def collect(self, engine: str) -> Took:
        shutil.rmtree(self.archive, ignore_errors=True)
        fill(self.rig, self.parked_url, MESSAGES)
        words = ("--parked-queue-url", self.parked_url, "--wait-seconds", "0", "--engine", engine)
        return self._run("collect", *words)

    def dry_run(self, engine: str) -> Took:
        return self._redrive(engine)

    def redrive(self, engine: str) -> Took:
        return self._redrive(engine, "--execute", "--reason", "benchmark")

    def _redrive(self, engine: str, *more: str) -> Took:
        shutil.rmtree(self.archive / "ledger", ignore_errors=True)
        plan = approved(self.archive)
        words = ("--plan", plan, "--to-queue-url", self.main_url, "--engine", engine)
        return self._run("redrive", *words, *more)

    def _run(self, verb: str, *words: str) -> Took:
        return _took(*_COMMAND, verb, "--archive", str(self.archive), *words)


def _here(what: str, run: Callable[[str], Took], target_seconds: float) -> Finding:
    values = [run("local").processor_seconds for _ in range(TURNS)]
    unit = "s of a processor"
    return Finding(f"{what} of {MESSAGES}, here", values, unit, at_most=target_seconds)


def _looks(rig: Rig, client: "SQSClient") -> list[Finding]:
    """Look at a queue several times: its messages are still there."""
    url = client.create_queue(QueueName="looked-at")["QueueUrl"]
    fill(rig, url, LOOK_MESSAGES)
    looks = [_took(*_COMMAND, "look", url) for _ in range(TURNS)]
    name = f"look at {LOOK_MESSAGES}"
    processor_seconds = [look.processor_seconds for look in looks]
    return [
        Finding(name, [look.seconds for look in looks], "s", at_most=5),
        Finding(f"{name}, processor", processor_seconds, "s of a processor", at_most=3),
    ]


def _on_spark(rig: Rig, what: str, run: Callable[[str], Took], target: float) -> Finding:
    programs: dict[str, Callable[[], float]] = {
        "s": lambda: run("spark").seconds,
        "s, a bare session": lambda: _took(sys.executable, "-c", _BARE_SESSION).seconds,
    }
    return rig.compare(f"{what} of {MESSAGES}, on Spark", programs, TURNS, at_most=target)


def _took(*command: str) -> Took:
    before = _processor_seconds_of_children()
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - our own
    return Took(time.perf_counter() - began, _processor_seconds_of_children() - before)


def _processor_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
