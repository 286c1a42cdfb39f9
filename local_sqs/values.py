"""A message: as a sender gives it, and as a queue keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from local_sqs.timers import Timer


class AttributeValue(NamedTuple):
    """A message attribute's type, and text or, for Binary, bytes."""

    data_type: str
    value: str | bytes


Attributes = Mapping[str, AttributeValue]


class Submission(NamedTuple):
    """What one SendMessage or one entry of a batch asks for.

    Attributes:
        delay_seconds: the message timer; None leaves it to the queue.
    """

    body: str
    attributes: Attributes = MappingProxyType({})
    group_id: str | None = None
    deduplication_id: str | None = None
    trace_header: str | None = None
    delay_seconds: int | None = None


class State(Enum):
    READY = auto()
    DELAYED = auto()
    IN_FLIGHT = auto()
    GONE = auto()


@dataclass(slots=True, eq=False)
class StoredMessage:
    """One message in a queue.

    Attributes:
        sent_ms: the SentTimestamp, where retention starts.
        order: its place within its FIFO group; the SequenceNumber.
        source_arn: the queue whose redrive policy moved it here.
        receive_count: over all queues; a move to a dead-letter queue keeps it.
        receives_here: in this queue alone.
        received_ms: the latest receive, where the 12 hours of visibility start.
        handle: of the latest receive; empty before the first.
        was_released: its latest receive ended by a visibility timeout set to 0.
        timer: ends its delay or its invisibility.
        expiry: ends its retention.
    """

    message_id: str
    body: str
    attributes: Attributes
    sent_ms: int
    order: int
    group_id: str | None = None
    deduplication_id: str | None = None
    trace_header: str | None = None
    source_arn: str | None = None
    receive_count: int = 0
    receives_here: int = 0
    first_received_ms: int = 0
    received_ms: int = 0
    handle: str = ""
    was_released: bool = False
    state: State = State.READY
    timer: "Timer[StoredMessage] | None" = None
    expiry: "Timer[StoredMessage] | None" = None
