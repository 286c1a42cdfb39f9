"""The rule of a ramp: sizes of steps, returns that may come, and what must be seen. No I/O.

A step is *good* only where every one of its failures had the time to return and to be counted. What
is not seen is never taken for success: the step stays *unknown*, with the reason, and waits.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Self

from spark_reprocess.clients import QueueCounts
from spark_reprocess.figures import duration

_GROWTH = 2
_FIRST, _FEW = 20, 100
"""None of the first 20 messages may come back, and one of the first 100."""

_TEXT = re.compile(r"([0-9]{1,9})|((?:[0-9]{1,2}(?:\.[0-9]{1,6})?|100)%)")
_LOOKS = 2
"""SQS's counts are approximate: one look proves nothing."""


@dataclass(frozen=True, slots=True)
class RampRules:
    """Durations; a *minute* is shorter in a demonstration.

    Attributes:
        minute_seconds: a period of CloudWatch.
        patience: for how many minutes a run waits for the verdict on a step. Also how old an error
            of the replay function must be, in minutes, so that it no longer counts: by then the
            function has parked what it could not count.
        looks: how many there are in a minute.
    """

    minute_seconds: float = 60
    patience: int = 15
    looks: int = 6


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
    """What a ramp would take.

    Attributes:
        sizes: of the steps of the largest group.
        step_seconds: how long a step takes at least until the next one may go.
    """

    sizes: tuple[int, ...]
    step_seconds: float

    @property
    def seconds(self) -> float:
        """How long all steps take at least; nobody waits for the last one."""
        return self.step_seconds * max(0, len(self.sizes) - 1)


def step_size(sent: int, left: int) -> int:
    """Return how many of *left* messages the next step has, after *sent* in all steps before."""
    return min(left, max(1, _GROWTH * sent))


def step_sizes(messages: int) -> list[int]:
    """Return the sizes of all steps of a group."""
    sizes: list[int] = []
    while (left := messages - sum(sizes)) > 0:
        sizes.append(step_size(sum(sizes), left))
    return sizes


@dataclass(frozen=True, slots=True)
class AllowedReturns:
    """How many messages of a group may come back, over all its steps.

    Attributes:
        text: a whole number, or a percentage of what was sent; None for none of the first 20, one
            up to 100, and 1 % of more.
    """

    text: str | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """Read ``3`` or ``2.5%``. Raises ValueError, whose message names the rule."""
        if not _TEXT.fullmatch(text):
            raise ValueError("must be a whole number, or a percentage from 0% to 100%")
        return cls(text)

    def of_sent(self, sent: int) -> int:
        """Return how many of *sent* messages may come back."""
        if self.text is None:
            return 0 if sent <= _FIRST else max(1, sent // _FEW)
        if self.text.endswith("%"):
            return math.floor(Decimal(self.text[:-1]) * sent / 100)
        return int(self.text)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is seen at one moment. None and an empty mapping: not known.

    Attributes:
        obstacle: what keeps dead letters from the replay function, or replays from the queue; empty
            if nothing does.
        faults: what went wrong in the replay function since the step, by name.
        main: SQS's counts of the destination.
        dead_letters: those of its DLQ.
        ages: by minute, the age in seconds of the destination's oldest message.
        deleted: by minute, the messages that the destination deleted since the step began.
    """

    obstacle: str = ""
    faults: Mapping[str, int] = field(default_factory=dict)
    main: QueueCounts | None = None
    dead_letters: QueueCounts | None = None
    ages: Mapping[int, float] = field(default_factory=dict)
    deleted: Mapping[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class StepWatch:
    """Finds out when every failure of a step has returned and was counted.

    Attributes:
        first_sent_at: when the first message of the step may have been sent; epoch seconds.
        sent_at: when the last one was.
        failure_seconds: how long a failure takes to return once the message is received: visibility
            timeout times maxReceiveCount.
        left_at: since when the step is known to have left the destination; None as long as it may
            wait there.
    """

    first_sent_at: float
    sent_at: float
    failure_seconds: float
    rules: RampRules = field(default_factory=RampRules)
    left_at: float | None = None
    _empty_looks: int = 0
    _looks_without_dead_letters: int = 0

    @property
    def ready_at(self) -> float:
        """The earliest moment for a verdict, epoch seconds. SQS's counts lag by up to a minute."""
        left_at = self.sent_at if self.left_at is None else self.left_at
        return left_at + self.failure_seconds + self.rules.minute_seconds

    def blocker(self, reading: Reading, now: float, expected: int) -> str:
        """Take a *reading*, and return why nobody can tell yet; empty if a verdict is possible.

        *expected* is how many messages of the step have succeeded if nothing else comes back.
        """
        self._look(reading, now)
        return next(filter(None, self._blockers(reading, now, expected)), "")

    def _blockers(self, reading: Reading, now: float, expected: int) -> Iterator[str]:
        yield reading.obstacle
        if self.left_at is None:
            waiting = f", where {reading.main.total:,} messages are" if reading.main else ""
            yield f"the step may still be in the main queue{waiting}"
        if now < self.ready_at:
            yield f"a failure may return for another {duration(self.ready_at - now)}"
        if self._looks_without_dead_letters < _LOOKS:
            yield "dead letters wait in the DLQ"
        for name, count in reading.faults.items():
            if count:
                yield f"the replay function had {count:,} {name} since the step"
        if not reading.deleted:
            yield "the main queue's metric NumberOfMessagesDeleted cannot be read"
        deleted = sum(reading.deleted.values())
        if deleted < expected:
            yield f"the consumer deleted {deleted:,} messages since the step, of {expected:,}"

    def _look(self, reading: Reading, now: float) -> None:
        if self.left_at is None:
            self.left_at = self._left_at(reading, now)
        has_none = reading.dead_letters is not None and not reading.dead_letters.visible
        is_due = self.left_at is not None and now >= self.ready_at
        self._looks_without_dead_letters = (
            self._looks_without_dead_letters + 1 if has_none and is_due else 0
        )

    def _left_at(self, reading: Reading, now: float) -> float | None:
        """Return when no message as old as the step's last one was in the queue any more."""
        seconds = self.rules.minute_seconds
        starts = {minute: minute * seconds for minute in sorted(reading.ages)}
        later = [minute for minute, start in starts.items() if start > self.sent_at]
        for minute in later:
            if reading.ages[minute] < starts[minute] - self.sent_at:
                return starts[minute]
        is_late = now >= self.sent_at + seconds
        is_empty = not later and reading.main is not None and not reading.main.total
        self._empty_looks = self._empty_looks + 1 if is_empty and is_late else 0
        # Nothing is in flight, so what failed has returned already.
        emptied_at = max(self.sent_at, now - self.failure_seconds)
        return emptied_at if self._empty_looks >= _LOOKS else None
