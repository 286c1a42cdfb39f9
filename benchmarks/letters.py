"""Dead letters as Lambda brings them: records of an event source mapping."""

import json
from typing import Any

from benchmarks.measuring_server import REGION

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
