"""When messages may go so that a rate is kept, however long each call takes. Pure.

A message is *on its way* from its permit until its call has ended; SQS gets it somewhere between.
The pace permits a message only while those on their way now, or within the last ten seconds, are no
more than a window holds. So ten seconds by anybody's clock never see more: of the messages that
reach SQS within them, take the one that was permitted last. All others had not arrived before the
ten seconds began, so their calls ended less than ten seconds before that permit, and were counted.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

WINDOW_SECONDS = 10.0
_TOLERANCE = 1.05
"""What a window may hold of its rate; this room is what slow calls live on."""

_CATCH_UP_SECONDS = 0.5
"""How much lateness is made up for. More would send in bursts after each pause."""

MOST_IN_A_CALL = 10


class Pace:
    """At most so many messages a second, over all who ask. Times are seconds of one steady clock.

    Attributes:
        window_messages: what ten seconds may hold: 5 % more than the rate, rounded down.
        call_messages: the most for one call: a second's worth, 1 to 10.
    """

    def __init__(self, messages_per_second: float) -> None:
        """Take a rate above 0."""
        self._seconds_each = 1 / messages_per_second
        self.window_messages = max(
            1, math.floor(messages_per_second * WINDOW_SECONDS * _TOLERANCE + 1e-9)
        )
        self.call_messages = max(1, min(MOST_IN_A_CALL, math.floor(messages_per_second)))
        self._next_at: float | None = None
        self._on_their_way = 0
        self._ended: deque[tuple[float, int]] = deque()
        self._lately = 0

    def seconds_until(self, messages: int, now: float) -> float:
        """Tell how long a call of so many messages, at most *call_messages*, has to wait.

        Infinite where no time will do: only the end of a call makes room.
        """
        self._forget(now)
        missing = self._on_their_way + self._lately + messages - self.window_messages
        room_at = -math.inf
        for ended_at, ended in self._ended:
            if missing <= 0:
                break
            missing -= ended
            room_at = ended_at + WINDOW_SECONDS
        turn_at = now if self._next_at is None else self._next_at
        return math.inf if missing > 0 else max(0.0, room_at - now, turn_at - now)

    def start(self, messages: int, now: float) -> None:
        """Note that a call of so many messages begins."""
        due = now if self._next_at is None else max(self._next_at, now - _CATCH_UP_SECONDS)
        self._next_at = due + messages * self._seconds_each
        self._on_their_way += messages

    def end(self, messages: int, now: float) -> None:
        """Note that a call of so many messages has ended, in whatever way."""
        self._on_their_way -= messages
        self._lately += messages
        self._ended.append((now, messages))

    def _forget(self, now: float) -> None:
        while self._ended and self._ended[0][0] + WINDOW_SECONDS <= now:
            self._lately -= self._ended.popleft()[1]


Key = TypeVar("Key")


class Permits(Generic[Key]):
    """Those who wait for their turn, first come, first served; without a pace nobody waits."""

    def __init__(self, pace: Pace | None) -> None:
        """Keep to *pace*."""
        self._pace = pace
        self._waiting: deque[tuple[Key, int]] = deque()

    def ask(self, key: Key, messages: int) -> None:
        """Take a place at the end."""
        self._waiting.append((key, messages))

    def withdraw(self, is_gone: Callable[[Key], bool]) -> None:
        """Forget those who do not wait any more."""
        self._waiting = deque(one for one in self._waiting if not is_gone(one[0]))

    def grant(self, now: float) -> list[Key]:
        """Let go whose turn has come; their calls begin now."""
        granted: list[Key] = []
        while self._waiting and self.seconds_until_next(now) <= 0:
            key, messages = self._waiting.popleft()
            if self._pace is not None:
                self._pace.start(messages, now)
            granted.append(key)
        return granted

    def end(self, messages: int, now: float) -> None:
        """Note that a call has ended."""
        if self._pace is not None:
            self._pace.end(messages, now)

    def seconds_until_next(self, now: float) -> float:
        """When somebody's turn comes by the passing of time alone; infinite where it does not."""
        if not self._waiting:
            return math.inf
        return 0.0 if self._pace is None else self._pace.seconds_until(self._waiting[0][1], now)
