"""The rule of a ramp: sizes of steps, returns that may come, and what must be seen. No I/O.

A step is *good* only where every one of its failures had the time to return and to be counted. What
is not seen is never taken for success: the step stays *unknown*, with the reason, and waits.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise

from spark_reprocess.aws.clients import QueueCounts
from spark_reprocess.figures import duration

PATIENCE_MINUTES = 15
"""How long a run waits for a verdict. Also how old an error of the replay function must be so that
it no longer counts: by then the function has parked what it could not count."""

LOOKS_A_MINUTE = 6

_GROWTH = 2
_FIRST, _FEW = 20, 100
"""None of the first 20 messages may come back, and one of the first 100."""

_ALLOWED = re.compile(r"([0-9]{1,9})|((?:[0-9]{1,2}(?:\.[0-9]{1,6})?|100)%)")

_LOOKS = 2
"""SQS's counts are approximate: one look proves nothing."""


class Verdict(StrEnum):
    """What is known of the last step of a group."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"
    SENT = "sent"
    """It was the last one: nothing waits for a verdict."""


@dataclass(frozen=True, slots=True)
class GroupRamp:
    """How far a group is.

    Attributes:
        step: its last step, from 1.
        steps: how many there are if every message goes.
        sent: messages that SQS confirmed, over all steps.
        returned: how many of them came back; None if that is not known.
        allowed: how many may come back.
        why: what is not known yet, or why the group is stopped; else empty.
    """

    group_id: str
    step: int
    steps: int
    sent: int
    returned: int | None
    allowed: int
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The sizes of the steps of the largest group, and how long all take at least."""

    sizes: tuple[int, ...]
    seconds: float


def step_size(sent: int, left: int) -> int:
    """Return how many of *left* messages the next step has, after *sent* in all steps before."""
    return min(left, max(1, _GROWTH * sent))


def step_sizes(messages: int) -> list[int]:
    """Return the sizes of all steps of a group."""
    sizes: list[int] = []
    while (left := messages - sum(sizes)) > 0:
        sizes.append(step_size(sum(sizes), left))
    return sizes


def read_allowed(text: str) -> str:
    """Return ``3`` or ``2.5%`` as it is. Raises ValueError, whose message names the rule."""
    if not _ALLOWED.fullmatch(text):
        raise ValueError("must be a whole number, or a percentage from 0% to 100%")
    return text


def returns_allowed(text: str | None, sent: int) -> int:
    """Return how many of *sent* messages of a group may come back, over all its steps.

    *text* is that of ``read_allowed``; None: none of the first 20, one up to 100, 1 % of more.
    """
    if text is None:
        return 0 if sent <= _FIRST else max(1, sent // _FEW)
    if text.endswith("%"):
        return math.floor(Decimal(text[:-1]) * sent / 100)
    return int(text)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is seen at one moment. None and an empty mapping: not known.

    Attributes:
        at: the moment, epoch seconds.
        obstacle: what keeps dead letters from being counted, or replays from the queue; empty if
            nothing does.
        main: SQS's counts of the destination.
        dead_letters: those of its DLQ.
        ages: the age in seconds of the destination's oldest message, by the begin of each period.
        deleted: messages that the destination deleted since the step began.
    """

    at: float
    obstacle: str = ""
    main: QueueCounts | None = None
    dead_letters: QueueCounts | None = None
    ages: Mapping[float, float] = field(default_factory=dict)
    deleted: int | None = None


@dataclass(frozen=True, slots=True)
class StepWatch:
    """Says when every failure of a step has returned and was counted, by all *looks* at it.

    Attributes:
        sent_at: when the last message of the step was sent; epoch seconds.
        failure_seconds: how long a failure takes to return once the message is received: visibility
            timeout times maxReceiveCount.
        minute_seconds: a period of CloudWatch, by which SQS's counts lag, too.
    """

    sent_at: float
    failure_seconds: float
    minute_seconds: float = 60

    def left_at(self, looks: Sequence[Reading]) -> float | None:
        """Return since when the step has left the destination; None: it may wait there."""
        for before, look in pairwise((Reading(-math.inf), *looks)):
            # Nothing as old as the step's last message was there any more.
            starts = [at for at, age in look.ages.items() if age < at - self.sent_at]
            if starts:
                return min(starts)
            if self._is_empty(before) and self._is_empty(look):
                # Nothing is in flight, so what failed has returned already.
                return max(self.sent_at, look.at - self.failure_seconds)
        return None

    def ready_at(self, looks: Sequence[Reading]) -> float:
        """Return the earliest moment for a verdict, epoch seconds."""
        left_at = self.left_at(looks)
        since = self.sent_at if left_at is None else left_at
        return since + self.failure_seconds + self.minute_seconds

    def blocker(self, looks: Sequence[Reading], expected: int) -> str:
        """Return why nobody can tell yet, at the last look; empty if a verdict is possible.

        *expected* is how many messages of the step have succeeded if nothing else comes back.
        """
        last, ready_at = looks[-1], self.ready_at(looks)
        if last.obstacle:
            return last.obstacle
        if self.left_at(looks) is None:
            waiting = f"{last.main.total:,}" if last.main else "?"
            return f"the step may still be in the main queue, where {waiting} messages are"
        if last.at < ready_at:
            return f"a failure may return for another {duration(ready_at - last.at)}"
        counts = [look.dead_letters for look in looks[-_LOOKS:] if look.at >= ready_at]
        if [one.visible for one in counts if one is not None] != [0] * _LOOKS:
            return "dead letters wait in the DLQ"
        if last.deleted is None or last.deleted < expected:
            deleted = "?" if last.deleted is None else f"{last.deleted:,}"
            return f"the consumer deleted {deleted} messages since the step, of {expected:,}"
        return ""

    def _is_empty(self, look: Reading) -> bool:
        """Whether SQS counts nothing, and the metric has no data since the step."""
        is_late = look.at >= self.sent_at + self.minute_seconds
        has_ages = any(at > self.sent_at for at in look.ages)
        return is_late and not has_ages and look.main is not None and not look.main.total
