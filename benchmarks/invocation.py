"""A Lambda invocation as the benchmarks make it, and the dead letters that it brings."""

import importlib.util
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

from benchmarks.rig import REGION

ACCOUNT = "123456789012"
MAIN_QUEUE = "main"
"""Where the letters came from. What came from elsewhere would be parked, not replayed."""

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
    """An event with one dead letter for each number, each replayed twice before."""
    return json.dumps({"Records": [_record(number) for number in numbers]}).encode()


def _record(number: int) -> dict[str, Any]:
    message_id = f"00000000-0000-4000-8000-{number:012d}"
    context = json.dumps({"v": 1, "id": message_id, "t0": 1_795_000_000}, separators=(",", ":"))
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


HANDLER = Path(__file__).parents[1] / "functions" / "replay" / "handler.py"


class Context:
    """Lambda's context, with time enough."""

    def get_remaining_time_in_millis(self) -> int:
        """What the template gives the function."""
        return 30_000


def invoke(handler: Handler, payload: bytes) -> bytes:
    """Do what the runtime does for one invocation."""
    return json.dumps(handler(json.loads(payload), Context())).encode()


@contextmanager
def silence() -> Iterator[TextIO]:
    """Send logs and metrics where they cost a write and nothing more, as in a sandbox."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield nowhere


def load_replay_handler(variables: Mapping[str, str]) -> Handler:
    """Load the replay function as a cold start does, with *variables* in its environment.

    They stay set: the function reads them when it is first invoked. What it prints goes where
    ``sys.stdout`` leads now.
    """
    os.environ.update(variables)
    spec = importlib.util.spec_from_file_location("measured_replay_handler", HANDLER)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{HANDLER} could not be loaded")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    handler: Handler = module.lambda_handler
    return handler
