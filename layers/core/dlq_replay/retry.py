"""Retries with full jitter and a deadline; pauses after faults. Standard library only.

``Retry.call`` repeats a function that raises, ``Retry.finish`` one that returns what is left.
"""

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from dlq_replay.backoff import Backoff
from dlq_replay.errors import TableError

T = TypeVar("T")
_BACKOFF = Backoff(rate_seconds=0.1, cap_seconds=5)


def awake_seconds() -> float:
    """Return seconds of a clock that never goes back and also runs while the machine is suspended.

    SQS's timeouts do not stop then, and what was read before is old. ``time.monotonic`` stops on
    Linux.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


PAUSE_SECONDS = 5.0
"""Time for which nothing is asked of a table that failed."""

REPORT_SECONDS = 60.0
"""Time between two reports of a fault."""


class OptionalCalls:
    """Calls of a table that the work does not depend on: none for a while after a fault."""

    def __init__(self, clock_seconds: Callable[[], float]) -> None:
        self._clock_seconds = clock_seconds
        self._paused_until = self._reported_at = -math.inf
        self._fault: str | None = None

    @property
    def is_paused(self) -> bool:
        """True if a call failed within the last 5 s."""
        return self._clock_seconds() < self._paused_until

    def call(self, function: Callable[[], T]) -> T | None:
        """Return what *function* returns; None where it raises, or one did a moment ago."""
        if self.is_paused:
            return None
        try:
            return function()
        except Exception as error:  # noqa: BLE001 - no fault of a table may stop a message
            self._paused_until = self._clock_seconds() + PAUSE_SECONDS
            # Any other error may quote a message.
            self.note(str(error) if isinstance(error, TableError) else type(error).__name__)
            return None

    def note(self, fault: str) -> None:
        """Remember *fault* for ``fault_to_report``, once a minute."""
        if self._clock_seconds() - self._reported_at >= REPORT_SECONDS:
            self._fault = fault
            self._reported_at = self._clock_seconds()

    def fault_to_report(self) -> str | None:
        """Return the fault that is to be reported now; else None."""
        fault = self._fault
        self._fault = None
        return fault


@dataclass(frozen=True, slots=True)
class Retry:
    """The number of attempts of a call, and the wait before each further attempt.

    Attributes:
        max_attempts: calls including the first, at least 1.
        draw: returns a uniform number from 0 to 1: the share of the longest wait to wait.
        seconds_left: returns the seconds until the deadline. The first attempt does not check it.
    """

    max_attempts: int
    backoff: Backoff = _BACKOFF
    sleep: Callable[[float], object] = time.sleep
    draw: Callable[[], float] = random.random
    seconds_left: Callable[[], float] = lambda: math.inf

    def attempts(self) -> Iterator[int]:
        """Yield the number of each attempt, from 1; wait before each one after the first.

        Ends after ``max_attempts``, or without a wait if the wait would last beyond the deadline.
        """
        yield 1
        for number in range(1, self.max_attempts):
            wait_seconds = self.draw() * self.backoff.window_seconds(number)
            if wait_seconds >= self.seconds_left():
                return
            self.sleep(wait_seconds)
            yield number + 1

    def finish(self, function: Callable[[T], T], left: T) -> T:
        """Call *function* with what it left the last time, until that is empty; return the rest."""
        for _ in self.attempts():
            if not (left := function(left)):
                break
        return left

    def call(self, function: Callable[[], T], is_transient: Callable[[Exception], bool]) -> T:
        """Call *function* until it returns, or raises what no other attempt may make succeed.

        Raises:
            Exception: of the last attempt, or the first that is not *is_transient*.
        """
        attempts = self.attempts()
        next(attempts)
        while True:
            try:
                return function()
            except Exception as error:
                if not is_transient(error) or next(attempts, None) is None:
                    raise
