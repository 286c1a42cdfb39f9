"""A Lambda event, record by record: what can be read, and what cannot. Pure.

Two forms bring SQS messages: an event source mapping sends ``{"Records": [...]}``, an EventBridge
Pipe a bare array of the same records.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlq_replay.errors import MalformedEventError, MalformedMessageError
from dlq_replay.message import Message


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record that has an id, so that it can be left in the queue, but is no message.

    Attributes:
        message_group_id: its FIFO group, where even that can be read; the group must wait with it.
    """

    message_id: str
    fault: str
    message_group_id: str | None = None


def read_event(event: object) -> list[Message | UnreadableRecord]:
    """Read every record of *event*, in order.

    Raises:
        MalformedEventError: the event is not from SQS, or a record has no messageId. Without an
            id a record cannot be reported as failed by itself, and answering without it would
            delete it; so the whole event fails, before anything was touched.
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
