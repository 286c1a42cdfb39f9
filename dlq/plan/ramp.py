"""The steps of a ramp: their sizes, their records, and when one is good. No Spark, no AWS.

A step is *good* only where every one of its failures had the time to return and to be counted. What
is not seen is never taken for success: the step stays *unknown*, with the reason, and waits for
what can still happen. Where nothing can, it is *unproven*: a later run sends a step of the same
size. So no group waits for ever, and no run sends more than one step to what is not proven.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from dlq.archive.ledger.claims import list_runs, plan_folder
from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import read_record, record_bytes
from dlq.aws.clients import QueueCounts
from dlq.explain.triage import GroupState
from dlq.figures import counted, duration

PATIENCE_MINUTES = 15
"""How long a run waits for a verdict. Also how old an error of the replay function must be so that
it no longer counts: by then the function has parked what it could not count."""

LOOKS_A_MINUTE = 6

_RETURNED = "returned.json"

_GROWTH = 2
_FIRST, _FEW = 20, 100
"""None of the first 20 messages may come back, and one of the first 100."""

LOOKS = 2
"""SQS's counts are approximate: one look proves nothing."""

EARLIER_PLANS = 7
"""Of so many plans before this one a group goes on with its ramp: a week of nights."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The sizes of the steps of the largest group, and how long all take at least."""

    sizes: tuple[int, ...]
    seconds: float


def step_size(proven: int, left: int) -> int:
    """Return how many of *left* messages the next step has, after *proven* ones in good steps."""
    return min(left, max(1, _GROWTH * proven))


def step_sizes(messages: int, proven: int = 0) -> list[int]:
    """Return the sizes of the steps of so many messages, after *proven* ones, if all are good."""
    sizes: list[int] = []
    while (left := messages - sum(sizes)) > 0:
        sizes.append(step_size(proven + sum(sizes), left))
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
        proven: by group id, how many messages went in good steps before it, in this plan and in
            earlier ones whose ramp it goes on with.
        left: by group id, how many messages the run had to send beside it.
        sent_at: when its last message was sent, or a little later, so that a wait is never too
            short; epoch seconds; None as long as some of it may still be sent.
    """

    number: int
    run_id: str
    began_at: float
    messages: Mapping[str, int]
    returned_before: Mapping[str, int]
    stops: Mapping[str, int]
    proven: Mapping[str, int]
    left: Mapping[str, int]
    sent_at: float | None = None

    def expected(self, returned: Mapping[str, int]) -> int:
        """Return how many messages of a sent step have succeeded if nothing else comes back."""
        before = self.returned_before
        back = sum(max(0, returned.get(one, 0) - before[one]) for one in before)
        return sum(self.messages.values()) - back


@dataclass(frozen=True, slots=True)
class LastCount:
    """How many messages of each group had come back when a run counted last.

    Attributes:
        at: epoch seconds.
        returned: by group id; what the counters of the plan said.
    """

    at: float
    returned: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Steps:
    """The records of one plan's steps to one queue, in ``ledger/plan_id=<id>/steps/<queue>/``.

    ``00003.json`` is the third one, made before its first claim; ``00003.sent.json`` the same, made
    by a run that saw that everything of it that could be sent is sent. ``returned.json`` is for
    those who look later and have no failure table.
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

    def note_returns(self, count: LastCount) -> None:
        """Write down what came back by now. Raises ArchiveError."""
        path = f"{_steps_folder(self.plan_id)}/{self.queue}/{_RETURNED}"
        self.archive.write(path, record_bytes(count))

    def table(self, number: int, run_id: str) -> str:
        """Return the folder with the table of a step's messages; see ``table_parts.read_whole``."""
        return self._path(number, f"-{run_id}")

    def _path(self, number: int, end: str) -> str:
        return f"{_steps_folder(self.plan_id)}/{self.queue}/{number:05d}{end}"


def _steps_folder(plan_id: str) -> str:
    return f"{plan_folder(plan_id)}/steps"


