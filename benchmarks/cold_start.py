"""Measures the start of the replay function, against a program that only makes an SQS client.

Each start is a process, measured from the start of Python until the program writes that it is
ready. Both have cached bytecode.
"""

import os
import subprocess
import sys
import tempfile
import time

from benchmarks import ROOT
from benchmarks.findings import Finding, Side
from benchmarks.rig import Rig, by_turns

TURNS = 15
TIME_TARGET = 1.25

_BASELINE = "import boto3; boto3.client('sqs')"
_PRODUCT = "import handler; handler.sqs_client()"
_SAY_READY = "; import os; os.write(1, b'.')"


def measure(rig: Rig) -> list[Finding]:
    """Start both alternately; compare the times."""
    rig.notify("cold start, against import boto3 and a client")
    with tempfile.TemporaryDirectory(prefix="bench-bytecode-") as bytecode:
        variables = {**os.environ, **_environment(rig.server.url, bytecode)}
        for program in (_BASELINE, _PRODUCT):
            _start(program, variables)
        product, baseline = by_turns(
            lambda: _start(_PRODUCT, variables),
            lambda: _start(_BASELINE, variables),
            rig.turns(TURNS),
        )
    sides = Side("ms", product), Side("ms, boto3 and a client", baseline)
    return [Finding.of_ratio("cold start, to the first client", *sides, at_most=TIME_TARGET)]


def _environment(endpoint: str, bytecode: str) -> dict[str, str]:
    queues = {
        name: f"{endpoint}/123456789012/{name.lower()}"
        for name in ("MAIN_QUEUE_URL", "DLQ_URL", "PARKED_QUEUE_URL")
    }
    folders = (ROOT / "layers" / "core", ROOT / "functions" / "replay")
    return {
        **queues,
        "MAX_ATTEMPTS": "20",
        "BACKOFF_RATE": "10",
        "BACKOFF_CAP_SECONDS": "900",
        "LOG_LEVEL": "ERROR",
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "PYTHONPYCACHEPREFIX": bytecode,
        "PYTHONDONTWRITEBYTECODE": "",
    }


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
