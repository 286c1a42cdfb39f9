"""A worked example to copy: a consumer of the main queue that records why it fails.

The replay stack does not deploy it. Give yours the layer, the variable ``FAILURE_TABLE``, leave
to write that table (docs/failures.md) and, in the event source mapping, partial batch responses.
With ``NonRetryableErrors`` = ``CardRefusedError,JSONDecodeError`` an order whose card was refused
is parked at once; one that met a payments service out of order is replayed with backoff.
"""

import json
import os
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from dlq_replay.consumer.failures import FailureRecorder
from dlq_replay.consumer.identity import first_id

processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
recorder = FailureRecorder.from_environment()


class CardRefusedError(Exception):
    """The payments service said no, and would say no again."""


@recorder.records_failures
def record_handler(record: SQSRecord) -> None:
    """Charge one order. What this raises is recorded, and fails this message alone."""
    order = json.loads(record.body)
    # A replay brings a copy with a new message id; the first one is the same on all of them.
    charge(order["customer"], order["cents"], idempotency_key=first_id(record))


@recorder.batch()
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> Any:  # noqa: ANN401
    """Handle a batch; its failures are written together at the end."""
    return process_partial_response(event, record_handler, processor, context)


def charge(customer: str, cents: int, idempotency_key: str) -> None:
    """Ask the payments service, which charges a key once. Error texts name no customer."""
    body = json.dumps({"customer": customer, "cents": cents}).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": idempotency_key}
    request = Request(os.environ["PAYMENTS_URL"], body, headers)  # noqa: S310 - our own setting
    try:
        urlopen(request, timeout=5).close()  # noqa: S310 - the same
    except HTTPError as error:
        if error.code == HTTPStatus.PAYMENT_REQUIRED:
            raise CardRefusedError("the card was refused") from error
        raise
