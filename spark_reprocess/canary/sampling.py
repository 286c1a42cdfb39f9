"""How many messages of each group make a canary, and what a dry run shows of one. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_reprocess.canary.vigil import Redelivery

RECOMMENDED_SHARE = 100
"""One message in so many is recommended,"""

RECOMMENDED_MOST = 100
"""at most so many, but never fewer than one of each group."""

_WORTH_IT = 2
"""A canary of half of the messages or more protects nothing."""


def allocate(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Share *total* out over groups of these *sizes*: one each, the rest by size.

    The result is at most each group's size, and at least 1 where a group has any message; where
    *total* is less than the number of groups, each still gets its one. It sums to *total* where
    that is possible at all. The same input gives the same result.
    """
    groups = {group_id: size for group_id, size in sizes.items() if size > 0}
    rest = min(total, sum(groups.values())) - len(groups)
    spare = sum(groups.values()) - len(groups)
    if rest <= 0 or spare <= 0:
        return dict.fromkeys(groups, 1)
    # Largest remainders: each gets the whole part of its quota, then the largest fractions get one
    # more. In whole numbers, so that equal fractions are equal.
    quotas = {group_id: divmod(rest * (size - 1), spare) for group_id, size in groups.items()}
    left = rest - sum(whole for whole, _ in quotas.values())
    largest = sorted(groups, key=lambda one: (-quotas[one][1], -groups[one], one))[:left]
    return {group_id: 1 + quotas[group_id][0] + (group_id in largest) for group_id in groups}


def recommended_size(sizes: Mapping[str, int]) -> int | None:
    """How large a canary is worth its wait, None where none is."""
    groups = sum(size > 0 for size in sizes.values())
    messages = sum(sizes.values())
    size = max(groups, min(RECOMMENDED_MOST, messages // RECOMMENDED_SHARE))
    return size if 0 < size * _WORTH_IT <= messages else None


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


def combined(drawn: Sequence[Drawn]) -> Drawn | None:
    """Add up the canaries for several queues, which go one after the other; None for none."""
    if not drawn:
        return None
    counts = Counter[str]()
    for one in drawn:
        counts.update(one.counts)
    return Drawn(
        dict(counts),
        tuple(sorted({group_id for one in drawn for group_id in one.without})),
        max(one.first_look_seconds for one in drawn),
        max(one.wait_seconds for one in drawn),
        is_recommended=drawn[0].is_recommended,
    )


def recommended(to_send: Mapping[str, int], redelivery: Redelivery) -> Drawn | None:
    """Return the canary that a redrive of so many messages by group should have, None for few."""
    size = recommended_size(to_send)
    if size is None:
        return None
    counts, first_look_seconds = allocate(to_send, size), redelivery.first_look_seconds
    least = redelivery.least_wait_seconds()
    return Drawn(counts, (), first_look_seconds, least, is_recommended=True)
