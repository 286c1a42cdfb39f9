"""Measures a sweep with the share of a processor that Lambda gives a function of 512 MB.

The sweep is a process of its own, which is stopped for the rest of each tenth of a second once it
has used its share. There is no network: only the server's own 5 ms for every answer.

Also ``dlq status`` of the fleet on this machine, with 50 ms for every answer.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import boto3
from botocore.config import Config

from benchmarks import ROOT
from benchmarks.findings import Finding
from benchmarks.rig import LATENCY_MS, Rig
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.wire.message import Message
from functions.replay import handler

SHARE = 512 / 1769
"""Of a processor: Lambda gives a whole one at 1,769 MB (Lambda Developer Guide, memory)."""

MEMBERS = (300, 900, 2000)
HOT = 3
HOT_MESSAGES = 5000
COLD_MESSAGES = 2
STATUS_LATENCY_MS = 50.0
"""Of a call to AWS from an operator's machine."""

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
            warm = [sweep() for _ in range(2 if rig.is_short else 3)]

        what = f"sweep of {members} empty DLQs"
        seconds = [each["seconds"] for each in warm]
        findings.append(Finding(f"{what}, first", [first["seconds"]], "s"))
        findings.append(Finding(what, seconds, "s", at_most=_BEFORE_LAST_TURN))
        findings.append(Finding(f"{what}, memory", [warm[-1]["peak_mb"]], "MB", at_most=512))
        if members > rig.sized(MEMBERS[0]):
            continue

        rig.notify(f"fleet: status of {members} DLQs")
        findings.append(fleet.status())
        for way in ("sweep", "mapping"):
            rig.notify(f"fleet: {HOT} of {members} DLQs are hot, by {way}")
            findings += _Incident(fleet, way, rig.sized(HOT_MESSAGES)).run()
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
        self.variables = {
            "QUEUE_TAG": "all",
            "PARKED_QUEUE_URL": self.parked,
            "MAX_ATTEMPTS": "20",
            "BACKOFF_RATE": "0.001",
            "BACKOFF_CAP_SECONDS": "0",
            "LOG_LEVEL": "ERROR",
        }

    def url(self, queue: str) -> str:
        return f"{self.parked.rpartition('/')[0]}/{queue}"

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

    def status(self) -> Finding:
        """Time ``dlq status``, a process of its own, without figures that it kept before."""
        paths = os.pathsep.join([str(ROOT), str(ROOT / "layers" / "core")])
        self.rig.set_latency(STATUS_LATENCY_MS)
        seconds: list[float] = []
        for _ in range(1 if self.rig.is_short else 3):
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, "-m", "dlq", "status", "--archive", folder]
                command += ["--queue-tag", "all", "--parked-queue-url", self.parked]
                variables = {"PYTHONPATH": paths, "XDG_CACHE_HOME": folder}
                began = time.perf_counter()
                subprocess.run(  # noqa: S603 - ours
                    command,
                    env=os.environ | variables,
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                seconds.append(time.perf_counter() - began)
        self.rig.set_latency(LATENCY_MS)
        what = f"status of {len(self.names)} DLQs, {STATUS_LATENCY_MS:.0f} ms a call"
        return Finding(what, seconds, "s", at_most=5)

    @contextmanager
    def sweeping(self) -> Iterator[Any]:
        """Run the function in a process with its share; yield what invokes it."""
        paths = os.pathsep.join([str(ROOT), str(ROOT / "layers" / "core")])
        with subprocess.Popen(
            (sys.executable, "-m", "benchmarks.fleet"),
            env=os.environ | self.variables | {"PYTHONPATH": paths},
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


class _Incident:
    """Three DLQs of the fleet with thousands of messages, and the others with two."""

    def __init__(self, fleet: _Fleet, way: str, hot_messages: int) -> None:
        self.fleet = fleet
        self.way = way
        self.names = list(fleet.names)
        step = max(1, len(self.names) // HOT)
        self.counts = dict.fromkeys(self.names, COLD_MESSAGES)
        self.counts |= dict.fromkeys(self.names[::step][:HOT], hot_messages)

    def run(self) -> list[Finding]:
        """Fill the DLQs, replay all, and say when each message reached its main queue."""
        with ThreadPoolExecutor(8) as executor:
            list(executor.map(self._fill, self.names))

        began = time.time()
        with self.fleet.rig.watched() as watch:
            if self.way == "sweep":
                self._sweep_each_minute()
            else:
                self._invoke_for_each_queue()
        total = sum(self.counts.values())
        requests = sum(watch.requests.values())

        delays: dict[str, float] = {}
        arrived = 0
        for name in self.names:
            times = self._arrivals(name)
            arrived += len(times)
            delays[name] = max(times) - began
        cold = [delays[name] for name in self.names if self.counts[name] == COLD_MESSAGES]

        what = f"{total:,} messages in {len(self.names)} DLQs, {HOT} hot, by {self.way}"
        return [
            Finding(f"{what}, replayed", [arrived], "messages", at_least=total, at_most=total),
            Finding(f"{what}, the last", [max(delays.values())], "s"),
            Finding(f"{what}, the last of the others", [max(cold)], "s", at_most=60),
            Finding(f"{what}, requests", [requests / total], "a message"),
        ]

    def _fill(self, name: str) -> None:
        """Send to the DLQ. It has one source, so they are taken for dead letters of that queue."""
        url = self.fleet.url(f"{name}-dlq")
        count = self.counts[name]
        for start in range(0, count, 10):
            entries: list[Any] = []
            for number in range(start, min(count, start + 10)):
                entries.append({"Id": str(number), "MessageBody": f"{number} {'x' * 900}"})
            self.fleet.client.send_message_batch(QueueUrl=url, Entries=entries)

    def _sweep_each_minute(self) -> None:
        with self.fleet.sweeping() as sweep:
            while True:
                ends = time.monotonic() + 60
                sweep()
                if not self._waiting():
                    return
                time.sleep(max(0.0, ends - time.monotonic()))

    def _invoke_for_each_queue(self) -> None:
        """Do as event source mappings do, which poll in AWS's own time: one queue after another."""
        with patch.dict(os.environ, self.fleet.variables), Path(os.devnull).open("w") as nowhere:
            while self._waiting():
                for name in self.names:
                    with redirect_stdout(nowhere):
                        self._invoke(name)

    def _invoke(self, name: str) -> None:
        queue = SqsQueue(self.fleet.client, self.fleet.url(f"{name}-dlq"))
        while messages := _batch(queue):
            records = [_record(message, f"{name}-dlq") for message in messages]
            context = SimpleNamespace(get_remaining_time_in_millis=lambda: 30_000)
            answer = handler.lambda_handler({"Records": records}, context)
            left = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
            queue.delete([message for message in messages if message.message_id not in left])

    def _waiting(self) -> int:
        return sum(self._count(f"{name}-dlq") for name in self.names)

    def _count(self, queue: str) -> int:
        attributes = SqsQueue(self.fleet.client, self.fleet.url(queue)).describe()
        visible = int(attributes["ApproximateNumberOfMessages"])
        return visible + int(attributes["ApproximateNumberOfMessagesNotVisible"])

    def _arrivals(self, name: str) -> list[float]:
        """Take everything out of a main queue; return when each message was sent there."""
        queue = SqsQueue(self.fleet.client, self.fleet.url(name))
        times: list[float] = []
        while messages := _batch(queue):
            times += [message.sent_seconds or 0.0 for message in messages]
            queue.delete(messages)
        return times


def _record(message: Message, queue: str) -> dict[str, Any]:
    """Return the record that an event source mapping makes of a message without attributes."""
    return {
        "messageId": message.message_id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": dict(message.system),
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue}",
    }


def _batch(queue: SqsQueue) -> list[Message]:
    """Receive up to 100 messages."""
    messages: list[Message] = []
    while len(messages) < 100:  # noqa: PLR2004 - the default BatchSize
        received = queue.receive(wait_seconds=0)
        messages += [message for message in received if isinstance(message, Message)]
        if not received:
            break
    return messages


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
