"""Limits how many messages a second reach SQS, however long each call takes.

A message is *in flight* from the moment at which its call may begin until the call has ended; SQS
receives it somewhere between. A call may begin only while the messages in flight, or whose call
ended within the last ten seconds, are no more than the window holds. So no ten seconds by the
server's clock ever see more: of the messages that reach SQS within them, take the one whose call
began last. All others had not arrived before the ten seconds began, so their calls ended less than
ten seconds before that call began, and were counted.

Each task has a limiter of its own, with its share of the run's window.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

WINDOW_SECONDS = 10.0
LEAST_RATE = 1 / WINDOW_SECONDS
"""Messages a second: a window holds at least one."""

_TOLERANCE = 1.05
"""A window is larger than its rate needs by this factor; slow calls use the difference."""

_CATCH_UP_SECONDS = 0.5
"""The limiter makes up for this much lateness. More would send in bursts after each pause."""

MAX_CALL_MESSAGES = 10
_NO_LIMIT = 10**9
"""The window without a limit: more than any task sends in ten seconds."""


def window_messages(messages_per_second: float) -> int:
    """Return what ten seconds may hold at a rate: 5 % more than the rate, rounded down, at least 1.

    One limiter with a window of 1 sends a message in ten seconds, whatever the rate.
    """
    return max(1, math.floor(messages_per_second * WINDOW_SECONDS * _TOLERANCE + 1e-9))


def share_window(window: int, messages: Sequence[int]) -> list[int]:
    """Divide a window among tasks in proportion to their *messages*; each gets at least 1.

    The sum of their windows is *window*, which is at least the number of tasks.
    """
    spare = window - len(messages)
    total = sum(messages)
    edges = [spare * so_far // total for so_far in accumulate(messages, initial=0)]
    return [1 + end - begin for begin, end in pairwise(edges)]


def most_tasks(messages_per_second: float) -> int:
    """Return how many tasks can share a rate: two messages in ten seconds for each, or one task."""
    return max(1, window_messages(messages_per_second) // 2)


class RateLimiter:
    """Says when calls of one task may begin. ``acquire`` and ``release`` are thread-safe.

    Attributes:
        call_messages: the most messages for one call: a second's worth, 1 to 10.
        claim_messages: the most for one claim: ten seconds' worth, at least 1.
    """

    def __init__(
        self,
        window: int | None,
        now_seconds: Callable[[], float] = time.monotonic,
        *,
        waits_first: bool = False,
    ) -> None:
        """Allow *window* messages in ten seconds, at least 1; None for no limit.

        With *waits_first* the first call waits from now on as if a whole one had just gone.
        *now_seconds* is a steady clock.
        """
        self._window = _NO_LIMIT if window is None else window
        rate = self._window / WINDOW_SECONDS / _TOLERANCE
        self._seconds_each = 1 / rate
        self.call_messages = max(1, min(MAX_CALL_MESSAGES, math.floor(rate)))
        self.claim_messages = max(1, math.floor(rate * WINDOW_SECONDS + 1e-9))
        pause = self.call_messages * self._seconds_each if waits_first else 0
        self._next_at = now_seconds() + pause
        self._in_flight = self._recent = 0
        self._ended: deque[tuple[float, int]] = deque()
        self._now_seconds = now_seconds
        self._lock = threading.Lock()

    def acquire(self, messages: int) -> float:
        """Begin a call of *messages* messages, at most *call_messages*, if it may begin.

        Returns:
            How long it has to wait. At 0 it has begun, and the caller calls ``release`` whatever
            comes of it.
        """
        with self._lock:
            if (seconds := self.seconds_until(messages)) <= 0:
                due = max(self._next_at, self._now_seconds() - _CATCH_UP_SECONDS)
                self._next_at = due + messages * self._seconds_each
                self._in_flight += messages
            return seconds

    def release(self, messages: int) -> None:
        """Say that a call has ended, in whatever way."""
        with self._lock:
            self._in_flight -= messages
            self._recent += messages
            self._ended.append((self._now_seconds(), messages))

    def seconds_until(self, messages: int) -> float:
        """Return how long a call of *messages* messages has to wait.

        Infinite where time alone does not help: only the end of a call makes room.
        """
        now = self._now_seconds()
        while self._ended and self._ended[0][0] + WINDOW_SECONDS <= now:
            self._recent -= self._ended.popleft()[1]
        missing = self._in_flight + self._recent + messages - self._window
        room_at = -math.inf
        for ended_at, ended in self._ended:
            if missing <= 0:
                break
            missing -= ended
            room_at = ended_at + WINDOW_SECONDS
        return math.inf if missing > 0 else max(0.0, max(room_at, self._next_at) - now)
