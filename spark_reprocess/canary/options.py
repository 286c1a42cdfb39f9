"""The options of a canary, its sample, and how long to wait for its failures. No I/O."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from spark_reprocess.errors import InputError

COUNTS_LAG_SECONDS = 60
"""How far SQS's counts may lag: SQS API, GetQueueAttributes."""

MARGIN_SECONDS = 60
"""For the way through the DLQ, where long polls take up to 20 s, and for counts that lag."""

GRACE_SECONDS = 120.0
"""How long, after the wait, dead letters on their way may take to be parked."""

_NUMBER = re.compile(r"[0-9]{1,9}")
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%")

_LEAST_READINGS = 10
"""Readings of the main queue in a short wait."""

_MOST_READINGS = 30
"""In a long wait, where ``_MOST_SECONDS_APART`` allows it. On a queue with live traffic any reading
may show a message that is received a moment later, and two such readings restart the wait."""

_MOST_SECONDS_APART = 30.0
"""So that two readings show a backlog that lasts for ``MARGIN_SECONDS``."""


@dataclass(frozen=True, slots=True)
class Redelivery:
    """How a queue redelivers messages that were not deleted.

    Attributes:
        visibility_timeout_seconds: how long each receive hides a message.
        max_receive_count: after how many receives it moves to the DLQ.
        dead_letter_arn: of the DLQ; empty if the queue has none.
        delay_seconds: how long the queue itself delays every message.
    """

    visibility_timeout_seconds: int
    max_receive_count: int
    dead_letter_arn: str
    delay_seconds: int = 0

    @classmethod
    def of(cls, attributes: Mapping[str, str]) -> Self:
        """Read a queue's attributes."""
        try:
            policy = json.loads(attributes["RedrivePolicy"])
            count, arn = int(policy["maxReceiveCount"]), str(policy["deadLetterTargetArn"])
        except (KeyError, TypeError, ValueError):
            count, arn = 0, ""
        hidden = int(attributes.get("VisibilityTimeout", 30))
        return cls(hidden, count, arn, int(attributes.get("DelaySeconds", 0)))

    @property
    def stale_seconds(self) -> int:
        """After a send, for how long the queue's counts may not include it."""
        return COUNTS_LAG_SECONDS + self.delay_seconds

    def least_wait_seconds(self, failures_in_a_row: int = 1, consumer_max_seconds: int = 0) -> int:
        """Return how long so many failures, one after the other, take to come back.

        On a FIFO queue the messages of a group fail one after the other.

        Args:
            failures_in_a_row: how many.
            consumer_max_seconds: the longest that the consumer keeps one message hidden.
        """
        hidden_seconds = max(self.visibility_timeout_seconds, consumer_max_seconds)
        return hidden_seconds * self.max_receive_count * failures_in_a_row + MARGIN_SECONDS


@dataclass(frozen=True, slots=True)
class Share:
    """A number of messages of at least 0, or a percentage from 0 to 100."""

    number: Decimal
    is_percent: bool

    @classmethod
    def of(cls, text: str) -> Self:
        """Read ``20`` or ``2.5%``.

        Raises:
            ValueError: *text* is neither; the message names the rule.
        """
        if _NUMBER.fullmatch(text):
            return cls(Decimal(text), is_percent=False)
        match = _PERCENT.fullmatch(text)
        if match is None or Decimal(match[1]) > 100:  # noqa: PLR2004 - percent
            raise ValueError("must be a whole number, or a percentage from 0% to 100%")
        return cls(Decimal(match[1]), is_percent=True)

    def at_least(self, total: int) -> int:
        """Return the number of *total*, rounded up; at most *total*."""
        return min(total, math.ceil(self._exactly(total)))

    def at_most(self, total: int) -> int:
        """Return the number of *total*, rounded down; at most *total*."""
        return min(total, math.floor(self._exactly(total)))

    def _exactly(self, total: int) -> Decimal:
        return self.number * total / 100 if self.is_percent else self.number

    def __str__(self) -> str:
        return f"{self.number}%" if self.is_percent else str(self.number)


NONE = Share(Decimal(0), is_percent=False)


@dataclass(frozen=True, slots=True)
class CanaryOptions:
    """How large a canary is, how long it is observed, and how many may return.

    Attributes:
        size: messages to send ahead, over all groups; each group gets at least one.
        parked_queue_url: where failures come back.
        wait_seconds: how long to wait for them, None for the shortest wait that suffices.
        max_return: number or share of a group's canaries that may come back.
        is_wait_forced: use *wait_seconds* although a failure may take longer to come back, and also
            instead of ``COUNTS_LAG_SECONDS`` if it is less.
        consumer_max_seconds: the longest that the consumer keeps one message hidden, None for the
            queue's visibility timeout.
        poll_seconds: between two readings of the main queue; see ``reading_interval_seconds``.
        grace_seconds: see ``GRACE_SECONDS``.
    """

    size: Share
    parked_queue_url: str
    wait_seconds: float | None = None
    max_return: Share = NONE
    is_wait_forced: bool = False
    consumer_max_seconds: int | None = None
    poll_seconds: float = 5.0
    grace_seconds: float = GRACE_SECONDS

    def reading_interval_seconds(self, wait_seconds: float) -> float:
        """Return the time between two readings in a wait of *wait_seconds*.

        Less than ``poll_seconds`` if the wait is short, more if it is long.
        """
        least = min(self.poll_seconds, wait_seconds / _LEAST_READINGS)
        return max(least, min(_MOST_SECONDS_APART, wait_seconds / _MOST_READINGS))

    def stale_seconds(self, redelivery: Redelivery) -> float:
        """Return for how long after the send SQS's counts are ignored."""
        seconds = redelivery.stale_seconds
        if self.is_wait_forced and self.wait_seconds is not None:
            return seconds - max(0.0, COUNTS_LAG_SECONDS - self.wait_seconds)
        return seconds

    def wait(self, redelivery: Redelivery, failures_in_a_row: int = 1) -> float:
        """Return the seconds to wait at a queue with this *redelivery*.

        Args:
            redelivery: of the destination.
            failures_in_a_row: how many failures a failed group needs, if they can only come one
                after the other.

        Raises:
            InputError: failures could not come back, or not within ``wait_seconds``.
        """
        if self.is_wait_forced and self.wait_seconds is not None:
            return self.wait_seconds
        if not redelivery.dead_letter_arn:
            raise InputError(
                "--canary: the destination has no redrive policy, so a message that fails there "
                "stays there; give the queue a DLQ, or say how long to wait with --canary-wait S "
                "--force-canary-wait"
            )
        longest = self.consumer_max_seconds or 0
        least = redelivery.least_wait_seconds(failures_in_a_row, longest)
        if self.wait_seconds is None:
            return least
        if self.wait_seconds < least:
            row = f" x {failures_in_a_row} in a row" if failures_in_a_row > 1 else ""
            hidden = f"visibility timeout {redelivery.visibility_timeout_seconds} s"
            if longest > redelivery.visibility_timeout_seconds:
                hidden = f"--consumer-max-seconds {longest} s"
            raise InputError(
                f"--canary-wait {self.wait_seconds:g}: a failure may need longer to come back: "
                f"{hidden} x maxReceiveCount {redelivery.max_receive_count}{row} + "
                f"{MARGIN_SECONDS} s = {least} s; give {least} or more, or --force-canary-wait"
            )
        return self.wait_seconds


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
