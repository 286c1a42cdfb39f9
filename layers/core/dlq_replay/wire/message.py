"""A received copy, the records of a Lambda event, and an entry to send. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from dlq_replay.errors import MalformedEventError, MalformedMessageError
from dlq_replay.wire.attributes import Attributes, MessageAttribute, size_bytes
from dlq_replay.wire.context import (
    CONTEXT_ATTRIBUTE,
    InheritedContextError,
    ReplayContext,
    body_digest,
)

REPLAY_COUNT_ATTRIBUTE = "sqs-dlq-replay-nb"
"""The same name and meaning as in the public app ``amazon-sqs-dlq-replay-backoff``."""

_COUNT = re.compile(r"[0-9]{1,38}")
"""SQS keeps 38 digits of a Number."""

_LAMBDA_NAMES = "messageId", "body", "messageAttributes", "attributes", "receiptHandle", "md5OfBody"
_API_NAMES = "MessageId", "Body", "MessageAttributes", "Attributes", "ReceiptHandle", "MD5OfBody"


class History(NamedTuple):
    """The content of a copy's two attributes.

    Attributes:
        replay_count: the value of the counter, which the rules use; 0 if the attribute is absent,
            None if it is not a whole number of at least 0.
        context: empty if it is absent, cannot be read or is inherited.
        fault: why the context does not count, for the log; else None.
        is_inherited: whether a consumer passed both attributes on to this message from another.
            Neither counts then: the replay count is 0.
    """

    replay_count: int | None
    context: ReplayContext
    fault: str | None = None
    is_inherited: bool = False

    @classmethod
    def of(cls, attributes: Attributes, digest: Callable[[], str]) -> Self:
        """Read both attributes. Never raises: a malformed context counts as absent.

        *digest* returns the ``body_digest`` of the copy.
        """
        counter = attributes.get(REPLAY_COUNT_ATTRIBUTE)
        number = counter.value if counter else "0"
        count = int(number) if isinstance(number, str) and _COUNT.fullmatch(number) else None
        attribute = attributes.get(CONTEXT_ATTRIBUTE)
        if attribute is None:
            return cls(count, ReplayContext())
        if not isinstance(attribute.value, str):
            return cls(count, ReplayContext(), f"{CONTEXT_ATTRIBUTE}: must be of type String")
        try:
            return cls(count, ReplayContext.from_json(attribute.value, digest))
        except InheritedContextError as error:
            return cls.inherited(str(error))
        except ValueError as error:
            return cls(count, ReplayContext(), fault=f"{CONTEXT_ATTRIBUTE}: {error}")

    @classmethod
    def inherited(cls, why: str) -> Self:
        """Return that of a message whose attributes came from another message."""
        return cls(0, ReplayContext(), f"{CONTEXT_ATTRIBUTE}: {why}", is_inherited=True)


@dataclass(slots=True)  # Frozen, it would take twice as long to make. Nobody changes one.
class Message:
    """One SQS message as it was received.

    Attributes:
        message_id: SQS's id of this copy; each re-send gets another.
        body: the producer's text.
        attributes: the message attributes by name, ours included.
        system: SQS's own attributes by name (``SentTimestamp``, ``MessageGroupId``, ...).
        receipt_handle: needed to delete this receive; empty where it is not needed.
        md5_of_body: as SQS gave it, in hex, or its first eight digits; empty if not known.
        history: the content of our own attributes.
    """

    message_id: str
    body: str
    attributes: Attributes = field(default_factory=dict)
    system: Mapping[str, str] = field(default_factory=dict)
    receipt_handle: str = ""
    md5_of_body: str = field(default="", compare=False, repr=False)
    history: History = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Read our own attributes once."""
        self.history = History.of(self.attributes, lambda: self.body_digest)

    @classmethod
    def from_received(cls, received: Mapping[str, Any]) -> Self:
        """Read a record of a Lambda event, or a message of a ReceiveMessage answer.

        Raises:
            MalformedMessageError: id or body is missing, or an attribute is unreadable.
        """
        names = _API_NAMES if "MessageId" in received else _LAMBDA_NAMES
        message_id, body, attributes, system, receipt_handle, md5_of_body = names
        read = MessageAttribute.from_received
        raw_attributes = _mapping(received, attributes).items()
        return cls(
            message_id=_required_text(received, message_id),
            body=_required_text(received, body),
            attributes={name: read(name, raw) for name, raw in raw_attributes},
            system={name: str(value) for name, value in _mapping(received, system).items()},
            receipt_handle=str(received.get(receipt_handle, "")),
            md5_of_body=str(received.get(md5_of_body, "")),
        )

    def with_history(self, history: History) -> Self:
        """Return the message with *history* in place of that of its attributes."""
        message = replace(self)
        message.history = history
        return message

    @property
    def body_digest(self) -> str:
        """The digest that ties the context to this body."""
        return body_digest(self.body, self.md5_of_body)

    @property
    def first_id(self) -> str:
        """The id of the first copy; this copy's own id if the context has none."""
        return self.history.context.first_id or self.message_id

    @property
    def message_group_id(self) -> str | None:
        """The FIFO message group, or the tenant of a fair queue."""
        return self.system.get("MessageGroupId")

    @property
    def source_arn(self) -> str | None:
        """ARN of the queue whose redrive policy moved it here; None if it was sent here."""
        return self.system.get("DeadLetterQueueSourceArn")

    @property
    def due_seconds(self) -> int | None:
        """The end of a held copy's wait, epoch seconds; None on every other copy.

        The function sends held copies to the DLQ. A copy that SQS moved there is none, whatever its
        context says: a producer wrote that, or a message move task brought a held copy elsewhere.
        """
        due = self.history.context.due_seconds
        return due if due is None or self.source_arn is None else None

    @property
    def failed_id(self) -> str:
        """The id of the copy that the consumer saw last, and recorded a failure of.

        That is this copy's own, unless it is held: then its context names the copy before it.
        """
        last_id = self.history.context.last_id
        return last_id if last_id is not None and self.due_seconds is not None else self.message_id

    @property
    def sent_seconds(self) -> float | None:
        """The time when this copy was sent (in a FIFO DLQ: moved there); epoch seconds."""
        milliseconds = self._number("SentTimestamp")
        return None if milliseconds is None else milliseconds / 1000

    @property
    def receive_count(self) -> int | None:
        """The number of its receives, in its source queue too; None where SQS does not say."""
        return self._number("ApproximateReceiveCount")

    def _number(self, name: str) -> int | None:
        text = self.system.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None  # noqa: PLR2004

    @property
    def trace_header(self) -> str | None:
        """The X-Ray header without its ``Lineage`` part; None if nothing else is left.

        Lambda counts loops in Lineage and stops messages after about 16. Our replay loop has its
        own limit, and one header for a batch would add the loops of one message to another.
        """
        header = self.system.get("AWSTraceHeader")
        if not header:
            return None
        parts = header.split(";")
        others = [part for part in parts if part and not part.strip().startswith("Lineage=")]
        return ";".join(others) or None


