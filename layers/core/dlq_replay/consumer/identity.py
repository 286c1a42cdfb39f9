"""Reads a message's id, and the first id, which it keeps through replay and redrive."""

from collections.abc import Mapping
from typing import Any, Protocol

from dlq_replay.errors import MalformedMessageError
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE
from dlq_replay.wire.message import Message


class ParsedRecord(Protocol):
    """A pydantic model that Powertools' parser made of a record."""

    def model_dump(self, *, include: frozenset[str]) -> Mapping[str, Any]:
        """Return some of its fields, as in the event."""


_Foreign = Mapping[str, Any] | ParsedRecord
Received = Message | _Foreign
"""A core Message, a message of a ReceiveMessage answer, or a Lambda record.

A record is a plain mapping, Powertools' SQSRecord (also a mapping), or a parsed model.
"""


def first_id(received: Received) -> str:
    """Return the SQS message id of the first copy of a message. It identifies the message.

    Each replay and each redrive makes a new copy with a new id, and stores the first one in
    ``sqs-dlq-context``. For a copy without a readable context (the first copy, or one with no room
    for the context) this is its own id; also where a consumer passed the attributes of one message
    on to another body. A message with the same body and these attributes counts as a copy. SQS's
    MD5 of the body counts, whatever a client library put in place of the body since.

    A poller receives the context only if its ReceiveMessage requests it:
    ``MessageAttributeNames=["All"]``, or at least ``["sqs-dlq-context"]``.

    Raises MalformedMessageError if it has no message id, so did not come from SQS.
    """
    if isinstance(received, Message):
        return received.first_id
    message_id = message_id_of(received)
    if message_id is None:
        raise MalformedMessageError("message id: must be text, as SQS gave it")
    body = text_of(received, "body", "Body") or ""
    md5_of_body = text_of(received, "md5OfBody", "MD5OfBody") or ""
    return Message(message_id, body, _context_of(received), md5_of_body=md5_of_body).first_id


def message_id_of(record: object) -> str | None:
    """Return the message id of any form of message, None if there is none. Never raises."""
    return text_of(record, "messageId", "MessageId", "message_id")


def text_of(record: object, *names: str) -> str | None:
    """Return the first of these fields that is text, None if there is none. Never raises."""
    for name in names:
        try:
            value = record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)
        except Exception:  # noqa: BLE001, S112 - a model's attribute may do anything
            continue
        if isinstance(value, str) and value:
            return value
    return None


def _context_of(received: _Foreign) -> dict[str, MessageAttribute]:
    """Read the context alone, so that a fault in another attribute does not matter."""
    if hasattr(received, "model_dump"):
        received = received.model_dump(include=frozenset({"messageAttributes"}))
    attributes = received.get("messageAttributes", received.get("MessageAttributes"))
    raw = attributes.get(CONTEXT_ATTRIBUTE) if isinstance(attributes, Mapping) else None
    try:
        return {CONTEXT_ATTRIBUTE: MessageAttribute.from_received(CONTEXT_ATTRIBUTE, raw)}
    except MalformedMessageError:
        return {}
