"""A canary that has been drawn and not yet sent: what a dry run shows of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from spark_reprocess.canary.sampling import allocate, recommended_size
from spark_reprocess.canary.vigil import Redelivery


@dataclass(frozen=True, slots=True)
class Drawn:
    """What goes ahead.

    Attributes:
        counts: messages by group id.
        without: groups of which messages are to be sent but none can go ahead: their failures
            could not be told, so they are stopped.
        first_look_seconds: after the send, before which the main queue's counts say nothing.
        wait_seconds: for failures to come back, once the main queue's backlog is gone.
        is_recommended: whether nobody asked for it.
    """

    counts: Mapping[str, int]
    without: tuple[str, ...]
    first_look_seconds: float
    wait_seconds: float
    is_recommended: bool = False

    @property
    def total(self) -> int:
        """All messages that go ahead."""
        return sum(self.counts.values())


def recommended(to_send: Mapping[str, int], redelivery: Redelivery) -> Drawn | None:
    """Return the canary that a redrive of so many messages by group should have, None for few."""
    size = recommended_size(to_send)
    if size is None:
        return None
    counts, first_look_seconds = allocate(to_send, size), redelivery.first_look_seconds
    least = redelivery.least_wait_seconds()
    return Drawn(counts, (), first_look_seconds, least, is_recommended=True)
