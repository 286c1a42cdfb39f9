"""Message id and receipt handle, in whatever shape a message comes; and the queue of a record."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dlq_replay.addresses import QueueAddress
from dlq_replay.consumer.visibility import error_code
from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.message import Message

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

Received = Message | Mapping[str, Any]
"""A core Message, a message of a ReceiveMessage answer, or a record of a Lambda event."""


class Receipt(NamedTuple):
    """One receive of one message."""

    message_id: str
    receipt_handle: str


def receipt_of(received: Received) -> Receipt:
    """Read id and handle; Powertools' SQSRecord is a mapping like the plain record.

    Raises:
        MalformedMessageError: one of them is missing, so this was not received from SQS.
    """
    if isinstance(received, Message):
        receipt = Receipt(received.message_id, received.receipt_handle)
    else:
        receipt = Receipt(
            _text(received, "MessageId", "messageId"),
            _text(received, "ReceiptHandle", "receiptHandle"),
        )
    if not all(receipt):
        raise MalformedMessageError("message id and receipt handle: must be text, as SQS gave it")
    return receipt


def queue_url_of(client: "SQSClient", records: Sequence[Mapping[str, Any]]) -> str:
    """Ask SQS for the URL of the queue that a Lambda event's records came from.

    Needs ``sqs:GetQueueUrl``. All records of one event come from one queue.

    Raises:
        MalformedMessageError: the records name no queue, or several.
        QueueError: SQS does not say.
    """
    arns = {str(record.get("eventSourceARN")) for record in records}
    try:
        (address,) = {QueueAddress.from_arn(arn) for arn in arns}
    except ValueError as error:
        raise MalformedMessageError(
            "eventSourceARN: must be one queue's, on every record"
        ) from error
    try:
        answer = client.get_queue_url(
            QueueName=address.name, QueueOwnerAWSAccountId=address.account_id
        )
    except Exception as error:
        raise QueueError(f"asking for the URL of {address.name}: {error_code(error)}") from error
    return answer["QueueUrl"]


def _text(received: Mapping[str, Any], *names: str) -> str:
    values = (received.get(name) for name in names)
    return next((value for value in values if isinstance(value, str)), "")
