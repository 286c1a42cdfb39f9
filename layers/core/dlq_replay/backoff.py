"""Full-jitter exponential backoff. Pure.

"Full Jitter" of https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/: the
delay is a draw up to a ceiling. Limit the ceiling before the draw, never the drawn delay. Otherwise
many delays would be equal to the limit, without any jitter.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

DrawUpTo = Callable[[int], int]
"""Draws a whole number, uniformly, from 0 to its argument, both included."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The longest wait before each replay: *rate_seconds*, above 0, doubles up to *cap_seconds*."""

    rate_seconds: float
    cap_seconds: int

    def ceiling_seconds(self, replay_number: int) -> int:
        """Return ``window_seconds(replay_number)``, rounded down to whole seconds."""
        return math.floor(self.window_seconds(replay_number))

    def window_seconds(self, number: int) -> float:
        """Return the longest delay of replay or retry *number*, which counts from 1.

        ``min(cap_seconds, rate_seconds * 2 ** number)``, fractions included.
        """
        try:
            return min(self.cap_seconds, math.ldexp(self.rate_seconds, number))
        except OverflowError:
            return self.cap_seconds


def reproducible_draw(message_id: str, replay_number: int) -> DrawUpTo:
    """Return a source that draws the same delay whenever a copy is received, on any machine.

    The draw is the SHA-256 of id and number modulo the range: uniform, with a bias far too small to
    measure.
    """
    digest = hashlib.sha256(f"{message_id}:{replay_number}".encode()).digest()
    number = int.from_bytes(digest)
    return lambda ceiling: number % (ceiling + 1)
