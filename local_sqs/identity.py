"""Generates message ids and sequence numbers; with a seed, a run can be repeated."""

import random

# The version and the variant of a UUID are fixed (RFC 9562, section 5.4); the rest is random.
_RANDOM_BITS = ~((0xF000 << 64) | (0xC000 << 48))
_VERSION_4 = (0x4000 << 64) | (0x8000 << 48)


class Identity:
    """One source for all queues of a model."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)
        self._order = 18_880_000_000_000_000_000

    def new_id(self) -> str:
        """A UUID of version 4."""
        bits = self._random.getrandbits(128) & _RANDOM_BITS | _VERSION_4
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def next_order(self) -> int:
        """Return the next sequence number, of 20 digits as in SQS; it increases over all queues."""
        self._order += 256
        return self._order
