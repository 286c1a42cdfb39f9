"""The id that a message keeps through replay and redrive. Standard library only."""

from collections.abc import Mapping
from typing import Any

from dlq_replay.attributes import MessageAttribute
from dlq_replay.consumer.receipts import Received, fields_of
from dlq_replay.context import CONTEXT_ATTRIBUTE
from dlq_replay.errors import MalformedMessageError
from dlq_replay.message import Message


def first_id(received: Received) -> str:
    """The SQS message id of the first copy of a message: what to recognise it by.

    Each replay and each redrive makes a new copy with an id of its own, and carries the first
    one along in ``sqs-dlq-context``. A copy without a context that can be read (the first one,
    or one with no room for it) has its own id.

    A poller sees the context only if its ReceiveMessage asks for it:
    ``MessageAttributeNames=["All"]``, or ``["sqs-dlq-context"]`` at least.

    Args:
        received: a Lambda record (plain, Powertools' or its parser's model), a ReceiveMessage
            dict or a core Message.

    Raises:
        MalformedMessageError: it has no message id, so it did not come from SQS.
    """
    if isinstance(received, Message):
        return received.first_id
    return _with_context_alone(fields_of(received)).first_id


def _with_context_alone(fields: Mapping[str, Any]) -> Message:
    """The message as far as its identity goes: no other attribute can spoil it."""
    is_record = "messageId" in fields
    message_id = fields.get("messageId" if is_record else "MessageId")
    if not isinstance(message_id, str) or not message_id:
        raise MalformedMessageError("message id: must be text, as SQS gave it")
    attributes = fields.get("messageAttributes" if is_record else "MessageAttributes")
    raw = attributes.get(CONTEXT_ATTRIBUTE) if isinstance(attributes, Mapping) else None
    read = MessageAttribute.from_lambda if is_record else MessageAttribute.from_api
    try:
        context = {CONTEXT_ATTRIBUTE: read(CONTEXT_ATTRIBUTE, raw)} if raw is not None else {}
    except (MalformedMessageError, AttributeError, TypeError):
        context = {}
    return Message(message_id, "", context)
