"""The order in which a standard queue and a FIFO queue deliver messages."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from local_sqs.values import State, StoredMessage


class Delivery(Protocol):
    """Follows the states of the messages of a queue, and yields those that may be received."""

    def became_ready(self, message: StoredMessage) -> None:
        """Note that a message became visible: it was sent, or its delay or timeout ended."""

    def was_handed_out(self, message: StoredMessage) -> None:
        """Note that a message is in flight."""

    def came_back(self, message: StoredMessage) -> None:
        """Note that a message is not in flight any longer: visible again, or deleted."""

    def offers(self) -> Iterator[StoredMessage]:
        """Remove and yield ready messages. The caller must change the state of each at once."""

    def has_offers(self) -> bool:
        """Return whether ``offers`` would yield a message."""


class StandardDelivery:
    """Yields the oldest ready message first; a message that is visible again goes to the end.

    SQS promises no order on a standard queue. Every operation is amortised constant.
    """

    def __init__(self) -> None:
        self._ready: deque[StoredMessage] = deque()

    def became_ready(self, message: StoredMessage) -> None:
        self._ready.append(message)

    def was_handed_out(self, message: StoredMessage) -> None:
        pass

    def came_back(self, message: StoredMessage) -> None:
        pass

    def offers(self) -> Iterator[StoredMessage]:
        while self.has_offers():
            yield self._ready.popleft()

    def has_offers(self) -> bool:
        while self._ready and self._ready[0].state is not State.READY:
            self._ready.popleft()
        return bool(self._ready)


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


class FifoDelivery:
    """Keeps the order in each message group; a group with a message in flight is blocked.

    One receive takes as many messages as possible of one group before the next group, as
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html
    describes. Groups take turns. Every operation is O(log n). Not modelled: SQS searches only the
    first 120,000 messages for groups that are not blocked.
    """

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._open: deque[str] = deque()

    def became_ready(self, message: StoredMessage) -> None:
        group = self._groups.setdefault(message.group_id or "", _Group())
        heappush(group.ready, (message.order, message))
        self._list(message, group)

    def was_handed_out(self, message: StoredMessage) -> None:
        self._groups[message.group_id or ""].in_flight_count += 1

    def came_back(self, message: StoredMessage) -> None:
        name = message.group_id or ""
        group = self._groups[name]
        group.in_flight_count -= 1
        self._list(message, group)
        self._forget_if_empty(name, group)

    def offers(self) -> Iterator[StoredMessage]:
        while self.has_offers():
            group = self._groups[self._open.popleft()]
            group.is_listed = False
            while group.has_head():
                yield heappop(group.ready)[1]

    def has_offers(self) -> bool:
        while self._open and not self._groups[self._open[0]].is_open():
            name = self._open.popleft()
            group = self._groups[name]
            group.is_listed = False
            self._forget_if_empty(name, group)
        return bool(self._open)

    def _list(self, message: StoredMessage, group: _Group) -> None:
        if not group.is_listed and group.is_open():
            group.is_listed = True
            self._open.append(message.group_id or "")

    def _forget_if_empty(self, name: str, group: _Group) -> None:
        if not group.ready and not group.in_flight_count and not group.is_listed:
            del self._groups[name]
