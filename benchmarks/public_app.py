"""Baseline (a): the algorithm of ``amazon-sqs-dlq-replay-backoff``, rewritten for the comparison.

One dead letter per invocation (its template has ``BatchSize: 1``), one SendMessage each, one client
for all invocations, and a log line with the delay.
"""

import logging
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MAX_DELAY_SECONDS = 900
COUNTER = "sqs-dlq-replay-nb"


class PublicApp:
    """The handler."""

    def __init__(
        self, client: "SQSClient", main_queue_url: str, rate: int, cap_seconds: int, log: TextIO
    ) -> None:
        """Prepare the handler. All invocations use *client*."""
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
            attributes = {name: _to_api(raw) for name, raw in record["messageAttributes"].items()}
            count = int(attributes.get(COUNTER, {}).get("StringValue", "0")) + 1
            attributes[COUNTER] = {"DataType": "Number", "StringValue": str(count)}
            ceiling = min(self._cap_seconds, self._rate * 2**count)
            delay = min(MAX_DELAY_SECONDS, int(random.uniform(0, ceiling)))
            self._log.info("Message replayed to main SQS queue with delayseconds %s", delay)
            self._client.send_message(
                QueueUrl=self._url,
                MessageBody=record["body"],
                DelaySeconds=delay,
                MessageAttributes=attributes,
            )


def _to_api(raw: Mapping[str, Any]) -> Any:  # noqa: ANN401 - botocore checks it
    return {name[:1].upper() + name[1:]: value for name, value in raw.items() if value}