class SendEntry(NamedTuple):
    """One message to send; it has no entry id yet.

    Attributes:
        delay_seconds: message timer, 0 to 900; None sends no timer, which FIFO queues require.
        deduplication_id: FIFO queues only, at most 128 characters.
    """

    body: str
    attributes: Attributes = {}  # noqa: RUF012 - its type has no way to change it
    message_group_id: str | None = None
    deduplication_id: str | None = None
    trace_header: str | None = None
    delay_seconds: int | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes that SQS counts against the limits of message and batch.

        The trace header is free.
        """
        return size_bytes(self.body, self.attributes)

    def to_api(self, entry_id: str) -> dict[str, Any]:
        """Return an entry of SendMessageBatch, without the fields that are not set."""
        entry: dict[str, Any] = {"Id": entry_id, "MessageBody": self.body}
        if self.attributes:
            entry["MessageAttributes"] = {n: a.to_api() for n, a in self.attributes.items()}
        if self.message_group_id is not None:
            entry["MessageGroupId"] = self.message_group_id
        if self.deduplication_id is not None:
            entry["MessageDeduplicationId"] = self.deduplication_id
        if self.trace_header:
            header = {"DataType": "String", "StringValue": self.trace_header}
            entry["MessageSystemAttributes"] = {"AWSTraceHeader": header}
        if self.delay_seconds is not None:
            entry["DelaySeconds"] = self.delay_seconds
        return entry


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record with a message id that otherwise cannot be read. It is left in the queue.

    Its FIFO message group must wait for it, if that can be read.
    """

    message_id: str
    fault: str
    message_group_id: str | None = None


def read_event(event: object) -> list[Message | UnreadableRecord]:
    """Read every record of *event*, of an event source mapping or an EventBridge Pipe, in order.

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
    if not isinstance(record, dict) or record.get("eventSource") != "aws:sqs":
        raise MalformedEventError(f"not an SQS event: record {index} has no eventSource aws:sqs")
    message_id = record.get("messageId")
    if not isinstance(message_id, str) or not message_id:
        raise MalformedEventError(f"not an SQS event: record {index} has no messageId")
    return read_record(message_id, record)


def read_record(message_id: str, received: Mapping[str, Any]) -> Message | UnreadableRecord:
    """Read a record of an event, or a message of a ReceiveMessage answer, that has this id."""
    try:
        return Message.from_received(received)
    except MalformedMessageError as error:
        system = received.get("attributes", received.get("Attributes"))
        group = system.get("MessageGroupId") if isinstance(system, Mapping) else None
        return UnreadableRecord(message_id, str(error), group if isinstance(group, str) else None)


def event_source(event: object) -> str:
    """Return the ARN of the queue that all records of *event* came from; *event* as ``read_event``.

    Raises:
        MalformedEventError: as ``read_event``; or they name no queue, or not one and the same.
    """
    read_event(event)
    records: Any = event.get("Records") if isinstance(event, Mapping) else event
    arns = {record.get("eventSourceARN") for record in records}
    if len(arns) != 1 or not isinstance(arn := arns.pop(), str):
        raise MalformedEventError("not an event of one queue: eventSourceARN must be the same")
    return arn


def _required_text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedMessageError(f"{name}: must be text of at least one character")
    return value


def _mapping(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = raw.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedMessageError(f"{name}: must be an object")
    return value
