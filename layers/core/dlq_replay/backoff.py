"""Full-jitter exponential backoff. Pure."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

DrawUpTo = Callable[[int], int]
"""Draws a whole number, uniformly, from 0 to its argument, both included."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a replay may wait, by its number.

    Attributes:
        rate_seconds: the factor of the ceiling, above 0; fractions are allowed.
        cap_seconds: what no ceiling exceeds, at least 0.
    """

    rate_seconds: float
    cap_seconds: int

    def __post_init__(self) -> None:
        """Raise ValueError where the numbers describe no backoff."""
        if not (math.isfinite(self.rate_seconds) and self.rate_seconds > 0):
            raise ValueError(f"rate_seconds={self.rate_seconds}: must be finite and above 0")
        if self.cap_seconds < 0:
            raise ValueError(f"cap_seconds={self.cap_seconds}: must be at least 0")

    def ceiling_seconds(self, replay_number: int) -> int:
        """The longest delay that replay *replay_number* may draw, in whole seconds.

        ``window_seconds`` without its fraction.
        """
        return math.floor(self.window_seconds(replay_number))

    def window_seconds(self, number: int) -> float:
        """The longest delay of replay or retry *number*, fractions included.

        ``min(cap_seconds, rate_seconds * 2 ** number)``. *number* counts from 1: the first one
        waits up to twice the rate. Any number is valid, however large.
        """
        try:
            return min(self.cap_seconds, math.ldexp(self.rate_seconds, number))
        except OverflowError:
            return self.cap_seconds


def reproducible_draw(message_id: str, replay_number: int) -> DrawUpTo:
    """A source that draws the same for the same copy and number, on every look and machine.

    Uniform as far as SHA-256 is; the remainder of 256 bits favours no delay that anybody could
    measure.
    """
    digest = hashlib.sha256(f"{message_id}:{replay_number}".encode()).digest()
    number = int.from_bytes(digest)
    return lambda ceiling: number % (ceiling + 1)


def draw_delay_seconds(ceiling_seconds: int, draw_up_to: DrawUpTo) -> int:
    """Draw a delay in whole seconds, uniform over ``0..ceiling_seconds``, both included.

    "Full Jitter" of https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
    Clamp the ceiling before the draw, never the result: a clamped draw piles up at the clamp
    and the jitter is gone where it matters most.
    """
    return draw_up_to(ceiling_seconds)
