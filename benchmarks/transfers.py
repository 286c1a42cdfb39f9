"""Measures drain and redrive against the classical loop, which writes no file.

The loop is one client that receives ten, sends ten, deletes ten.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3

from benchmarks.findings import Finding
from benchmarks.rig import LATENCY_MS, Rig
from benchmarks.verbs import ANALYZE, DRAIN, approved, timed_verb
from dlq.aws.clients import sqs_client
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE, FailureError, ReplayContext, body_digest
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, SendEntry

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MESSAGES = 100_000
LOOP_MESSAGES = 3000
"""The rate of the loop does not depend on their number."""

BODY_BYTES = 1024
_BATCH = 10
_ERRORS = ("Timeout", "NoVatRate", "UnknownSku", "StockConflict", "BadAddress")


def measure(rig: Rig) -> list[Finding]:
    """Run each verb alternately with the loop, after a run of its own as a warm-up."""
    count = rig.sized(MESSAGES)
    client = boto3.client("sqs")

    def queue(name: str) -> str:
        return client.create_queue(QueueName=name)["QueueUrl"]

    def loop() -> float:
        messages = rig.sized(LOOP_MESSAGES)
        source = queue("loop-source")
        target = queue("loop-target")
        fill(rig, source, messages)
        began = time.perf_counter()
        redrive_by_loop(client, source, target, messages)
        return messages / (time.perf_counter() - began)

    def compared(verb: str, run: Callable[[], float], turns: int, at_least: float) -> Finding:
        programs = {"messages a second": run, "messages a second, the loop": loop}
        return rig.compare(f"{verb}, {count:,} messages", programs, turns, at_least=at_least)

    with tempfile.TemporaryDirectory(prefix="bench-archives-") as name:
        folder = Path(name, "archive")

        rig.notify(f"drain of {count:,} messages, against the classical loop")
        drains = _Runs(rig, "drain")

        def drain(messages: int = count) -> float:
            shutil.rmtree(folder, ignore_errors=True)
            fill(rig, queue("parked"), messages)
            words = ("--archive", str(folder), "--parked-queue-url", queue("parked"))
            return drains.run(messages, *DRAIN, *words)

        drain(count // 10)
        drained = compared("drain", drain, turns=2, at_least=8)
        rig.notify(f"redrive of {count:,} messages, against the same")
        timed_verb(*ANALYZE, "--archive", str(folder))
        redrives = _Runs(rig, "redrive")
        plan = approved(folder)

        def redrive() -> float:
            shutil.rmtree(folder / "ledger", ignore_errors=True)
            url = queue("redriven")
            words = ("--archive", str(folder), "--plan", plan, "--to-queue-url", url)
            rate = redrives.run(count, "redrive", *words, "--execute", "--reason", "benchmark")

            arrived = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
            if int(arrived["Attributes"]["ApproximateNumberOfMessages"]) != count:
                raise RuntimeError(f"{count} messages were sent, and main has {arrived}")

            client.delete_queue(QueueUrl=url)
            return rate

        redrive()
        redriven = compared("redrive", redrive, turns=3, at_least=9)

    return [
        drained,
        *drains.findings(requests_target=0.23),
        redriven,
        *redrives.findings(requests_target=0.12),
    ]


class _Runs:
    """Runs of one verb, and what the server did.

    Every request counts, also empty polls and GetQueueAttributes.
    """

    def __init__(self, rig: Rig, verb: str) -> None:
        self._rig = rig
        self._verb = verb
        self._requests: list[float] = []

    def run(self, count: int, *arguments: str) -> float:
        """Return messages a second, without the start of the session."""
        with self._rig.watched() as watch:
            seconds = timed_verb(*arguments).seconds
        self._requests.append(sum(watch.requests.values()) / count)
        self._server = self._rig.server_finding(self._verb, watch, seconds)
        return count / seconds

    def findings(self, requests_target: float) -> list[Finding]:
        """Return the requests of all runs but the first, and the server's share in the last."""
        requests = Finding(
            f"{self._verb}, requests a message",
            self._requests[1:],
            "requests",
            at_most=requests_target,
        )
        return [requests, self._server]


def redrive_by_loop(client: "SQSClient", source_url: str, target_url: str, count: int) -> int:
    """Move up to *count* messages by the loop; return how many were moved."""
    moved = 0
    while moved < count:
        answer = client.receive_message(
            QueueUrl=source_url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=1,
            MessageAttributeNames=["All"],
        )
        messages = answer.get("Messages", [])
        if not messages:
            break

        entries: list[Any] = []
        receipts: list[Any] = []
        for index, message in enumerate(messages):
            entry = {
                "Id": str(index),
                "MessageBody": message["Body"],
                "MessageAttributes": message.get("MessageAttributes", {}),
            }
            entries.append(entry)
            receipts.append({"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]})
        client.send_message_batch(QueueUrl=target_url, Entries=entries)
        client.delete_message_batch(QueueUrl=source_url, Entries=receipts)
        moved += len(messages)

    return moved


def fill(rig: Rig, url: str, count: int) -> None:
    """Send *count* parked messages of 1 KB to a queue, without the server's latency."""
    queue = SqsQueue(sqs_client(url), url)

    def send(first: int) -> None:
        end = min(first + _BATCH, count)
        queue.send([_parked(number) for number in range(first, end)])

    rig.set_latency(0)
    with ThreadPoolExecutor(4) as executor:
        list(executor.map(send, range(0, count, _BATCH)))
    rig.set_latency(LATENCY_MS)


def _parked(number: int) -> SendEntry:
    order: dict[str, Any] = {"order": number, "customer": f"c-{number % 977}", "note": ""}
    order["note"] = "x" * (BODY_BYTES - len(json.dumps(order)))
    body = json.dumps(order)
    error = FailureError(_ERRORS[number % len(_ERRORS)], f"order {number} after 3 s")
    context = ReplayContext(
        first_id=f"{number:032x}",
        first_seen_seconds=1_795_000_000,
        reason="attempts_exhausted",
        error=error,
        body_digest=body_digest(body),
    )
    attributes = {
        "tenant": MessageAttribute("String", f"t-{number % 50}"),
        REPLAY_COUNT_ATTRIBUTE: MessageAttribute("Number", "5"),
        CONTEXT_ATTRIBUTE: MessageAttribute("String", context.to_json()),
    }
    return SendEntry(body, attributes)
