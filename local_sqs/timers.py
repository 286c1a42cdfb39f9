"""A heap of timers that can be cancelled."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Item = TypeVar("Item")

_COMPACT_ABOVE = 64


class Timer(Generic[Item]):
    """One entry. Its item is None after it was cancelled or has fired."""

    __slots__ = ("due_ms", "item")

    def __init__(self, due_ms: int, item: Item) -> None:
        self.due_ms = due_ms
        self.item: Item | None = item


class Timers(Generic[Item]):
    """Entries sorted by due time; equal ones in the order of ``set``.

    ``set`` and ``fire`` take O(log n). ``cancel`` is amortised constant: cancelled entries stay in
    the heap until they are more than half of it.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer[Item]]] = []
        self._count_set = 0
        self._cancelled = 0

    def set(self, due_ms: int, item: Item) -> Timer[Item]:
        timer = Timer(due_ms, item)
        self._count_set += 1
        heappush(self._heap, (due_ms, self._count_set, timer))
        return timer

    def cancel(self, timer: Timer[Item] | None) -> None:
        """Cancel the entry. Does nothing for None, or if it has fired."""
        if timer is None or timer.item is None:
            return
        timer.item = None
        self._cancelled += 1
        if self._cancelled > _COMPACT_ABOVE and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].item is not None]
            heapify(self._heap)
            self._cancelled = 0

    def fire(self, now_ms: int) -> Iterator[Item]:
        """Remove and yield what is due at *now_ms*, earliest first."""
        while (due := self.next_due_ms()) is not None and due <= now_ms:
            timer = heappop(self._heap)[2]
            item, timer.item = timer.item, None
            if item is not None:
                yield item

    def next_due_ms(self) -> int | None:
        """Return when the next entry is due; None if there is none."""
        while self._heap and self._heap[0][2].item is None:
            heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None
