"""Message id and receipt handle, in whatever shape a message comes; and the queue of a record."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dlq_replay.addresses import QueueAddress
from dlq_replay.consumer.visibility import error_code
from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.message import Message

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_FIELDS = frozenset({"messageId", "receiptHandle", "messageAttributes"})


class ParsedRecord(Protocol):
    """A record of which Powertools' parser made a pydantic model."""

    def model_dump(self, *, include: frozenset[str]) -> Mapping[str, Any]:
        """Some of its fields, as they stood in the event."""


Received = Message | Mapping[str, Any] | ParsedRecord
"""A core Message, a message of a ReceiveMessage answer, or a record of a Lambda event.

The record may be plain, Powertools' SQSRecord, which is a mapping too, or a parsed model.
"""


class Receipt(NamedTuple):
    """One receive of one message."""

    message_id: str
    receipt_handle: str


def receipt_of(received: Received) -> Receipt:
    """Read id and handle.

    Raises:
        MalformedMessageError: one of them is missing, so this was not received from SQS.
    """
    if isinstance(received, Message):
        receipt = Receipt(received.message_id, received.receipt_handle)
    else:
        fields = fields_of(received)
        receipt = Receipt(
            _text(fields, "MessageId", "messageId"), _text(fields, "ReceiptHandle", "receiptHandle")
        )
    if not all(receipt):
        raise MalformedMessageError("message id and receipt handle: must be text, as SQS gave it")
    return receipt


def fields_of(received: Mapping[str, Any] | ParsedRecord) -> Mapping[str, Any]:
    """Read what may tell who a message is."""
    return received if isinstance(received, Mapping) else received.model_dump(include=_FIELDS)


def message_id_of(record: object) -> str | None:
    """Read the message id of anything that may be a message; None where there is none.

    Takes a message of a boto3 resource, too. Never raises.
    """
    for name in ("messageId", "MessageId", "message_id"):
        try:
            value = record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)
        except Exception:  # noqa: BLE001, S112 - a model's attribute may do anything
            continue
        if isinstance(value, str) and value:
            return value
    return None


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


def _text(fields: Mapping[str, Any], *names: str) -> str:
    values = (fields.get(name) for name in names)
    return next((value for value in values if isinstance(value, str)), "")
