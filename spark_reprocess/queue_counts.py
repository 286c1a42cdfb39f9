"""How many messages SQS counts in a queue. Pure.

All three numbers are approximate and may lag by a minute: SQS API, GetQueueAttributes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """What is in a queue.

    Attributes:
        visible: could be received now; on a FIFO queue also those behind one in flight.
        in_flight: received by somebody, neither deleted nor visible again yet.
        delayed: not yet visible for the first time.
    """

    visible: int
    in_flight: int
    delayed: int

    @classmethod
    def of(cls, attributes: Mapping[str, str]) -> Self:
        """Read them from a queue's attributes."""
        return cls(
            visible=int(attributes.get("ApproximateNumberOfMessages", 0)),
            in_flight=int(attributes.get("ApproximateNumberOfMessagesNotVisible", 0)),
            delayed=int(attributes.get("ApproximateNumberOfMessagesDelayed", 0)),
        )

    @property
    def total(self) -> int:
        """All of them."""
        return self.visible + self.in_flight + self.delayed
