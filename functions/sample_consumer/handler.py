"""An example to copy: a consumer of the main queue that uses the complete consumer kit.

Replace ``work``. The rest keeps messages hidden during the work, processes each message once, and
records why a message failed: see docs/consumer.md. The replay stack does not deploy this function.
Give yours the layer, partial batch responses and these environment variables:

===================  ===================================================================
``QUEUE_URL``        the queue to read, standard or FIFO
``PROCESSED_TABLE``  the table of processed messages
``FAILURE_TABLE``    the stack's table of failures; without it, none is recorded
``PAYMENTS_URL``     the payments service of this example
===================  ===================================================================

With ``NonRetryableErrors`` = ``CardRefusedError,JSONDecodeError``, an order whose card was refused
is parked at once. An order that failed because the payments service was down is replayed with
backoff.
"""

import json
import os
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import boto3
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    SqsFifoPartialProcessor,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from dlq_replay.aws.answers import with_checked_answers
from dlq_replay.aws.sqs import client_config
from dlq_replay.consumer.failure_recorder import FailureRecorder
from dlq_replay.consumer.heartbeat import Heartbeat
from dlq_replay.consumer.idempotency import idempotent_by_first_id
from dlq_replay.consumer.identity import first_id

QUEUE_URL = os.environ["QUEUE_URL"]

session = with_checked_answers(boto3.session.Session())
sqs = session.client("sqs", config=client_config(max_connections=2))
recorder = FailureRecorder.from_environment()
processor = recorder.records_failures_of(
    # On FIFO no message may overtake a failed one of its message group.
    SqsFifoPartialProcessor(skip_group_on_error=True)
    if QUEUE_URL.endswith(".fifo")
    else BatchProcessor(EventType.SQS)
)
processor.raise_on_entire_batch_failure = False


def lambda_handler(event: dict[str, Any], context: LambdaContext) -> Any:  # noqa: ANN401
    """Process each message of a batch; return those that failed."""
    with Heartbeat(sqs, QUEUE_URL, event["Records"]) as beat:
        with recorder.batch():
            handler = beat.guarded(record_handler)
            answer = process_partial_response(event, handler, processor, context)
        # Failed messages may be received again at once: the replay Lambda does the waiting, and the
        # failures that it reads are recorded now. Without this line each message would first wait
        # for its visibility timeout.
        beat.give_up()
    return answer


@idempotent_by_first_id(os.environ["PROCESSED_TABLE"], consumer="orders")
def record_handler(record: SQSRecord) -> None:
    """Process one message. An exception is recorded, and only this message fails."""
    work(record)


class CardRefusedError(Exception):
    """The payments service refused the card. A retry would be refused too."""


def charge(record: SQSRecord) -> None:
    """Charge one order. Error texts contain no customer."""
    order = json.loads(record.body)
    # After a crash this request may be sent twice. The first id is the same on every copy.
    headers = {"Content-Type": "application/json", "Idempotency-Key": first_id(record)}
    body = json.dumps({"customer": order["customer"], "cents": order["cents"]}).encode()
    request = Request(os.environ["PAYMENTS_URL"], body, headers)  # noqa: S310 - our own setting
    try:
        urlopen(request, timeout=5).close()  # noqa: S310 - the same
    except HTTPError as error:
        if error.code == HTTPStatus.PAYMENT_REQUIRED:
            raise CardRefusedError("the card was refused") from error
        raise


work: Callable[[SQSRecord], object] = charge
"""The work for one message. Tests and the demo replace it."""
