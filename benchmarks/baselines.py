"""The alternatives, written for the comparison, each with one client.

(a) The algorithm of ``amazon-sqs-dlq-replay-backoff``: one dead letter per invocation (its template
    has ``BatchSize: 1``), one SendMessage each, and a log line with the delay.
(b) The classical loop of a bulk redrive: receive ten, send ten, delete ten.

``fill`` makes the parked messages of 1 KB that both sides move.
"""

import json
import logging
import random
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import boto3

from benchmarks.rig import LATENCY_MS, MeasuringServer, Rig
from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import CONTEXT_ATTRIBUTE, FailureError, ReplayContext, body_digest
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import SendEntry
from dlq_replay.sqs import SqsQueue
from spark_reprocess.clients import sqs_client

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MAX_DELAY_SECONDS = 900
BODY_BYTES = 1024
_CALLS_AT_ONCE = 4
_BATCH = 10
_EPOCH_SECONDS = 1_795_000_000
_ERRORS = ("Timeout", "NoVatRate", "UnknownSku", "StockConflict", "BadAddress")


class PublicApp:
    """The handler of (a). All invocations use *client*."""

    def __init__(
        self, client: "SQSClient", main_queue_url: str, rate: int, cap_seconds: int, log: TextIO
    ) -> None:
        self._client = client
        self._url = main_queue_url
        self._rate = rate
        self._cap_seconds = cap_seconds
        self._log = logging.getLogger("public_app")
        self._log.setLevel(logging.INFO)
        self._log.propagate = False
        self._log.handlers = [logging.StreamHandler(log)]

    def __call__(self, event: Mapping[str, Any], _context: object) -> None:
        """Send each record of *event* back with full jitter."""
        for record in event["Records"]:
            attributes: dict[str, Any] = {
                name: {key[:1].upper() + key[1:]: value for key, value in raw.items() if value}
                for name, raw in record["messageAttributes"].items()
            }
            count = int(attributes.get(REPLAY_COUNT_ATTRIBUTE, {}).get("StringValue", "0")) + 1
            attributes[REPLAY_COUNT_ATTRIBUTE] = {"DataType": "Number", "StringValue": str(count)}
            ceiling = min(self._cap_seconds, self._rate * 2**count)
            delay = min(MAX_DELAY_SECONDS, int(random.uniform(0, ceiling)))
            self._log.info("Message replayed to main SQS queue with delayseconds %s", delay)
            self._client.send_message(
                QueueUrl=self._url,
                MessageBody=record["body"],
                DelaySeconds=delay,
                MessageAttributes=attributes,
            )


def redrive_by_loop(client: "SQSClient", source_url: str, target_url: str, count: int) -> int:
    """Move up to *count* messages as (b); return how many were moved."""
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
        entries: list[Any] = [
            {
                "Id": str(index),
                "MessageBody": message["Body"],
                "MessageAttributes": message.get("MessageAttributes", {}),
            }
            for index, message in enumerate(messages)
        ]
        client.send_message_batch(QueueUrl=target_url, Entries=entries)
        receipts: list[Any] = [
            {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
            for index, message in enumerate(messages)
        ]
        client.delete_message_batch(QueueUrl=source_url, Entries=receipts)
        moved += len(messages)
    return moved


class LoopRates:
    """Measures (b) with few messages: its rate does not depend on their number."""

    MESSAGES = 3000

    def __init__(self, rig: Rig) -> None:
        """Create the queues on the rig's server."""
        self._rig = rig
        self._client = boto3.client("sqs")
        self._source, self._target = (
            self._client.create_queue(QueueName=name)["QueueUrl"]
            for name in ("loop-source", "loop-target")
        )

    def run(self) -> float:
        """Return messages a second."""
        count = self._rig.sized(self.MESSAGES)
        fill(self._rig.server, self._source, count)
        began = time.perf_counter()
        redrive_by_loop(self._client, self._source, self._target, count)
        return count / (time.perf_counter() - began)


def fill(server: MeasuringServer, url: str, count: int) -> None:
    """Send *count* parked messages to a queue, without the server's latency."""
    queue = SqsQueue(sqs_client(url), url)
    server.set_latency(0)
    with ThreadPoolExecutor(_CALLS_AT_ONCE) as executor:
        list(executor.map(partial(_send, queue, count), range(0, count, _BATCH)))
    server.set_latency(LATENCY_MS)


def _send(queue: SqsQueue, count: int, first: int) -> None:
    numbers = range(first, min(first + _BATCH, count))
    queue.send([SendEntry(_body(n), _attributes(n)) for n in numbers])


def _body(number: int) -> str:
    order: dict[str, Any] = {"order": number, "customer": f"c-{number % 977}", "note": ""}
    order["note"] = "x" * (BODY_BYTES - len(json.dumps(order)))
    return json.dumps(order)


def _attributes(number: int) -> dict[str, MessageAttribute]:
    kind = _ERRORS[number % len(_ERRORS)]
    context = ReplayContext(
        first_id=f"{number:032x}",
        first_seen_seconds=_EPOCH_SECONDS,
        reason="attempts_exhausted",
        error=FailureError(kind, f"order {number} after 3 s"),
        body_digest=body_digest(_body(number)),
    )
    return {
        "tenant": MessageAttribute("String", f"t-{number % 50}"),
        REPLAY_COUNT_ATTRIBUTE: MessageAttribute("Number", "5"),
        CONTEXT_ATTRIBUTE: MessageAttribute("String", context.to_json()),
    }
