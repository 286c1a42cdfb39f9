"""The sample that makes a canary: how many messages of each group. No I/O."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_reprocess.canary.options import Redelivery

RECOMMENDED_SHARE = 100
"""The recommended sample is one message in so many,"""

RECOMMENDED_MOST = 100
"""at most so many in total, and at least one of each group."""


def allocate(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Distribute *total* over groups of these *sizes*: one message each, the rest by size.

    Every group with a message gets at least 1, also where *total* is less than the number of
    groups, and at most its size. The result sums to *total* if that is possible. The same input
    gives the same result.
    """
    groups = {group_id: size for group_id, size in sizes.items() if size > 0}
    rest = min(total, sum(groups.values())) - len(groups)
    spare = sum(groups.values()) - len(groups)
    if rest <= 0 or spare <= 0:
        return dict.fromkeys(groups, 1)
    # Largest remainder method, in whole numbers, so that equal fractions compare as equal.
    quotas = {group_id: divmod(rest * (size - 1), spare) for group_id, size in groups.items()}
    left = rest - sum(whole for whole, _ in quotas.values())
    largest = sorted(groups, key=lambda one: (-quotas[one][1], -groups[one], one))[:left]
    return {group_id: 1 + quotas[group_id][0] + (group_id in largest) for group_id in groups}


def recommended_size(sizes: Mapping[str, int]) -> int | None:
    """Return the recommended number of messages.

    None where that is more than half of the messages: a canary would protect too few.
    """
    groups = sum(size > 0 for size in sizes.values())
    messages = sum(sizes.values())
    size = max(groups, min(RECOMMENDED_MOST, messages // RECOMMENDED_SHARE))
    return size if 0 < size <= messages / 2 else None


@dataclass(frozen=True, slots=True)
class CanarySample:
    """The size of a canary, and how long its verdict takes.

    Attributes:
        counts: messages by group id.
        without: groups with messages to send of which none can be in the sample, because a failure
            could not be recognised. They are stopped.
        stale_seconds: after the send, for how long the main queue's counts are ignored.
        wait_seconds: for failures to come back, once the main queue's backlog is gone.
        is_recommended: whether it is a recommendation, not the operator's choice.
    """

    counts: Mapping[str, int]
    without: tuple[str, ...]
    stale_seconds: float
    wait_seconds: float
    is_recommended: bool = False

    @property
    def total(self) -> int:
        """Messages in the sample."""
        return sum(self.counts.values())


def combined(samples: Sequence[CanarySample]) -> CanarySample | None:
    """Add up the samples for several queues, which go one after the other; None for none."""
    if not samples:
        return None
    counts = Counter[str]()
    for one in samples:
        counts.update(one.counts)
    return CanarySample(
        dict(counts),
        tuple(sorted({group_id for one in samples for group_id in one.without})),
        max(one.stale_seconds for one in samples),
        max(one.wait_seconds for one in samples),
        is_recommended=samples[0].is_recommended,
    )


def recommended(to_send: Mapping[str, int], redelivery: Redelivery) -> CanarySample | None:
    """Return the recommended sample of *to_send*, messages by group id; None for too few."""
    size = recommended_size(to_send)
    if size is None:
        return None
    counts, wait_seconds = allocate(to_send, size), redelivery.least_wait_seconds()
    return CanarySample(counts, (), redelivery.stale_seconds, wait_seconds, is_recommended=True)
