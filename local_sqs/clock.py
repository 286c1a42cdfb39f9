"""Clocks for the model: the system's, and a virtual one for tests. Whole milliseconds."""

import time


class Clock:
    """The system's time of day, for a model in a server."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class VirtualClock(Clock):
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
