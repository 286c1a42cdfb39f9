"""Checks whether dead letters came back in order, from the messages in the queues."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from demo.event_source import Handler
from demo.identity import from_record


@dataclass(frozen=True, slots=True)
class _Arrival:
    place: int
    group: str


class OrderBook:
    """Records the order of dead letters by message group. Thread-safe.

    Both functions are wrapped, and only the first receive of each copy counts: on a FIFO queue its
    position in the group. Replays must come back in the order in which the copies reached the DLQ,
    and so must redriven messages. There is no order between replays and redriven messages.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[tuple[str, str]] = set()
        self._open: dict[str, _Arrival] = {}
        self._last_places: dict[tuple[str, bool], int] = {}
        self._places = 0
        self._broken: set[str] = set()

    def watch_dlq(self, handler: Handler) -> Handler:
        """Wrap the function of the DLQ."""
        return self._watching(handler, self._reached_dlq)

    def watch_main(self, handler: Handler) -> Handler:
        """Wrap the function of the main queue."""
        return self._watching(handler, self._reached_main)

    def broken_groups(self) -> frozenset[str]:
        """Return groups in which a dead letter overtook another, or came back in another group."""
        with self._lock:
            return frozenset(self._broken)

    def _watching(self, handler: Handler, note: Callable[[Mapping[str, Any]], object]) -> Handler:
        def watching(event: Mapping[str, Any], context: object) -> object:
            with self._lock:
                for record in event["Records"]:
                    copy = (record["eventSourceARN"], record["messageId"])
                    if copy not in self._seen:
                        self._seen.add(copy)
                        note(record)
            return handler(event, context)

        return watching

    def _reached_dlq(self, record: Mapping[str, Any]) -> None:
        self._places += 1
        self._open[from_record(record).identity] = _Arrival(self._places, _group(record))

    def _reached_main(self, record: Mapping[str, Any]) -> None:
        content, group = from_record(record), _group(record)
        arrival = self._open.pop(content.identity, None)
        if arrival is None:
            return  # its first copy, or a duplicate, which the journal counts
        way = (arrival.group, content.replay_count > 0)
        if arrival.place < self._last_places.get(way, 0) or group != arrival.group:
            self._broken.add(arrival.group)
        self._last_places[way] = max(arrival.place, self._last_places.get(way, 0))


def _group(record: Mapping[str, Any]) -> str:
    return str(record["attributes"].get("MessageGroupId", ""))
