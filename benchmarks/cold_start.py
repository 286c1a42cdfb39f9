"""Measures the start of the replay function, against a program that only makes an SQS client.

Each start is a process, measured from the start of Python until the program writes that it is
ready. Both have cached bytecode.
"""

import os
import subprocess
import sys
import tempfile
import time
from functools import partial

from benchmarks import ROOT
from benchmarks.findings import Finding
from benchmarks.replay import POLICY, QUEUES
from benchmarks.rig import Rig

_BASELINE = "import boto3; boto3.client('sqs')"
_PRODUCT = """
import handler; from dlq_replay.aws.wiring import Clients
Clients(16)"""
_SAY_READY = "; import os; os.write(1, b'.')"
_PATH = (ROOT / "layers" / "core", ROOT / "functions" / "replay")


def measure(rig: Rig) -> list[Finding]:
    """Start both alternately; compare the times."""
    rig.notify("cold start, against import boto3 and a client")
    with tempfile.TemporaryDirectory(prefix="bench-bytecode-") as bytecode:
        urls = {name: f"{rig.url}/123456789012/{queue}" for name, queue in QUEUES.items()}
        variables = {
            **os.environ,
            **POLICY,
            **urls,
            "LOG_LEVEL": "ERROR",
            "PYTHONPATH": os.pathsep.join(map(str, _PATH)),
            "PYTHONPYCACHEPREFIX": bytecode,
            "PYTHONDONTWRITEBYTECODE": "",
        }
        product = partial(_start, _PRODUCT, variables)
        baseline = partial(_start, _BASELINE, variables)
        # The first start of each writes the bytecode.
        product()
        baseline()

        programs = {"ms": product, "ms, boto3 and a client": baseline}
        what = "cold start, to the first client"
        return [rig.compare(what, programs, turns=15, at_most=1.2)]


def _start(program: str, variables: dict[str, str]) -> float:
    """Return the milliseconds until the program was ready."""
    command = (sys.executable, "-c", program + _SAY_READY)
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables) as process:  # noqa: S603
        is_ready = process.stdout is not None and process.stdout.read(1) == b"."
        ready_ms = (time.perf_counter() - began) * 1000
    if not is_ready or process.returncode:
        raise RuntimeError(f"this program did not start: {program}")
    return ready_ms
