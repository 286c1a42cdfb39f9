"""Measures a sweep with the share of a processor that Lambda gives a function of 512 MB.

The sweep is a process of its own, which is stopped for the rest of each tenth of a second once it
has used its share. There is no network: only the server's own 5 ms for every answer.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
from botocore.config import Config

from benchmarks import ROOT
from benchmarks.findings import Finding
from benchmarks.rig import Rig

SHARE = 512 / 1769
"""Of a processor: Lambda gives a whole one at 1,769 MB (Lambda Developer Guide, memory)."""

MEMBERS = (300, 600, 900)
HOT = 3
HOT_MESSAGES = 5000
COLD_MESSAGES = 2
_PERIOD_SECONDS = 0.1
_TAG = {"dlq-replay": "all"}


def measure(rig: Rig) -> list[Finding]:
    """Sweep empty DLQs; then 300 of which three have thousands of messages."""
    findings: list[Finding] = []
    fleet = _Fleet(rig)
    for members in map(rig.sized, MEMBERS):
        rig.notify(f"fleet: {members} empty DLQs")
        fleet.grow(members)
        with fleet.sweeping() as sweep:
            first = sweep()
            warm = [sweep() for _ in range(3)]
        what = f"sweep of {members} empty DLQs"
        findings.append(Finding(f"{what}, first", [first["seconds"]], "s"))
        findings.append(
            Finding(what, [each["seconds"] for each in warm], "s", at_most=_BEFORE_LAST_TURN)
        )
        findings.append(Finding(f"{what}, memory", [warm[-1]["peak_mb"]], "MB", at_most=512))

    rig.notify(f"fleet: three of {len(fleet.names)} DLQs are hot")
    findings += fleet.incident(rig.sized(HOT_MESSAGES))
    return findings


_BEFORE_LAST_TURN = 46.0
"""A sweep begins no turn later: 58 s, less 2 s for the log and 10 s for the last turn."""


class _Fleet:
    """DLQs on the server, each with a main queue."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.client = boto3.client(
            "sqs", endpoint_url=rig.url, config=Config(max_pool_connections=16)
        )
        self.parked = self.client.create_queue(QueueName="parked")["QueueUrl"]
        self.names: list[str] = []

    def grow(self, members: int) -> None:
        """Make so many members."""
        new = [f"q{number:04d}" for number in range(len(self.names), members)]
        with ThreadPoolExecutor(8) as executor:
            list(executor.map(self._make, new))
        self.names += new

    def _make(self, name: str) -> None:
        dlq = self.client.create_queue(QueueName=f"{name}-dlq")["QueueUrl"]
        arn = f"arn:aws:sqs:us-east-1:123456789012:{name}-dlq"
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
        main = self.client.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})
        for url in (dlq, main["QueueUrl"]):
            self.client.tag_queue(QueueUrl=url, Tags=_TAG)

    @contextmanager
    def sweeping(self) -> Iterator[Any]:
        """Run the function in a process with its share; yield what invokes it."""
        variables = {
            "AWS_ENDPOINT_URL": self.rig.url,
            "AWS_ENDPOINT_URL_LAMBDA": "",
            "QUEUE_TAG": "all",
            "PARKED_QUEUE_URL": self.parked,
            "MAX_ATTEMPTS": "20",
            "BACKOFF_RATE": "0.001",
            "BACKOFF_CAP_SECONDS": "0",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "layers" / "core")]),
        }
        with subprocess.Popen(
            (sys.executable, "-m", "benchmarks.fleet"),
            env=os.environ | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            ended = threading.Event()
            limiter = threading.Thread(target=_limit, args=(process.pid, ended))
            limiter.start()

            try:
                yield partial(_sweep, process)
            finally:
                ended.set()
                limiter.join()
                if process.stdin:
                    process.stdin.close()

    def incident(self, hot_messages: int) -> list[Finding]:
        """Fill all DLQs, three of them with thousands; sweep each minute until all is replayed."""
        hot = self.names[:: max(1, len(self.names) // HOT)][:HOT]
        with ThreadPoolExecutor(8) as executor:
            for name in self.names:
                count = hot_messages if name in hot else COLD_MESSAGES
                executor.submit(self._fill, name, count)

        cold_seconds: list[float] = []
        with self.rig.watched() as watch, self.sweeping() as sweep:
            began = time.monotonic()
            sweeps = 0
            while self._waiting(hot) or not cold_seconds:
                minute = time.monotonic()
                sweep()
                sweeps += 1
                if not cold_seconds and not self._waiting(set(self.names) - set(hot)):
                    cold_seconds.append(time.monotonic() - began)
                if self._waiting(hot):
                    time.sleep(max(0.0, minute + 60 - time.monotonic()))
            seconds = time.monotonic() - began

        total = HOT * hot_messages + (len(self.names) - HOT) * COLD_MESSAGES
        arrived = sum(self._count(name) for name in self.names)
        what = f"{total:,} messages in {len(self.names)} DLQs, {HOT} hot"
        return [
            Finding(f"{what}, replayed", [arrived], "messages", at_least=total, at_most=total),
            Finding(f"{what}, sweeps", [sweeps], "sweeps"),
            Finding(f"{what}, all", [seconds], "s"),
            Finding(f"{what}, the cold ones", cold_seconds, "s", at_most=60),
            Finding(f"{what}, requests", [sum(watch.requests.values()) / total], "a message"),
        ]

    def _fill(self, name: str, count: int) -> None:
        """Send to the DLQ; nothing else is a source, so they are taken for the main queue's."""
        url = f"{self.parked.rpartition('/')[0]}/{name}-dlq"
        for start in range(0, count, 10):
            numbers = range(start, min(count, start + 10))
            entries: Any = [
                {"Id": str(n), "MessageBody": f"{name} {n} {'x' * 900}"} for n in numbers
            ]
            self.client.send_message_batch(QueueUrl=url, Entries=entries)

    def _waiting(self, names: Sequence[str] | set[str]) -> int:
        return sum(self._count(f"{name}-dlq") for name in names)

    def _count(self, queue: str) -> int:
        url = f"{self.parked.rpartition('/')[0]}/{queue}"
        names: Any = ["All"]
        attributes = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=names)[
            "Attributes"
        ]
        visible = int(attributes["ApproximateNumberOfMessages"])
        return visible + int(attributes["ApproximateNumberOfMessagesNotVisible"])


def _sweep(process: subprocess.Popen[str]) -> dict[str, float]:
    """Let the process sweep once; return the seconds that it took and its memory."""
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process has no pipes")
    process.stdin.write("sweep\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.startswith("swept "):
            figures: dict[str, float] = json.loads(line.removeprefix("swept "))
            return figures
    raise RuntimeError("the sweep ended with an error, which is above")


def _limit(pid: int, ended: threading.Event) -> None:
    """Stop a process for the rest of each period in which it has used its share."""

    def used_seconds() -> float:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    while not ended.is_set():
        ends = time.monotonic() + _PERIOD_SECONDS
        allowed = used_seconds() + SHARE * _PERIOD_SECONDS
        is_stopped = False
        while time.monotonic() < ends:
            if not is_stopped and used_seconds() >= allowed:
                os.kill(pid, signal.SIGSTOP)
                is_stopped = True
            time.sleep(0.002)
        os.kill(pid, signal.SIGCONT)


def _serve() -> None:
    """Invoke the function for each line of standard input, and print how long it took."""
    import resource  # noqa: PLC0415

    from dlq_replay.aws import wiring  # noqa: PLC0415
    from functions.replay import sweep  # noqa: PLC0415

    make = wiring.Clients.make
    mappings = SimpleNamespace(
        get_paginator=lambda _: SimpleNamespace(paginate=lambda: [{"EventSourceMappings": []}])
    )
    # The server knows no Lambda.
    wiring.Clients.make = lambda self, service, config: (  # type: ignore[method-assign]
        mappings if service == "lambda" else make(self, service, config)
    )
    for _ in sys.stdin:
        ends = time.monotonic() + 58

        def left(ends: float = ends) -> int:
            return int((ends - time.monotonic()) * 1000)

        began = time.monotonic()
        sweep.lambda_handler({}, SimpleNamespace(get_remaining_time_in_millis=left))
        took = time.monotonic() - began
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print("swept", json.dumps({"seconds": took, "peak_mb": peak_mb}), flush=True)  # noqa: T201


if __name__ == "__main__":
    _serve()
