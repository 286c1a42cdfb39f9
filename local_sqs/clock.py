"""Time for the model: one that only a test moves, and the machine's own. Whole milliseconds."""

import time
from typing import Protocol


class Clock(Protocol):
    """What the model asks for the time."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, never going back."""


class VirtualClock:
    """Stands still until it is moved, so that 14 days pass in no time.

    ``sleep`` and ``time`` stand in for the functions of the same name in the module ``time``.
    """

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        return self._now_ms

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._now_ms / 1000

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass; a part of a millisecond counts as a whole one."""
        self.advance_to(self._now_ms - int(-seconds * 1000 // 1))

    def advance_to(self, now_ms: int) -> None:
        """Move on to *now_ms*; a moment that has passed changes nothing."""
        self._now_ms = max(self._now_ms, now_ms)

    sleep = advance


class SystemClock:
    """The time of day, for a model behind a socket."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
