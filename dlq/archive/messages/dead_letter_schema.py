"""One row of the archive: a parked copy with typed attributes. Pure.

The row keeps all that SQS returned: ``from_row(to_row(m)) == m``, except for the receipt handle.
More columns are derived from it for queries.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from dlq.archive.messages.self_description import stated_error, stated_kind
from dlq.figures import UNKNOWN
from dlq_replay.errors import MalformedMessageError
from dlq_replay.rules.decision import ParkReason
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import body_digest
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message

Row = dict[str, Any]

_TIME = pa.timestamp("us", tz="UTC")
_ATTRIBUTE = pa.struct(
    [
        ("data_type", pa.string()),
        ("string_value", pa.string()),
        ("binary_value", pa.binary()),
    ]
)

_TEXTS = {
    "message_group_id": "MessageGroupId",
    "deduplication_id": "MessageDeduplicationId",
    "sequence_number": "SequenceNumber",
    "trace_header": "AWSTraceHeader",
    "source_arn": "DeadLetterQueueSourceArn",
    "sender_id": "SenderId",
}
_TIMES = {"sent_at": "SentTimestamp", "first_received_at": "ApproximateFirstReceiveTimestamp"}

_FIELDS: list["pa.Field[Any]"] = [
    pa.field("message_id", pa.string(), nullable=False),
    pa.field("first_id", pa.string(), nullable=False),
    pa.field("body", pa.string(), nullable=False),
    pa.field("attributes", pa.map_(pa.string(), _ATTRIBUTE)),
    pa.field("message_group_id", pa.string()),
    pa.field("deduplication_id", pa.string()),
    pa.field("sequence_number", pa.string()),
    pa.field("trace_header", pa.string()),
    pa.field("source_arn", pa.string()),
    pa.field("sender_id", pa.string()),
    pa.field("sent_at", _TIME),
    pa.field("first_received_at", _TIME),
    pa.field("receive_count", pa.int32()),
    pa.field("replay_count", pa.int64()),
    pa.field("first_seen_at", _TIME),
    pa.field("parked_reason", pa.string()),
    pa.field("error_type", pa.string()),
    pa.field("error_code", pa.string()),
    pa.field("error_message", pa.string()),
    pa.field("error_place", pa.string()),
    pa.field("plan_id", pa.string()),
    pa.field("source_queue", pa.string()),
    pa.field("last_id", pa.string()),
    pa.field("stated_kind", pa.string()),
    pa.field("body_bytes", pa.int64()),
    pa.field("queue_url", pa.string()),
    pa.field("drained_at", _TIME),
]
ARROW_SCHEMA = pa.schema(_FIELDS)
"""The columns of a Parquet file of the archive."""

READ_SCHEMA = ARROW_SCHEMA.append(pa.field("drain_id", pa.string()))
READ_COLUMNS = tuple(READ_SCHEMA.names)
"""The columns that a condition over the archive may name: a read adds the id of the drain."""

ORDER_COLUMNS = ("message_id", "message_group_id", "sequence_number", "sent_at")
"""The columns that decide a message's place in its message group."""

SENDING_COLUMNS = ("message_id", "body", "attributes", "message_group_id", "trace_header")
"""The content of a copy of a message; the rest of a row is for people and for the analysis."""

_RECEIVE_COUNT = "ApproximateReceiveCount"

_EPOCH = datetime.fromtimestamp(0, UTC)
_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_LAST_MILLISECOND = 253_402_300_799_999
"""Of year 9999, where Python's and Spark's calendars end."""

_REASONS = frozenset(ParkReason)


