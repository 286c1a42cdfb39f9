"""Clocks for the model: a virtual one for tests, and the system's. Whole milliseconds."""

import time
from typing import Protocol


class Clock(Protocol):
    """The clock of a model."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch; never decreases."""


class VirtualClock:
    """A clock that only advances when a test calls ``advance``, so that 14 days take no time.

    ``sleep`` and ``time`` replace the functions of the same name in the module ``time``.
    """

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        return self._now_ms

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._now_ms / 1000

    def advance(self, seconds: float) -> None:
        """Advance by *seconds*, rounded up to a whole millisecond."""
        self.advance_to(self._now_ms - int(-seconds * 1000 // 1))

    def advance_to(self, now_ms: int) -> None:
        """Advance to *now_ms*. An earlier time changes nothing."""
        self._now_ms = max(self._now_ms, now_ms)

    sleep = advance


class SystemClock:
    """The system's time of day, for a model in a server."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
