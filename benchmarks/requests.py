"""How many SQS requests it costs to drain a parked message and to redrive it.

Real runs of the Spark job's verbs. Every request counts: the polls that find nothing and the
questions about the queues too.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import boto3

from benchmarks.findings import Finding, at_most
from benchmarks.letters import BODY
from benchmarks.measuring_server import LATENCY_MS, ROOT
from benchmarks.rig import Rig

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MESSAGES = 10_000
TARGET = at_most(0.35)
BATCH = 10


def measure(rig: Rig) -> list[Finding]:
    """Drain and redrive a queue of messages."""
    client, count = boto3.client("sqs"), rig.sized(MESSAGES)
    rig.say(f"requests of drain and redrive, {count:,} messages")
    parked, main = (client.create_queue(QueueName=n)["QueueUrl"] for n in ("parked", "main"))
    rig.server.set_latency(0)
    _fill(client, parked, count)
    rig.server.set_latency(LATENCY_MS)
    with tempfile.TemporaryDirectory(prefix="bench-archive-") as folder:
        with rig.server.watched() as drained:
            _verb("drain", "--archive", folder, "--parked-queue-url", parked)
        _verb("analyze", "--archive", folder)
        (plan,) = Path(folder).glob("reports/*/plan.yaml")
        _approve(plan)
        with rig.server.watched() as redriven:
            _verb(
                *("redrive", "--archive", folder, "--plan", str(plan), "--to-queue-url", main),
                *("--execute", "--reason", "benchmark"),
            )
    arrived = client.get_queue_attributes(QueueUrl=main, AttributeNames=["All"])["Attributes"]
    if int(arrived["ApproximateNumberOfMessages"]) != count:
        raise RuntimeError(f"{count} messages were parked, and main has {arrived}")
    requests = [sum(watch.requests.values()) / count for watch in (drained, redriven)]
    return [
        Finding("requests a message, drain and redrive", [sum(requests)], "requests", TARGET),
        Finding("requests a message, drain alone", requests[:1], "requests"),
    ]


def _fill(client: "SQSClient", url: str, count: int) -> None:
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        client.send_message_batch(
            QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": BODY} for n in numbers]
        )


def _approve(plan: Path) -> None:
    """Do what a human would: set every group of the plan to ``redrive``."""
    text = plan.read_text("utf-8")
    plan.write_text(text.replace("action: leave", "action: redrive"), "utf-8")


def _verb(*arguments: str) -> None:
    """Run a verb of the Spark job.

    Raises:
        RuntimeError: it failed; the message is what it said last.
    """
    command = [sys.executable, "-m", "spark_reprocess", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        raise RuntimeError(f"{arguments[0]} ended with {ended.returncode}: {ended.stderr[-2000:]}")
