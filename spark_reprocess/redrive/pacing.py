"""At most so many messages a second, over all threads of one task. Pure but for the sleep."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlq_replay.message import SendEntry
from dlq_replay.sending import Queue, SendResult


class Pace:
    """Hands out times to send at."""

    def __init__(
        self,
        messages_per_second: float,
        now_seconds: Callable[[], float],
        sleep: Callable[[float], object],
    ) -> None:
        """Take a rate above 0; *now_seconds* must not run backwards."""
        self._seconds_each = 1 / messages_per_second
        self._now_seconds = now_seconds
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = now_seconds()

    def wait_for(self, messages: int) -> None:
        """Return when so many messages may go; the time they take is charged to the next."""
        with self._lock:
            now = self._now_seconds()
            go_at = max(now, self._free_at)
            self._free_at = go_at + messages * self._seconds_each
        self._sleep(go_at - now)


@dataclass(frozen=True, slots=True)
class PacedQueue:
    """A queue whose sends wait for their turn. Satisfies ``sending.Queue``."""

    queue: Queue
    pace: Pace

    @property
    def url(self) -> str:
        """The queue's own."""
        return self.queue.url

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        """Wait, then send."""
        self.pace.wait_for(len(entries))
        return self.queue.send(entries)
