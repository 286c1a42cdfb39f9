"""What SQS invents: message ids and sequence numbers. Seeded, so that a run can be repeated."""

import random
import uuid


class Identity:
    """One source for all queues of a model."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)
        self._order = 18_880_000_000_000_000_000

    def new_id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def next_order(self) -> int:
        """Rising over all queues; 20 digits, as SQS gives them."""
        self._order += 256
        return self._order
