"""Three ways to draw a delay below a ceiling, for comparison. Pure.

The names are those of "Exponential Backoff and Jitter":
https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

MAX_PARTS = 240
"""The most parts that the delays are split into. The middle of a part represents the part."""


class Jitter(StrEnum):
    """How a delay is drawn. The product's is FULL."""

    FULL = "full"
    EQUAL = "equal"
    NONE = "none"

    def parts(self, ceiling_seconds: int) -> Sequence[range]:
        """Return the possible delays, all equally likely, in parts of about equal length."""
        lowest = {Jitter.FULL: 0, Jitter.EQUAL: ceiling_seconds // 2, Jitter.NONE: ceiling_seconds}
        delays = range(lowest[self], ceiling_seconds + 1)
        count = min(len(delays), MAX_PARTS)
        cuts = [len(delays) * index // count for index in range(count + 1)]
        return [delays[first:end] for first, end in pairwise(cuts)]