def last_counts(archive: Archive, plan_id: str) -> dict[str, LastCount]:
    """Read how many messages of a plan had come back when its ramps counted last, by group id.

    A group is missing of which no ramp has counted anything. Raises ArchiveError.
    """
    counts: dict[str, LastCount] = {}
    for path in archive.list(_steps_folder(plan_id)):
        if not path.endswith(f"/{_RETURNED}"):
            continue
        count = read_record(archive, path, LastCount)
        for group_id in count.returned if count else ():
            # The queues of a plan share the counters of a group.
            known = counts.get(group_id)
            if count and (known is None or known.at < count.at):
                counts[group_id] = count
    return counts


def ended_steps(steps: Sequence[Step]) -> int:
    """Return how many of the steps are sent."""
    return sum(step.sent_at is not None for step in steps)


def earlier_steps(archive: Archive, plan_id: str, queue: str) -> dict[str, list[Step]]:
    """Read the steps to one queue of the last plans before *plan_id* that were carried out.

    The newest is the first; those without a ramp to this queue are missing.
    """
    plans = sorted({plan for plan, _ in list_runs(archive) if plan < plan_id}, reverse=True)
    read = {plan: Steps(archive, plan, queue).read() for plan in plans[:EARLIER_PLANS]}
    return {plan: steps for plan, steps in read.items() if steps}


def own_steps(steps: Sequence[Step], group_id: str, stops: int) -> list[Step]:
    """Return the steps of a group since it was last stopped, of *stops* times in all."""
    return [step for step in steps if step.stops.get(group_id) == stops]


def unfinished_plan(
    earlier: Mapping[str, Sequence[Step]], group_id: str, state: GroupState
) -> str | None:
    """Return the plan whose ramp a group without a step goes on with; None to begin with one. Pure.

    That is the newest of the *earlier* plans, newest first, that has a step of it, if that one left
    some of its messages, and nobody has decided the group since.
    """
    for plan_id, steps in earlier.items():
        if own := own_steps(steps, group_id, state.stops):
            is_unfinished = own[-1].left[group_id] > 0
            is_decided_since = (state.plan_id or "") > plan_id
            return plan_id if is_unfinished and not is_decided_since else None
    return None


class Verdict(StrEnum):
    """What is known of the last step of a group."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"
    """Not known yet: something that can still happen tells."""
    UNPROVEN = "unproven"
    """Nothing that can still happen tells: a later run sends a step of the same size."""
    RETURNED = "returned"
    """On FIFO some came back, no more than may: a later plan goes on, which has them."""
    SENT = "sent"
    """It was the last one: nothing waits for a verdict."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why nobody can tell yet whether a step is good.

    Attributes:
        why: empty if one can tell.
        ready_at: the earliest moment for a verdict, as far as known; epoch seconds.
        is_final: whether nothing that can still happen ends it.
    """

    why: str = ""
    ready_at: float = 0
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class GroupRamp:
    """How far a group is.

    Attributes:
        step: its last step, from 1; a step that is repeated has the same number.
        steps: how many there are if every message goes.
        sent: messages that SQS confirmed, over all steps of a plan; of one that still goes on, all.
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
    blocker: Blocker,
    *,
    in_order: bool,
) -> GroupRamp:
    """Say how far a group is, by its *own* steps since it was last stopped, at least one. Pure.

    *left* of its messages are to be sent beside them; *returned* are counted, None if nobody counts
    them any more. With *in_order* what came back must go before what follows.
    """
    sent = sum(step.messages[group_id] for step in own)
    before = own[0].returned_before[group_id]
    back = None if returned is None else max(0, returned - before)
    most = returns_allowed(allowed, sent)
    verdict, why = Verdict.GOOD, ""
    if back is not None and back > most:
        verdict = Verdict.BAD
        why = f"{back:,} of {counted(sent, 'message')} came back, {most:,} may"
    elif own[-1].sent_at is not None and not left:
        verdict = Verdict.SENT
    elif blocker.why:
        verdict = Verdict.UNPROVEN if blocker.is_final else Verdict.UNKNOWN
        why = blocker.why
    elif back is None:
        verdict = Verdict.UNPROVEN
        why = "nobody counts what came back any more"
    elif in_order and back:
        verdict = Verdict.RETURNED
        why = "what came back must go first: collect again"
    proven = own[-1].proven[group_id]
    step = len(step_sizes(proven)) + 1
    # As if the last one were good.
    steps = step + len(step_sizes(left, proven + own[-1].messages[group_id]))
    return GroupRamp(group_id, step, steps, sent, back, most, verdict, why)


