"""Measures a hundred messages against a bare session: one job in a worker that loads nothing else.

Every figure includes the start of the process and of its session.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import boto3

from benchmarks import ROOT
from benchmarks.findings import Finding
from benchmarks.rig import Rig
from benchmarks.transfers import fill
from benchmarks.verbs import approved

MESSAGES = 100
TURNS = 5

_IN_ONE_SESSION = """
import sys
from dlq.cli.running import end_process, main
from spark_reprocess.session import get_session
if len(sys.argv) > 1:
    end_process(main(sys.argv[1].split()))
spark = get_session()
conf = spark._jvm.org.apache.spark.SparkEnv.get().conf()
conf.set("spark.python.daemon.module", "pyspark.daemon")
spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
end_process(0)
"""


def measure(rig: Rig) -> list[Finding]:
    """Run both alternately with the bare session."""
    rig.notify("a hundred messages, against a bare Spark session")
    client = boto3.client("sqs")
    parked, main = (client.create_queue(QueueName=name)["QueueUrl"] for name in ("parked", "main"))
    with tempfile.TemporaryDirectory(prefix="bench-small-") as folder:
        place = f"--archive {folder}/archive"

        def drain_and_analyze() -> float:
            shutil.rmtree(f"{folder}/archive", ignore_errors=True)
            fill(rig, parked, MESSAGES)
            return _seconds(f"collect {place} --parked-queue-url {parked} --wait-seconds 0")

        def redrive() -> float:
            shutil.rmtree(f"{folder}/archive/ledger", ignore_errors=True)
            plan = approved(Path(folder, "archive"))
            to_main = f"--to-queue-url {main} --execute --reason benchmark"
            return _seconds(f"redrive {place} --plan {plan} {to_main}")

        def compared(what: str, run: Callable[[], float], target: float) -> Finding:
            programs = {"s": run, "s, a bare session": _seconds}
            return rig.compare(f"{what} of {MESSAGES} messages", programs, TURNS, at_most=target)

        return [
            compared("drain and analysis", drain_and_analyze, 2),
            compared("redrive", redrive, 1.6),
        ]


def _seconds(*commands: str) -> float:
    """Return how long a process takes that runs these commands; without any, a bare session."""
    began = time.perf_counter()
    program = [sys.executable, "-c", _IN_ONE_SESSION, *commands]
    subprocess.run(program, cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - our own
    return time.perf_counter() - began
