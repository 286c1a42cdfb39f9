"""A message as it is sent, and as a queue stores it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from local_sqs.timers import Timer


class AttributeValue(NamedTuple):
    """A message attribute: its type, and its value (text, or bytes for Binary)."""

    data_type: str
    value: str | bytes


Attributes = Mapping[str, AttributeValue]


class Submission(NamedTuple):
    """The content of a SendMessage, or of one entry of a batch.

    Attributes:
        delay_seconds: the message timer; None: the delay of the queue.
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
        sent_ms: the SentTimestamp, at which retention starts.
        order: its position within its FIFO group; the SequenceNumber.
        source_arn: the queue whose redrive policy moved it here.
        receive_count: over all queues; a move to a dead-letter queue keeps it.
        receives_here: in this queue alone.
        received_ms: time of the latest receive, at which the limit of 12 hours starts.
        handle: of the latest receive; empty before the first.
        was_released: whether a visibility timeout of 0 ended its latest receive.
        timer: ends its delay or its visibility timeout.
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
