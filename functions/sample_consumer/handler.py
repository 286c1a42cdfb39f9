"""An example to copy: a consumer of the main queue that uses the complete consumer kit.

Replace ``work``. The rest keeps messages hidden during the work, processes each message once, and
records why a message failed: see docs/consumer.md. The replay stack does not deploy this function.
Give yours the layer, partial batch responses and these environment variables:

===================  ===================================================================
``QUEUE_URL``        the queue to read, standard or FIFO
``PROCESSED_TABLE``  the table of processed messages
``FAILURE_TABLE``    the stack's table of failures; without it, none is recorded
``PAYMENTS_URL``     the payments service of this example
``STATE_MACHINE``    ARN of the state machine to which ``hand_over`` gives long work
===================  ===================================================================

With ``NonRetryableErrors`` = ``CardRefusedError,JSONDecodeError``, an order whose card was refused
is parked at once. An order that failed because the payments service was down is replayed with
backoff.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
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

from dlq_replay.aws.sqs import client_config
from dlq_replay.consumer.failures import FailureRecorder
from dlq_replay.consumer.heartbeat import Heartbeat
from dlq_replay.consumer.idempotency import idempotent_by_first_id
from dlq_replay.consumer.identity import first_id
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE, ReplayContext
from dlq_replay.wire.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.wire.message import Message

QUEUE_URL = os.environ["QUEUE_URL"]

sqs = boto3.client("sqs", config=client_config(max_connections=2))
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


class CannotHandOverError(Exception):
    """The message does not fit into an execution's input. A replay would not change that."""


def hand_over(record: SQSRecord) -> None:
    """Give work that lasts longer than 12 hours to a state machine; SQS hides no message longer.

    The execution's name is this copy's message id, so a second delivery starts no second one. The
    counter stays among the attributes, and of the context only the source: what a failed execution
    sends to the dead-letter queue is a new message with a first id of its own, and ``MaxAttempts``
    still ends its replays. Raises CannotHandOverError where an attribute is binary, or the input
    would exceed 256 KiB.
    """
    message = Message.from_received(record.raw_event)
    queue_name = QueueAddress.from_url(QUEUE_URL).name
    source = ReplayContext(source_queue=queue_name, body_digest=message.body_digest)
    context = {CONTEXT_ATTRIBUTE: MessageAttribute("String", source.to_json())}
    attributes = {**message.attributes, **context}
    if message.history.is_inherited:
        # A counter that came from another message must not count from now on.
        attributes.pop(REPLAY_COUNT_ATTRIBUTE, None)
    if any(isinstance(one.value, bytes) for one in attributes.values()):
        raise CannotHandOverError("a binary attribute has no place in JSON")
    execution_input = json.dumps(
        {
            "body": message.body,
            "attributes": {name: one.to_api() for name, one in attributes.items()},
            "message_group_id": message.message_group_id,
        }
    )
    # StepFunctionsDeveloperGuide, "Step Functions service quotas".
    if len(execution_input) > 262_144:  # noqa: PLR2004
        raise CannotHandOverError(f"{len(execution_input):,} bytes are too many for an execution")
    client, machine = boto3.client("stepfunctions"), os.environ["STATE_MACHINE"]
    # Else an earlier delivery of this copy started it, and its answer was lost.
    with suppress(client.exceptions.ExecutionAlreadyExists):
        client.start_execution(
            stateMachineArn=machine, name=message.message_id, input=execution_input
        )


work: Callable[[SQSRecord], object] = charge
"""The work for one message. Tests and the demo replace it."""
