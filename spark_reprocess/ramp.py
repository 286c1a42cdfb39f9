"""The steps of a ramp: their sizes, their records, and when one is good. No Spark, no AWS.

A step is *good* only where every one of its failures had the time to return and to be counted. What
is not seen is never taken for success: the step stays *unknown*, with the reason, and waits.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from spark_reprocess.archive.ledger.claims import plan_folder
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.archive.storage.records import read_record, record_bytes
from spark_reprocess.aws.clients import QueueCounts
from spark_reprocess.figures import counted, duration

PATIENCE_MINUTES = 15
"""How long a run waits for a verdict. Also how old an error of the replay function must be so that
it no longer counts: by then the function has parked what it could not count."""

LOOKS_A_MINUTE = 6

_GROWTH = 2
_FIRST, _FEW = 20, 100
"""None of the first 20 messages may come back, and one of the first 100."""

_LOOKS = 2
"""SQS's counts are approximate: one look proves nothing."""


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


def returns_allowed(text: str | None, sent: int) -> int:
    """Return how many of *sent* messages of a group may come back, over all its steps.

    *text* is ``3`` or ``2.5%``; None: none of the first 20, one up to 100, 1 % of more.
    """
    if text is None:
        return 0 if sent <= _FIRST else max(1, sent // _FEW)
    if text.endswith("%"):
        return math.floor(Decimal(text[:-1]) * sent / 100)
    return int(text)


@dataclass(frozen=True, slots=True)
class Step:
    """One step to one queue. Groups begin at different steps.

    Attributes:
        number: from 1.
        run_id: of the run that made it.
        began_at: before its first claim; epoch seconds.
        messages: how many it has, by group id; once it is sent, how many of them SQS confirmed.
        returned_before: by group id, how many had been counted as returned when it was made.
        stops: by group id, how often the group had been stopped before.
        sent_at: when its last message was sent, or a little later, so that a wait is never too
            short; epoch seconds; None as long as some of it may still be sent.
    """

    number: int
    run_id: str
    began_at: float
    messages: Mapping[str, int]
    returned_before: Mapping[str, int]
    stops: Mapping[str, int]
    sent_at: float | None = None

    def expected(self, returned: Mapping[str, int]) -> int:
        """Return how many messages of a sent step have succeeded if nothing else comes back."""
        before = self.returned_before
        back = sum(max(0, returned.get(one, 0) - before[one]) for one in before)
        return sum(self.messages.values()) - back


@dataclass(frozen=True, slots=True)
class Steps:
    """The records of one plan's steps to one queue, in ``ledger/plan_id=<id>/steps/<queue>/``.

    ``00003.json`` is the third one, made before its first claim; ``00003.sent.json`` the same, made
    by a run that saw that everything of it that could be sent is sent.
    """

    archive: Archive
    plan_id: str
    queue: str

    def read(self) -> list[Step]:
        """Return all steps, in order; only the last one may not be sent. Raises ArchiveError."""
        steps: list[Step] = []
        while True:
            paths = (self._path(len(steps) + 1, end) for end in (".sent.json", ".json"))
            step = next(filter(None, (read_record(self.archive, one, Step) for one in paths)), None)
            if step is None:
                return steps
            steps.append(step)

    def create(self, step: Step) -> bool:
        """Write the record of a step that begins, or of one that is sent, durably.

        Return False where there is one: of several runs the first one's counts for all.
        """
        end = ".json" if step.sent_at is None else ".sent.json"
        return self.archive.create(self._path(step.number, end), record_bytes(step))

    def table(self, number: int, run_id: str) -> str:
        """Return the folder with the table of a step's messages; see ``frames.read_table``."""
        return self._path(number, f"-{run_id}")

    def _path(self, number: int, end: str) -> str:
        return f"{plan_folder(self.plan_id)}/steps/{self.queue}/{number:05d}{end}"


def ended_steps(steps: Sequence[Step]) -> int:
    """Return how many of the steps are sent."""
    return sum(step.sent_at is not None for step in steps)


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
        sent: messages that SQS confirmed, over all steps; of one that still goes on, all.
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


def group_ramp(
    group_id: str,
    own: Sequence[Step],
    left: int,
    returned: int | None,
    allowed: str | None,
    blocker: str,
    *,
    in_order: bool,
) -> GroupRamp:
    """Say how far a group is, by its *own* steps since it was last stopped, at least one. Pure.

    *left* of its messages are to be sent beside them; *returned* are counted, None if nothing is
    known. *blocker* says why nobody can tell yet whether the last step is good; empty if one can.
    With *in_order* what came back must go before what follows.
    """
    sent = sum(step.messages[group_id] for step in own)
    before = own[0].returned_before[group_id]
    back = None if returned is None else max(0, returned - before)
    most = returns_allowed(allowed, sent)
    verdict, why = Verdict.UNKNOWN, blocker
    if back is not None and back > most:
        verdict = Verdict.BAD
        why = f"{back:,} of {counted(sent, 'message')} came back, {most:,} may"
    elif own[-1].sent_at is not None and not left:
        verdict, why = Verdict.SENT, ""
    elif back is None:
        why = "it is not known what came back"
    elif in_order and back and not blocker:
        why = "what came back must go first: collect again"
    elif not blocker:
        verdict = Verdict.GOOD
    steps = len(step_sizes(left + sent))
    return GroupRamp(group_id, len(own), steps, sent, back, most, verdict, why)


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


def blocker_of(
    looks: Sequence[Reading],
    expected: int,
    sent_at: float,
    failure_seconds: float,
    minute_seconds: float,
) -> tuple[str, float]:
    """Return why nobody can tell yet whether a step is good, and the earliest moment for a verdict.

    The reason is empty if every failure has returned and was counted, by all *looks*. *expected*
    messages have succeeded if nothing else comes back; *sent_at* is when the last one was sent.
    A failure takes *failure_seconds* to return once the message is received. *minute_seconds* is a
    period of CloudWatch, by which SQS's counts lag, too.
    """
    last, left_at = looks[-1], _left_at(looks, sent_at, failure_seconds, minute_seconds)
    ready_at = (left_at or sent_at) + failure_seconds + minute_seconds
    counts = [look.dead_letters for look in looks[-_LOOKS:] if look.at >= ready_at]
    why = ""
    if last.obstacle:
        why = last.obstacle
    elif left_at is None:
        waiting = f"{last.main.total:,}" if last.main else "?"
        why = f"the step may still be in the main queue, where {waiting} messages are"
    elif last.at < ready_at:
        why = f"a failure may return for another {duration(ready_at - last.at)}"
    elif [one.visible for one in counts if one] != [0] * _LOOKS:
        why = "dead letters wait in the DLQ"
    elif last.deleted is None or last.deleted < expected:
        deleted = "?" if last.deleted is None else f"{last.deleted:,}"
        why = f"the consumer deleted {deleted} messages since the step, of {expected:,}"
    return why, ready_at


def _left_at(
    looks: Sequence[Reading], sent_at: float, failure_seconds: float, minute_seconds: float
) -> float | None:
    """Return since when the step has left the destination; None: it may wait there."""
    was_empty = False
    for look in looks:
        # Nothing as old as the step's last message was there any more.
        if starts := [at for at, age in look.ages.items() if age < at - sent_at]:
            return min(starts)
        # SQS counts nothing, and the metric has no data since the step.
        is_late, has_ages = look.at >= sent_at + minute_seconds, max(look.ages, default=0) > sent_at
        is_empty = is_late and not has_ages and look.main == QueueCounts()
        if was_empty and is_empty:
            # Nothing is in flight, so what failed has returned already.
            return max(sent_at, look.at - failure_seconds)
        was_empty = is_empty
    return None
