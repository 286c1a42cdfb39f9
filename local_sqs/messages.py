"""Stored messages, their due times, and the order in which a queue delivers them."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class AttributeValue(NamedTuple):
    """A message attribute: its type, and its value (text, or bytes for Binary)."""

    data_type: str
    value: str | bytes


Attributes = Mapping[str, AttributeValue]


class State(Enum):
    READY = auto()
    DELAYED = auto()
    IN_FLIGHT = auto()
    GONE = auto()


@dataclass(slots=True, eq=False)
class StoredMessage:
    """One message, from its SendMessage on.

    Attributes:
        delay_seconds: the message timer; None: the delay of the queue.
        sent_ms: the SentTimestamp, at which retention starts.
        order: its position within its FIFO group; the SequenceNumber.
        source_arn: the queue whose redrive policy moved it here.
        receive_count: over all queues; a move to a dead-letter queue keeps it.
        received_ms: time of the latest receive, at which the limit of 12 hours starts.
        handle: of the latest receive; empty before the first.
        was_released: whether a visibility timeout of 0 ended its latest receive.
        due_ms: when its delay or its visibility timeout ends; None if it has none.
        expires_ms: when its retention ends; None if it is gone.
    """

    body: str
    attributes: Attributes = field(default_factory=dict)
    group_id: str | None = None
    deduplication_id: str | None = None
    trace_header: str | None = None
    delay_seconds: int | None = None
    message_id: str = ""
    sent_ms: int = 0
    order: int = 0
    source_arn: str | None = None
    receive_count: int = 0
    first_received_ms: int = 0
    received_ms: int = 0
    handle: str = ""
    was_released: bool = False
    state: State = State.READY
    due_ms: int | None = None
    expires_ms: int | None = None


class Timers:
    """Messages by due time, equal ones in the order of ``add``.

    An entry counts while *due_of* still returns its time; older entries of a message are dropped,
    at the latest when they are more than half of all. ``add`` and ``fire`` take O(log n).
    """

    def __init__(self, due_of: Callable[[StoredMessage], int | None]) -> None:
        self._due_of = due_of
        self._heap: list[tuple[int, int, StoredMessage]] = []
        self._count_added = 0
        self._compact_above = 64

    def add(self, message: StoredMessage) -> None:
        """Add a message whose due time is new."""
        due_ms = self._due_of(message)
        if due_ms is None:
            return
        self._count_added += 1
        heappush(self._heap, (due_ms, self._count_added, message))
        if len(self._heap) > self._compact_above:
            self._heap = [entry for entry in self._heap if self._due_of(entry[2]) == entry[0]]
            heapify(self._heap)
            self._compact_above = 64 + 2 * len(self._heap)

    def fire(self, now_ms: int) -> Iterator[StoredMessage]:
        """Remove and yield what is due at *now_ms*. The caller must end its due time at once."""
        while (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            yield heappop(self._heap)[2]

    def next_due_ms(self) -> int | None:
        """Return when the next message is due; None if there is none."""
        while self._heap and self._due_of(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None


@dataclass(slots=True)
class _Group:
    ready: list[tuple[int, StoredMessage]] = field(default_factory=list)
    in_flight_count: int = 0
    is_listed: bool = False

    def has_head(self) -> bool:
        while self.ready and self.ready[0][1].state is not State.READY:
            heappop(self.ready)
        return bool(self.ready)

    def is_open(self) -> bool:
        return self.in_flight_count == 0 and self.has_head()


class Delivery:
    """Follows the states of the messages of a queue, and yields those that may be received.

    A FIFO queue keeps the order in each message group; a group with a message in flight is blocked.
    One receive takes as many messages as possible of one group before the next group, as
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html
    describes. Groups take turns. Not modelled: SQS searches only the first 120,000 messages for
    groups that are not blocked.

    SQS promises no order on a standard queue. Here each message is a group of its own: the oldest
    comes first, and one that is visible again goes to the end. Every operation is O(log n).
    """

    def __init__(self, *, is_fifo: bool) -> None:
        self._is_fifo = is_fifo
        self._groups: dict[str, _Group] = {}
        self._open: deque[str] = deque()

    def _name(self, message: StoredMessage) -> str:
        return message.group_id or "" if self._is_fifo else message.message_id

    def became_ready(self, message: StoredMessage) -> None:
        """Note that a message became visible: it was sent, or its delay or timeout ended."""
        name = self._name(message)
        group = self._groups.setdefault(name, _Group())
        heappush(group.ready, (message.order, message))
        self._list(name, group)

    def was_handed_out(self, message: StoredMessage) -> None:
        """Note that a message is in flight."""
        self._groups[self._name(message)].in_flight_count += 1

    def came_back(self, message: StoredMessage) -> None:
        """Note that a message is not in flight any longer: visible again, or deleted."""
        name = self._name(message)
        group = self._groups[name]
        group.in_flight_count -= 1
        self._list(name, group)
        self._forget_if_empty(name, group)

    def offers(self) -> Iterator[StoredMessage]:
        """Remove and yield ready messages. The caller must change the state of each at once."""
        while self.has_offers():
            name = self._open.popleft()
            group = self._groups[name]
            group.is_listed = False
            while group.has_head():
                yield heappop(group.ready)[1]
            self._forget_if_empty(name, group)

    def has_offers(self) -> bool:
        """Return whether ``offers`` would yield a message."""
        while self._open and not self._groups[self._open[0]].is_open():
            name = self._open.popleft()
            group = self._groups[name]
            group.is_listed = False
            self._forget_if_empty(name, group)
        return bool(self._open)

    def _list(self, name: str, group: _Group) -> None:
        if not group.is_listed and group.is_open():
            group.is_listed = True
            self._open.append(name)

    def _forget_if_empty(self, name: str, group: _Group) -> None:
        if not group.ready and not group.in_flight_count and not group.is_listed:
            self._groups.pop(name, None)