def to_row(message: Message, queue_url: str, drained_at: datetime) -> Row:
    """Return *message* as a row. A value that cannot be read becomes null, never an error.

    Raises:
        MalformedMessageError: a text is not valid Unicode, which Parquet cannot hold. SQS accepts
            no such text, so this is a fault of a replacement of SQS.
    """
    system = message.system
    history = message.history
    context = history.context

    row: Row = {
        "message_id": message.message_id,
        "first_id": message.first_id,
        "body": message.body,
        "attributes": {name: _attribute(value) for name, value in message.attributes.items()},
        "receive_count": _whole(system.get(_RECEIVE_COUNT), _INT32_MAX),
        "replay_count": _at_most(_INT64_MAX, history.replay_count),
        "parked_reason": _parked_reason(message),
        "plan_id": context.plan_id,
        "source_queue": context.source_queue,
        "last_id": context.last_id,
        "stated_kind": stated_kind(message.attributes),
        "body_bytes": _body_bytes(message),
        "queue_url": queue_url,
        "drained_at": drained_at,
    }
    for column, name in _TEXTS.items():
        row[column] = system.get(name)
    for column, name in _TIMES.items():
        row[column] = _time(_whole(system.get(name), _LAST_MILLISECOND))

    first_seen = context.first_seen_seconds
    row["first_seen_at"] = _time(_at_most(_LAST_MILLISECOND, first_seen and first_seen * 1000))

    error = context.error or stated_error(message.body, message.attributes)
    row["error_type"] = (error.type or None) if error else None
    row["error_code"] = error.code if error else None
    row["error_message"] = error.message.encode("utf-8", "replace").decode() if error else None
    row["error_place"] = (error.place or None) if error else None
    return row


def _parked_reason(message: Message) -> str | None:
    """Return a ``ParkReason``, or ``UNKNOWN`` for any other text, which its producer wrote.

    None for a message without a reason: SQS's own redrive policy moved it, or it was sent directly.

    A copy with a counter that SQS did not move was parked by the replay function, and had no room
    for the context with the reason: it has ten attributes, or nearly the greatest size.
    """
    reason = message.history.context.reason
    if reason:
        return reason if reason in _REASONS else UNKNOWN
    is_moved_by_sqs = message.source_arn is not None
    has_counter = REPLAY_COUNT_ATTRIBUTE in message.attributes
    return UNKNOWN if has_counter and not is_moved_by_sqs else None


def from_row(row: Mapping[str, Any]) -> Message:
    """Restore the message that a row was made of, without its receipt handle.

    *row* is as Arrow's ``to_pylist`` returns it: a map is a list of pairs. Of a row with
    ``SENDING_COLUMNS`` alone it makes a message that can be sent; other values of SQS are missing.
    """
    system = dict[str, str]()
    for column, name in _TEXTS.items():
        text = row.get(column)
        if text is not None:
            system[name] = text
    for column, name in _TIMES.items():
        time = row.get(column)
        if time is not None:
            seconds = int(time.replace(microsecond=0).timestamp())
            system[name] = str(seconds * 1000 + time.microsecond // 1000)
    count = row.get("receive_count")
    if count is not None:
        system[_RECEIVE_COUNT] = str(count)

    return Message(
        message_id=row["message_id"],
        body=row["body"],
        attributes={name: _from_attribute(value) for name, value in row["attributes"] or ()},
        system=system,
        md5_of_body=body_digest(row["body"]),  # Its first digits: nothing needs more.
    )


def to_table(rows: list[Row]) -> pa.Table:
    """Return the table that one Parquet file holds."""
    return pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)


def _attribute(attribute: MessageAttribute) -> Row:
    is_text = isinstance(attribute.value, str)
    return {
        "data_type": attribute.data_type,
        "string_value": attribute.value if is_text else None,
        "binary_value": None if is_text else attribute.value,
    }


def _from_attribute(value: Mapping[str, Any]) -> MessageAttribute:
    text = value["string_value"]
    return MessageAttribute(value["data_type"], value["binary_value"] if text is None else text)


def _whole(text: str | None, limit: int) -> int | None:
    number = int(text) if text is not None and _WHOLE_NUMBER.fullmatch(text) else None
    return _at_most(limit, number)


def _at_most(limit: int, number: int | None) -> int | None:
    return number if number is not None and number <= limit else None


def _time(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)


def _body_bytes(message: Message) -> int:
    """Return the size of the body in UTF-8, if this and all other texts have one."""
    texts = [message.message_id, *message.system.values()]
    for name, attribute in message.attributes.items():
        texts += [name, attribute.data_type]
        if isinstance(attribute.value, str):
            texts.append(attribute.value)
    try:
        "".join(texts).encode()
        return len(message.body.encode())
    except UnicodeEncodeError as error:
        raise MalformedMessageError(
            f"message {message.message_id}: holds text that is no Unicode"
        ) from error
