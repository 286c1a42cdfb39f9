"""Counts the SQS requests to drain and redrive a parked message.

These are real runs of the Spark job's verbs. Every request counts, also empty polls and
GetQueueAttributes.
"""

import tempfile

import boto3

from benchmarks.findings import Finding, at_most
from benchmarks.parked import fill
from benchmarks.rig import Rig
from benchmarks.verbs import analyzed, timed_verb

MESSAGES = 10_000
TARGET = at_most(0.35)


def measure(rig: Rig) -> list[Finding]:
    """Drain and redrive a queue of messages."""
    client, count = boto3.client("sqs"), rig.sized(MESSAGES)
    rig.notify(f"requests of drain and redrive, {count:,} messages")
    parked, main = (client.create_queue(QueueName=n)["QueueUrl"] for n in ("parked", "main"))
    fill(rig.server, parked, count)
    with tempfile.TemporaryDirectory(prefix="bench-archive-") as folder:
        with rig.server.watched() as drained:
            timed_verb("drain", "--archive", folder, "--parked-queue-url", parked)
        plan = analyzed(folder)
        with rig.server.watched() as redriven:
            timed_verb(
                *("redrive", "--archive", folder, "--plan", plan, "--to-queue-url", main),
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
