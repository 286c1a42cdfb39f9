"""What the consumer saw of each message: evidence apart from the product's own counts."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from demo.identity import Content


@dataclass(frozen=True, slots=True)
class Sighting:
    """What is known of one message from the copies that reached the consumer.

    Attributes:
        processed_count: how often it was processed; above 1 means duplicates.
        replay_count: the highest that a copy carried.
        is_redriven: whether it came back after the operator began to put messages back.
        is_altered: whether a copy differed from what was sent.
    """

    processed_count: int = 0
    replay_count: int = 0
    is_redriven: bool = False
    is_altered: bool = False


class Journal:
    """Sightings by identity; safe to share between threads.

    *sent* maps each identity to the fingerprint of what was sent.
    """

    def __init__(self, sent: Mapping[str, str]) -> None:
        self._sent = sent
        self._lock = threading.Lock()
        self._sightings: dict[str, Sighting] = {}
        self._strangers: set[str] = set()
        self._redrive_has_begun = False

    def begin_redrive(self) -> None:
        """Note that from here on, what was parked may come back."""
        self._redrive_has_begun = True

    def arrived(self, content: Content) -> None:
        """Note a copy that reached the consumer, whatever becomes of it."""
        if content.identity not in self._sent:
            with self._lock:
                self._strangers.add(content.identity)
            return
        with self._lock:
            seen = self._sightings.get(content.identity, Sighting())
            self._sightings[content.identity] = replace(
                seen,
                replay_count=max(seen.replay_count, content.replay_count),
                is_redriven=seen.is_redriven
                or content.plan_id is not None
                or self._redrive_has_begun,
                is_altered=seen.is_altered or content.fingerprint != self._sent[content.identity],
            )

    def processed(self, content: Content) -> None:
        """Note that the consumer did its work for a copy that arrived."""
        with self._lock:
            if seen := self._sightings.get(content.identity):
                self._sightings[content.identity] = replace(
                    seen, processed_count=seen.processed_count + 1
                )

    def sightings(self) -> dict[str, Sighting]:
        """A copy of what is known now."""
        with self._lock:
            return dict(self._sightings)

    def strangers(self) -> set[str]:
        """Identities that nobody sent: altered beyond recognition."""
        with self._lock:
            return set(self._strangers)
