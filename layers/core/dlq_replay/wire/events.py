"""Reads the records of a Lambda event. Pure.

An event source mapping sends ``{"Records": [...]}``, an EventBridge Pipe a bare array of the same
records.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dlq_replay.errors import MalformedEventError, MalformedMessageError
from dlq_replay.wire.message import Message


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record with a message id that otherwise cannot be read. It is left in the queue.

    Attributes:
        message_group_id: its FIFO message group, if it can be read. The group must wait for it.
    """

    message_id: str
    fault: str
    message_group_id: str | None = None


def read_event(event: object) -> list[Message | UnreadableRecord]:
    """Read every record of *event*, in order.

    Raises:
        MalformedEventError: the event is not from SQS, or a record has no messageId. A record
            without an id cannot be reported as failed, and a record that is not reported is
            deleted. So the whole event fails, before any message is sent or deleted.
    """
    records = event.get("Records") if isinstance(event, Mapping) else event
    if not isinstance(records, list):
        raise MalformedEventError(
            'not an SQS event: must be {"Records": [...]} of an event source mapping, '
            "or the bare array of an EventBridge Pipe"
        )
    return [_read_record(index, record) for index, record in enumerate(records)]


def _read_record(index: int, record: object) -> Message | UnreadableRecord:
    if not isinstance(record, Mapping) or record.get("eventSource") != "aws:sqs":
        raise MalformedEventError(f"not an SQS event: record {index} has no eventSource aws:sqs")
    message_id = record.get("messageId")
    if not isinstance(message_id, str) or not message_id:
        raise MalformedEventError(f"not an SQS event: record {index} has no messageId")
    try:
        return Message.from_received(record)
    except MalformedMessageError as error:
        system = record.get("attributes")
        group = system.get("MessageGroupId") if isinstance(system, Mapping) else None
        return UnreadableRecord(message_id, str(error), group if isinstance(group, str) else None)
