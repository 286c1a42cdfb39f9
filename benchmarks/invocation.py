"""The Lambda invocations of the benchmarks, and their dead letters."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

from benchmarks.rig import REGION
from demo.functions import cold_start
from demo.world import InvocationContext

ACCOUNT = "123456789012"
MAIN_QUEUE = "main"
"""The source of the dead letters. Those of another source would be parked, not replayed."""

BODY = json.dumps(
    {
        "order": "0000012345",
        "customer": "c-90210",
        "lines": [{"sku": f"sku-{n}", "quantity": n} for n in range(1, 9)],
        "note": "leave it with the neighbour " * 4,
    }
)
"""About 400 bytes: an order."""

Handler = Callable[[Any, Any], Any]


def event(numbers: range) -> bytes:
    """Return an event with one dead letter per number, each with two earlier replays."""
    return json.dumps({"Records": [_record(number) for number in numbers]}).encode()


def _record(number: int) -> dict[str, Any]:
    message_id = f"00000000-0000-4000-8000-{number:012d}"
    context = f'{{"v":1,"id":"{message_id}","h":"00000000","t0":1795000000}}'
    return {
        "messageId": message_id,
        "receiptHandle": "AQEB" + "r" * 176,
        "body": BODY,
        "attributes": {
            "ApproximateReceiveCount": "6",
            "SentTimestamp": "1795000000000",
            "SenderId": "AIDAEXAMPLEEXAMPLE123",
            "ApproximateFirstReceiveTimestamp": "1795000000100",
            "DeadLetterQueueSourceArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{MAIN_QUEUE}",
            "AWSTraceHeader": "Root=1-6561f4ab-0123456789abcdef01234567;Lineage=1:a1b2c3d4:3",
        },
        "messageAttributes": {
            "tenant": _attribute("String", "blue"),
            "sqs-dlq-replay-nb": _attribute("Number", "2"),
            "sqs-dlq-context": _attribute("String", context),
        },
        "md5OfBody": "0" * 32,
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:dlq",
        "awsRegion": REGION,
    }


def _attribute(data_type: str, value: str) -> dict[str, Any]:
    return {
        "stringValue": value,
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": data_type,
    }


def invoke(handler: Handler, payload: bytes) -> bytes:
    """Invoke *handler* as Lambda's runtime does."""
    return json.dumps(handler(json.loads(payload), InvocationContext())).encode()


@contextmanager
def silence() -> Iterator[TextIO]:
    """Redirect logs and metrics to /dev/null, so that they only cost a write, as in Lambda."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield nowhere


def load_replay_handler(variables: Mapping[str, str]) -> Handler:
    """Load the replay function as a cold start does, with *variables* in its environment.

    The variables stay set, because the function reads them at its first invocation. It prints to
    the current ``sys.stdout``.
    """
    os.environ.update(variables)
    handler: Handler = cold_start("replay").lambda_handler
    return handler
