"""Retries with full jitter and a deadline. Standard library only.

``Retry.call`` repeats a function that raises. ``Retry.attempts`` is for a loop of the caller, such
as one that retries only what is left::

    for _ in retry.attempts():
        left = send(left)
        if not left:
            break
"""

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from dlq_replay.backoff import Backoff

T = TypeVar("T")

_BACKOFF = Backoff(rate_seconds=0.1, cap_seconds=5)


def awake_seconds() -> float:
    """Return seconds of a clock that never goes back and also runs while the machine is suspended.

    SQS's timeouts do not stop then, and what was read before is old. ``time.monotonic`` stops on
    Linux.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a call is tried, and how long to wait before each further attempt.

    Attributes:
        max_attempts: calls including the first, at least 1.
        backoff: the longest wait before each retry.
        sleep: waits for a number of seconds.
        draw: returns a uniform number from 0 to 1: the share of the longest wait to wait.
        seconds_left: returns the seconds until the deadline. The first attempt does not check it.
    """

    max_attempts: int
    backoff: Backoff = _BACKOFF
    sleep: Callable[[float], object] = time.sleep
    draw: Callable[[], float] = random.random
    seconds_left: Callable[[], float] = lambda: math.inf

    def __post_init__(self) -> None:
        """Raise ValueError if no attempt would be made."""
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts={self.max_attempts}: must be at least 1")

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

    def call(self, function: Callable[[], T], is_transient: Callable[[Exception], bool]) -> T:
        """Return what *function* returns.

        Args:
            function: called until it returns.
            is_transient: returns whether another attempt may succeed after this exception.

        Raises:
            Exception: of the last attempt, or the first exception that is not transient.
        """
        attempts = self.attempts()
        next(attempts)
        while True:
            try:
                return function()
            except Exception as error:
                if not is_transient(error) or next(attempts, None) is None:
                    raise
