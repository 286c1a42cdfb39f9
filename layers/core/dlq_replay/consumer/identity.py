"""Reads a message's id, and the first id, which it keeps through replay and redrive."""

from collections.abc import Mapping
from typing import Any, Protocol

from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import CONTEXT_ATTRIBUTE
from dlq_replay.errors import MalformedMessageError
from dlq_replay.message import Message


class ParsedRecord(Protocol):
    """A pydantic model that Powertools' parser made of a record."""

    def model_dump(self, *, include: frozenset[str]) -> Mapping[str, Any]:
        """Return some of its fields, as in the event."""


Received = Message | Mapping[str, Any] | ParsedRecord
"""A core Message, a message of a ReceiveMessage answer, or a record of a Lambda event.

A record is a plain mapping, Powertools' SQSRecord (also a mapping), or a parsed model.
"""


def first_id(received: Received) -> str:
    """Return the SQS message id of the first copy of a message. It identifies the message.

    Each replay and each redrive makes a new copy with a new id, and stores the first one in
    ``sqs-dlq-context``. For a copy without a readable context (the first copy, or one with no room
    for the context) this is its own id.

    A poller receives the context only if its ReceiveMessage requests it:
    ``MessageAttributeNames=["All"]``, or at least ``["sqs-dlq-context"]``.

    Args:
        received: a Lambda record (plain, Powertools' or its parser's model), a ReceiveMessage
            dict or a core Message.

    Raises:
        MalformedMessageError: it has no message id, so it did not come from SQS.
    """
    if isinstance(received, Message):
        return received.first_id
    message_id = message_id_of(received)
    if message_id is None:
        raise MalformedMessageError("message id: must be text, as SQS gave it")
    return Message(message_id, "", _context_of(received)).first_id


def message_id_of(record: object) -> str | None:
    """Return the message id of any form of message, None if there is none. Never raises.

    Also takes a message of a boto3 resource.
    """
    return _text_of(record, "messageId", "MessageId", "message_id")


def receipt_handle_of(record: object) -> str | None:
    """Return the receipt handle, None if there is none. Never raises."""
    return _text_of(record, "receiptHandle", "ReceiptHandle", "receipt_handle")


def _text_of(record: object, *names: str) -> str | None:
    for name in names:
        try:
            value = record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)
        except Exception:  # noqa: BLE001, S112 - a model's attribute may do anything
            continue
        if isinstance(value, str) and value:
            return value
    return None


def _context_of(received: Mapping[str, Any] | ParsedRecord) -> dict[str, MessageAttribute]:
    """Read the context alone, so that a fault in another attribute does not matter."""
    if not isinstance(received, Mapping):
        received = received.model_dump(include=frozenset({"messageAttributes"}))
    attributes = received.get("MessageAttributes", received.get("messageAttributes"))
    raw = attributes.get(CONTEXT_ATTRIBUTE) if isinstance(attributes, Mapping) else None
    is_api = "MessageAttributes" in received
    read = MessageAttribute.from_api if is_api else MessageAttribute.from_lambda
    try:
        return {CONTEXT_ATTRIBUTE: read(CONTEXT_ATTRIBUTE, raw)} if raw is not None else {}
    except (MalformedMessageError, AttributeError, TypeError):
        return {}
