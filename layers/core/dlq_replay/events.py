"""Reads the records of a Lambda event. Pure.

An event source mapping sends ``{"Records": [...]}``, an EventBridge Pipe a bare array of the same
records.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlq_replay.errors import MalformedEventError, MalformedMessageError
from dlq_replay.message import Message


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
    return list(_read_records(_records(event)))


def _records(event: object) -> Sequence[Any]:
    records = event.get("Records") if isinstance(event, Mapping) else event
    if not isinstance(records, list):
        raise MalformedEventError(
            'not an SQS event: must be {"Records": [...]} of an event source mapping, '
            "or the bare array of an EventBridge Pipe"
        )
    return records


def _read_records(records: Sequence[Any]) -> Iterator[Message | UnreadableRecord]:
    for index, record in enumerate(records):
        message_id = _identify(index, record)
        try:
            yield Message.from_lambda_record(record)
        except MalformedMessageError as error:
            yield UnreadableRecord(message_id, str(error), _group_of(record))


def _identify(index: int, record: object) -> str:
    if not isinstance(record, Mapping) or record.get("eventSource") != "aws:sqs":
        raise MalformedEventError(f"not an SQS event: record {index} has no eventSource aws:sqs")
    message_id = record.get("messageId")
    if not isinstance(message_id, str) or not message_id:
        raise MalformedEventError(f"not an SQS event: record {index} has no messageId")
    return message_id


def _group_of(record: Mapping[str, Any]) -> str | None:
    system = record.get("attributes")
    group = system.get("MessageGroupId") if isinstance(system, Mapping) else None
    return group if isinstance(group, str) else None
