"""Measures the replay function against the public app's algorithm, with the same invocations.

That is the algorithm of ``amazon-sqs-dlq-replay-backoff``: one dead letter per invocation (its
template has ``BatchSize: 1``), one SendMessage each, and a log line with the delay. An invocation
is JSON in, the handler, JSON out.
"""

import json
import logging
import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import boto3

from benchmarks.findings import Finding
from benchmarks.rig import REGION, Rig
from demo.functions import cold_start
from demo.world import Handler, InvocationContext, to_record
from dlq_replay.wire.context import body_digest
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

BATCH = 100
MESSAGES = 2000
MESSAGES_ONE_BY_ONE = 300
TURNS = 9

ACCOUNT = "123456789012"
QUEUES = {"MAIN_QUEUE_URL": "main", "DLQ_URL": "dlq", "PARKED_QUEUE_URL": "parked"}
POLICY = {"MAX_ATTEMPTS": "20", "BACKOFF_RATE": "10", "BACKOFF_CAP_SECONDS": "900"}

_LONGEST_DELAY_SECONDS = 900
_BODY = json.dumps(
    {
        "order": "0000012345",
        "customer": "c-90210",
        "lines": [{"sku": f"sku-{n}", "quantity": n} for n in range(1, 9)],
        "note": "leave it with the neighbour " * 4,
    }
)
"""About 400 bytes: an order."""


def measure(rig: Rig) -> list[Finding]:
    """Measure events of 100 and of 1 message; count the sends of the large ones."""
    client = boto3.client("sqs")
    urls = {}
    for variable, queue in QUEUES.items():
        urls[variable] = client.create_queue(QueueName=queue)["QueueUrl"]

    count = max(BATCH, rig.sized(MESSAGES))
    large_events = [event(range(first, first + BATCH)) for first in range(0, count, BATCH)]
    small_count = rig.sized(MESSAGES_ONE_BY_ONE)
    small_events = [event(range(number, number + 1)) for number in range(small_count)]

    # Logs and metrics only cost a write, as in Lambda.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        app = public_app(client, urls["MAIN_QUEUE_URL"], 10, 345_600, nowhere)
        # The function reads its variables at its first invocation.
        os.environ.update({**urls, **POLICY})
        replay: Handler = cold_start("replay").lambda_handler
        invoke(app, small_events[0])

        def compared(what: str, events: Sequence[bytes], at_least: float) -> Finding:
            programs = {
                "messages a second": partial(_messages_per_second, replay, events),
                "messages a second, public app's way": partial(
                    _messages_per_second, app, small_events
                ),
            }
            return rig.compare(what, programs, TURNS, at_least=at_least)

        rig.notify(f"replay, events of {BATCH}, against one message an invocation")
        with rig.watched() as watch:
            seconds = count / _messages_per_second(replay, large_events)
        requests = watch.requests
        send_count = requests.get("SendMessage", 0) + requests.get("SendMessageBatch", 0)
        sends = [send_count / count]
        large = compared(f"replay, events of {BATCH}", large_events, at_least=30)

        rig.notify("replay, events of 1, against the same")
        small = compared("replay, events of 1", small_events, at_least=0.9)

        return [
            large,
            Finding("replay, send requests a message", sends, "requests", at_most=0.11),
            rig.server_finding("replay", watch, seconds),
            small,
        ]


def _messages_per_second(handler: Handler, events: Sequence[bytes]) -> float:
    """Invoke *handler* with one event after the other, all of one size."""
    count = len(events) * len(json.loads(events[0])["Records"])
    began = time.perf_counter()
    for payload in events:
        invoke(handler, payload)
    return count / (time.perf_counter() - began)


def invoke(handler: Handler, payload: bytes) -> bytes:
    """Invoke *handler* as Lambda's runtime does."""
    return json.dumps(handler(json.loads(payload), InvocationContext())).encode()


def event(numbers: range) -> bytes:
    """Return an event with one dead letter per number, each with two earlier replays."""
    return json.dumps({"Records": [_record(number) for number in numbers]}).encode()


def _record(number: int) -> dict[str, Any]:
    message_id = f"00000000-0000-4000-8000-{number:012d}"
    context = f'{{"v":1,"id":"{message_id}","h":"{body_digest(_BODY)}","t0":1795000000}}'

    message = {
        "MessageId": message_id,
        "ReceiptHandle": "AQEB" + "r" * 176,
        "Body": _BODY,
        "Attributes": {
            "ApproximateReceiveCount": "6",
            "SentTimestamp": "1795000000000",
            "SenderId": "AIDAEXAMPLEEXAMPLE123",
            "ApproximateFirstReceiveTimestamp": "1795000000100",
            "DeadLetterQueueSourceArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:main",
            "AWSTraceHeader": "Root=1-6561f4ab-0123456789abcdef01234567;Lineage=1:a1b2c3d4:3",
        },
        "MessageAttributes": {
            "tenant": {"DataType": "String", "StringValue": "blue"},
            "sqs-dlq-replay-nb": {"DataType": "Number", "StringValue": "2"},
            "sqs-dlq-context": {"DataType": "String", "StringValue": context},
        },
    }

    return to_record(message, f"arn:aws:sqs:{REGION}:{ACCOUNT}:dlq")


def public_app(
    client: "SQSClient", main_queue_url: str, rate: int, cap_seconds: int, log: TextIO
) -> Handler:
    """Return the handler of the public app. All invocations use *client*."""
    logger = logging.getLogger("public_app")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [logging.StreamHandler(log)]

    def replay(event: Any, _context: object) -> None:  # noqa: ANN401 - JSON
        """Send each record back with full jitter."""
        for record in event["Records"]:
            attributes: dict[str, Any] = {}
            for name, raw in record["messageAttributes"].items():
                attributes[name] = _as_boto3(raw)

            count = int(attributes.get(REPLAY_COUNT_ATTRIBUTE, {}).get("StringValue", "0")) + 1
            attributes[REPLAY_COUNT_ATTRIBUTE] = {"DataType": "Number", "StringValue": str(count)}

            ceiling = min(cap_seconds, rate * 2**count)
            delay = min(_LONGEST_DELAY_SECONDS, int(random.uniform(0, ceiling)))
            logger.info("Message replayed to main SQS queue with delayseconds %s", delay)
            client.send_message(
                QueueUrl=main_queue_url,
                MessageBody=record["body"],
                DelaySeconds=delay,
                MessageAttributes=attributes,
            )

    return replay


def _as_boto3(attribute: Mapping[str, Any]) -> dict[str, Any]:
    """Return an attribute of a record as boto3 takes it: ``StringValue`` for ``stringValue``."""
    return {key[:1].upper() + key[1:]: value for key, value in attribute.items() if value}
