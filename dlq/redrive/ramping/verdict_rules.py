"""The rules by which a step of a ramp is good. Pure.

A step is *good* only if each of its failures had the time to return and to be counted. Missing data
never counts as success: the step stays *unknown*, with the reason, and waits for data that can
still come. If none can come any more, the step is *unproven*: a later run sends a step of the same
size. So no group waits for ever, and no run sends more than one step to an unproven destination.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from dlq.aws.clients import QueueCounts
from dlq.figures import counted, duration
from dlq.redrive.ramping.step_records import Step, step_sizes

PATIENCE_MINUTES = 15
"""The time that a run waits for a verdict. Also the age at which an error of the replay function
no longer counts: by then the function has parked the messages that it could not count."""

LOOKS_A_MINUTE = 6

_FIRST = 20
_FEW = 100
"""None of the first 20 messages may fail again, and one of the first 100."""

LOOKS = 2
"""The number of looks at a queue. SQS's counts are approximate: one look proves nothing."""


def returns_allowed(text: str | None, sent: int) -> int:
    """Return how many of *sent* messages of a group may fail again, over all its steps.

    *text* is ``3`` or ``2.5%``; None: none of the first 20, one up to 100, 1 % of more.

    >>> [returns_allowed(None, sent) for sent in (20, 21, 100, 250)]
    [0, 1, 1, 2]
    >>> returns_allowed("2.5%", sent=250)
    6
    >>> returns_allowed("3", sent=250)
    3
    """
    if text is None:
        return 0 if sent <= _FIRST else max(1, sent // _FEW)
    if text.endswith("%"):
        return math.floor(Decimal(text[:-1]) * sent / 100)
    return int(text)


class Verdict(StrEnum):
    """Verdict on the last step of a group."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"
    """Not known yet, but it can become known."""
    UNPROVEN = "unproven"
    """It cannot become known any more: a later run sends a step of the same size."""
    RETURNED = "returned"
    """On FIFO some failed again, no more than allowed: a later plan, which has them, goes on."""
    SENT = "sent"
    """It was the last step: nothing waits for a verdict."""


@dataclass(frozen=True, slots=True)
class VerdictBlocker:
    """Reason why it is not known yet whether a step is good.

    Attributes:
        reason: empty if it is known.
        ready_at: the earliest time of a verdict, as far as known; epoch seconds.
        is_final: whether the reason will never end.
    """

    reason: str = ""
    ready_at: float = 0
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class GroupRamp:
    """Progress of a group.

    Attributes:
        step: its last step, from 1; a step that is repeated has the same number.
        steps: the number of steps if every message goes.
        sent: messages that SQS confirmed, over all steps of a plan; of an unfinished step, all.
        returned: how many of them failed again; None if that is not known.
        allowed: how many may fail again.
        reason: of the verdict; empty for a good one.
    """

    group_id: str
    step: int
    steps: int
    sent: int
    returned: int | None
    allowed: int
    verdict: Verdict
    reason: str = ""


def group_ramp(
    group_id: str,
    own: Sequence[Step],
    left: int,
    returned: int | None,
    allowed: str | None,
    blocker: VerdictBlocker,
    *,
    in_order: bool,
) -> GroupRamp:
    """Return the progress of a group by its *own* steps since its last halt, at least one. Pure.

    Args:
        group_id: of the group.
        own: its steps, in order.
        left: how many of its messages are to be sent beside these steps.
        returned: how many returns are counted; None if they are not counted any more.
        allowed: see ``returns_allowed``.
        blocker: of the last step.
        in_order: whether messages that failed again must go before those behind them.
    """
    last = own[-1]
    sent = sum(step.messages[group_id] for step in own)
    most = returns_allowed(allowed, sent)
    before = own[0].returned_before[group_id]
    back = None if returned is None else max(0, returned - before)

    is_last_of_all = last.sent_at is not None and not left
    if back is not None and back > most:
        verdict = Verdict.BAD
        reason = f"{back:,} of {counted(sent, 'message')} failed again, {most:,} allowed"
    elif is_last_of_all:
        verdict = Verdict.SENT
        reason = ""
    elif blocker.reason:
        verdict = Verdict.UNPROVEN if blocker.is_final else Verdict.UNKNOWN
        reason = blocker.reason
    elif back is None:
        verdict = Verdict.UNPROVEN
        reason = "what failed again is not counted any more"
    elif in_order and back:
        verdict = Verdict.RETURNED
        reason = "what failed again must go first: collect again"
    else:
        verdict = Verdict.GOOD
        reason = ""

    proven = last.proven[group_id]
    step = len(step_sizes(proven)) + 1
    # As if the last step were good.
    further_sizes = step_sizes(left, proven + last.messages[group_id])
    return GroupRamp(
        group_id=group_id,
        step=step,
        steps=step + len(further_sizes),
        sent=sent,
        returned=back,
        allowed=most,
        verdict=verdict,
        reason=reason,
    )


def proven_after(last: Step | None, group_id: str, verdict: Verdict) -> int:
    """Return the number of a group's messages in good steps, by the verdict on the *last* step."""
    if last is None:
        return 0
    proven = last.proven[group_id]
    if verdict is Verdict.GOOD:
        proven += last.messages[group_id]
    return proven


def may_have_a_step(last: GroupRamp | None, *, is_of_this_run: bool) -> bool:
    """Return whether a group may have its next step now, after the *last* one; None if it has none.

    An unproven step is repeated by a later run than the one that sent it: a function that never
    counts returns must not get step after step.
    """
    if last is None or last.verdict is Verdict.GOOD:
        return True
    return last.verdict is Verdict.UNPROVEN and not is_of_this_run


@dataclass(frozen=True, slots=True)
class Reading:
    """Measurements at one time. None and an empty mapping: not known.

    Attributes:
        at: the time, epoch seconds.
        obstacle: what keeps dead letters from being counted, or replays from the queue, at this
            time; empty if nothing does.
        uncounted: returns since the step began that will never be counted.
        main: SQS's counts of the destination.
        dead_letters: SQS's counts of its DLQ.
        ages: the age in seconds of the destination's oldest message, by the begin of each period.
        deleted: messages that the destination deleted since the step began.
    """

    at: float
    obstacle: str = ""
    uncounted: int = 0
    main: QueueCounts | None = None
    dead_letters: QueueCounts | None = None
    ages: Mapping[float, float] = field(default_factory=dict)
    deleted: int | None = None


@dataclass(frozen=True, slots=True)
class QueueTimes:
    """Durations at a destination, in seconds.

    Attributes:
        failure: from the first receive of a message that always fails to its return.
        retention: after this time SQS deletes a message that was not received.
        minute: a period of CloudWatch; SQS's counts are late by the same time.
    """

    failure: float
    retention: float
    minute: float = 60


def blocker_of(
    looks: Sequence[Reading], expected: int, sent_at: float, times: QueueTimes
) -> VerdictBlocker:
    """Return why nobody knows whether a step is good, by all *looks*; see ``VerdictBlocker``. Pure.

    Nothing blocks if every failure has returned and was counted. The first reason that fits counts.

    Args:
        looks: the measurements since the step was sent, in order; at least one.
        expected: how many of its messages have succeeded if no more fail again.
        sent_at: when its last message was sent; epoch seconds.
        times: of the destination.
    """
    last = looks[-1]
    left_at = _left_at(looks, sent_at, times)
    ready_at = (left_at or sent_at) + times.failure + times.minute
    expires_at = sent_at + times.retention

    is_final = False
    if last.uncounted:
        reason = f"the replay function could not count {counted(last.uncounted, 'return')}"
        is_final = True
    elif last.obstacle:
        reason = last.obstacle
    elif (left_at or last.at) >= expires_at:
        reason = "the step may have expired in the main queue before anybody received it"
        is_final = True
    elif left_at is None:
        waiting = f"{last.main.total:,}" if last.main else "?"
        reason = f"the step may still be in the main queue, where {waiting} messages are"
    elif last.at < ready_at:
        reason = f"a failure may return for another {duration(ready_at - last.at)}"
    elif not _dlq_is_empty(looks, ready_at):
        reason = "dead letters wait in the DLQ"
    elif last.deleted is None or last.deleted < expected:
        deleted = "?" if last.deleted is None else f"{last.deleted:,}"
        reason = f"the consumer deleted {deleted} messages since the step, of {expected:,}"
        # The metric may be late.
        is_final = last.at >= ready_at + PATIENCE_MINUTES * times.minute
    else:
        reason = ""

    return VerdictBlocker(reason, ready_at, is_final)


def _dlq_is_empty(looks: Sequence[Reading], ready_at: float) -> bool:
    """Return whether each of the last ``LOOKS`` looks, from *ready_at* on, saw an empty DLQ."""
    for look in looks[-LOOKS:]:
        if look.at < ready_at or look.dead_letters is None or look.dead_letters.visible:
            return False
    return len(looks) >= LOOKS


def _left_at(looks: Sequence[Reading], sent_at: float, times: QueueTimes) -> float | None:
    """Return since when the step has left the destination; None: it may wait there."""
    was_empty = False
    for look in looks:
        # In these periods no message was as old as the step's last message.
        starts = [at for at, age in look.ages.items() if age < at - sent_at]
        if starts:
            return min(starts)

        # SQS counts no message, and the metric has no data since the step.
        is_late = look.at >= sent_at + times.minute
        has_ages = max(look.ages, default=0) > sent_at
        is_empty = is_late and not has_ages and look.main == QueueCounts()
        if was_empty and is_empty:
            # Nothing is in flight, so what failed has returned already.
            return max(sent_at, look.at - times.failure)
        was_empty = is_empty
    return None
