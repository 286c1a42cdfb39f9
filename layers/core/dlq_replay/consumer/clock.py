"""Seconds that also pass while the machine sleeps. Standard library only."""

import time
from collections.abc import Callable


class AwakeClock:
    """A monotonic clock that counts a suspended machine, a paused container and a frozen VM.

    ``time.monotonic`` stands still while a Linux machine sleeps; SQS's timeouts do not. This one
    follows it and is put ahead whenever the time of day ran further. A time of day that is set
    forward counts as time that passed, which at worst declares a message lost that was not; one
    that is set back changes nothing.

    Args:
        monotonic: seconds from any origin, never going back.
        time_of_day: seconds since the epoch.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], float] = time.time,
    ) -> None:
        self._monotonic = monotonic
        self._time_of_day = time_of_day
        self._offset = time_of_day() - monotonic()
        self._ahead = 0.0

    def __call__(self) -> float:
        """Seconds from any origin; safe to ask from several threads."""
        monotonic = self._monotonic()
        self._ahead = max(self._ahead, self._time_of_day() - monotonic - self._offset)
        return monotonic + self._ahead