def proven_after(last: Step | None, group_id: str, verdict: Verdict) -> int:
    """Return how many messages of a group went in good steps, by the verdict on the *last* one."""
    if last is None:
        return 0
    before = last.proven[group_id]
    return before + last.messages[group_id] if verdict is Verdict.GOOD else before


def may_have_a_step(last: GroupRamp | None, *, is_of_this_run: bool) -> bool:
    """Whether a group may have its next step now, after the *last* one; None where it has none.

    What is unproven is repeated by a later run than the one that sent it: a function that never
    counts what comes back must not get step after step.
    """
    if last is None or last.verdict is Verdict.GOOD:
        return True
    return last.verdict is Verdict.UNPROVEN and not is_of_this_run


@dataclass(frozen=True, slots=True)
class Reading:
    """What is seen at one moment. None and an empty mapping: not known.

    Attributes:
        at: the moment, epoch seconds.
        obstacle: what keeps dead letters from being counted, or replays from the queue, at this
            moment; empty if nothing does.
        uncounted: returns since the step began that nobody will count any more.
        main: SQS's counts of the destination.
        dead_letters: those of its DLQ.
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
    """How long things take at a destination, in seconds.

    Attributes:
        failure: from the first receive of a message that always fails to its return.
        retention: after that SQS deletes a message that nobody received.
        minute: a period of CloudWatch, by which SQS's counts lag, too.
    """

    failure: float
    retention: float
    minute: float = 60


def blocker_of(
    looks: Sequence[Reading], expected: int, sent_at: float, times: QueueTimes
) -> Blocker:
    """Return why nobody can tell whether a step is good, by all *looks*; see ``Blocker``. Pure.

    Nobody is in the way if every failure has returned and was counted. *expected* messages have
    succeeded if nothing else comes back; *sent_at* is when the last one was sent.
    """
    last, left_at = looks[-1], _left_at(looks, sent_at, times)
    expires_at = sent_at + times.retention
    ready_at = (left_at or sent_at) + times.failure + times.minute
    counts = [look.dead_letters for look in looks[-LOOKS:] if look.at >= ready_at]
    why, is_final = "", False
    if last.uncounted:
        why = f"the replay function could not count {counted(last.uncounted, 'return')}"
        is_final = True
    elif last.obstacle:
        why = last.obstacle
    elif (left_at or last.at) >= expires_at:
        why = "the step may have expired in the main queue before anybody received it"
        is_final = True
    elif left_at is None:
        waiting = f"{last.main.total:,}" if last.main else "?"
        why = f"the step may still be in the main queue, where {waiting} messages are"
    elif last.at < ready_at:
        why = f"a failure may return for another {duration(ready_at - last.at)}"
    elif [one.visible for one in counts if one] != [0] * LOOKS:
        why = "dead letters wait in the DLQ"
    elif last.deleted is None or last.deleted < expected:
        deleted = "?" if last.deleted is None else f"{last.deleted:,}"
        why = f"the consumer deleted {deleted} messages since the step, of {expected:,}"
        # The metric may be late.
        is_final = last.at >= ready_at + PATIENCE_MINUTES * times.minute
    return Blocker(why, ready_at, is_final)


def _left_at(looks: Sequence[Reading], sent_at: float, times: QueueTimes) -> float | None:
    """Return since when the step has left the destination; None: it may wait there."""
    was_empty = False
    for look in looks:
        # Nothing as old as the step's last message was there any more.
        if starts := [at for at, age in look.ages.items() if age < at - sent_at]:
            return min(starts)
        # SQS counts nothing, and the metric has no data since the step.
        is_late, has_ages = look.at >= sent_at + times.minute, max(look.ages, default=0) > sent_at
        is_empty = is_late and not has_ages and look.main == QueueCounts()
        if was_empty and is_empty:
            # Nothing is in flight, so what failed has returned already.
            return max(sent_at, look.at - times.failure)
        was_empty = is_empty
    return None
