"""Verdicts on the steps of one ramp: the groups that may go on, those that wait, and for what.

It looks at queue, metrics and counters, and remembers what it saw.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dlq.explain.triage import GroupState
from dlq.redrive.ramping.step_records import Step, own_steps, step_size, unfinished_plan
from dlq.redrive.ramping.verdict_rules import (
    LOOKS,
    GroupRamp,
    QueueTimes,
    Reading,
    Verdict,
    VerdictBlocker,
    blocker_of,
    group_ramp,
    may_have_a_step,
    proven_after,
)

Counts = Mapping[str, int]
"""By group id, how many messages failed again; a group whose returns are not counted is missing."""

StepName = tuple[str, int]
"""The plan's id, and the number of the step."""

_NOT_LOOKED = VerdictBlocker("it has not been looked at yet")
_UNREAD = VerdictBlocker("the failure table cannot be read")
_NOT_ENDED = VerdictBlocker("the run that sent it was killed", is_final=True)


@dataclass
class Verdicts:
    """The verdicts on the last step of each group, in one run and to one destination.

    Attributes:
        plan_id: the plan that is carried out.
        earlier: the steps of plans before it, see ``earlier_steps``.
        state: what people say of a group.
        read_counts: reads the counters of a plan's groups; None where they cannot be read now.
        read: looks at everything once; takes when the step began, and now.
        delay_seconds: how long the destination itself delays each message.
        allowed: how many messages of a group may fail again; see ``returns_allowed``.
        in_order: whether what failed again must go before what follows it.
        newly_counted: the groups whose counters this run has made: they lack earlier steps.
        on_bad: is told once of each group of which too many failed again.
        steps: those of this plan, as read last.
        groups: how far each group is that has a step, by its id; as of the last look.
        here: the numbers of the steps that this run has sent.
    """

    plan_id: str
    earlier: Mapping[str, Sequence[Step]]
    state: Callable[[str], GroupState]
    read_counts: Callable[[str, Collection[str]], Counts | None]
    read: Callable[[float, float], Reading]
    now_seconds: Callable[[], float]
    times: QueueTimes
    delay_seconds: float = 0
    allowed: str | None = None
    in_order: bool = False
    newly_counted: Collection[str] = ()
    on_bad: Callable[[GroupRamp], object] = str
    steps: Sequence[Step] = ()
    groups: dict[str, GroupRamp] = field(default_factory=dict)
    here: set[int] = field(default_factory=set)
    _looks: dict[StepName, list[Reading]] = field(default_factory=dict)
    _blockers: dict[StepName, VerdictBlocker] = field(default_factory=dict)

    def last_steps(self, group_id: str) -> tuple[str, list[Step]]:
        """Return the steps of a group that its next one goes on from, and their plan; or none."""
        state = self.state(group_id)
        if own := own_steps(self.steps, group_id, state.halts):
            return self.plan_id, own

        plan_id = unfinished_plan(self.earlier, group_id, state)
        if plan_id is None:
            return self.plan_id, []
        return plan_id, own_steps(self.earlier[plan_id], group_id, state.halts)

    def look(self, left: Mapping[str, int]) -> None:
        """Look at the last steps of these groups, and judge them.

        *left* is how many messages of each are to be sent beside its steps.
        """
        counts = self._read_all_counts(left)
        for group_id in left:
            plan_id, own = self.last_steps(group_id)
            if own and left[group_id] and not self.is_bad(group_id):
                self._look_at(plan_id, own[-1], counts[plan_id])
        self.judge(left, counts)

    def judge(
        self, left: Mapping[str, int], counts: Mapping[str, Counts | None] | None = None
    ) -> None:
        """Judge the groups by what was seen so far, and by *counts*; None reads them now."""
        if counts is None:
            counts = self._read_all_counts(left)
        for ramp in self._ramps(left, counts):
            self.groups[ramp.group_id] = ramp
            if ramp.verdict is Verdict.BAD:
                self.on_bad(ramp)

    def is_any_bad(self, left: Mapping[str, int]) -> bool:
        """Return whether too many failed again of one of these groups by now. Note nothing."""
        ramps = self._ramps(left, self._read_all_counts(left))
        return any(ramp.verdict is Verdict.BAD for ramp in ramps)

    def is_bad(self, group_id: str) -> bool:
        """Return whether a group is halted by this run."""
        return group_id in self.groups and self.groups[group_id].verdict is Verdict.BAD

    def ready(self, left: Mapping[str, int]) -> dict[str, int]:
        """Return the groups that may have their next step now: how many messages it may have."""
        sizes: dict[str, int] = {}
        for group_id, count in left.items():
            plan_id, own = self.last_steps(group_id)
            ramp = self.groups.get(group_id) if own else None
            is_unseen = bool(own) and ramp is None
            if not count or is_unseen:
                continue
            is_here = bool(own) and plan_id == self.plan_id and own[-1].number in self.here
            if may_have_a_step(ramp, is_of_this_run=is_here):
                sizes[group_id] = step_size(self.proven(group_id), count)
        return sizes

    def proven(self, group_id: str) -> int:
        """Return how many messages of a group went in good steps."""
        _, own = self.last_steps(group_id)
        ramp = self.groups.get(group_id)
        verdict = ramp.verdict if ramp else Verdict.UNKNOWN
        return proven_after(own[-1] if own else None, group_id, verdict)

    def held_groups(self) -> list[str]:
        """Return the groups of which something may still fail again that must go first."""
        held: list[str] = []
        for group_id, ramp in self.groups.items():
            plan_id, own = self.last_steps(group_id)
            is_ours = bool(own) and plan_id == self.plan_id
            is_here = is_ours and own[-1].number in self.here
            may_return = ramp.verdict in (Verdict.UNKNOWN, Verdict.RETURNED)
            if is_ours and (may_return or (is_here and ramp.verdict is Verdict.UNPROVEN)):
                held.append(group_id)
        return held

    def waiting(self, left: Mapping[str, int]) -> list[GroupRamp]:
        """Return the groups whose verdict depends on something that can still happen."""
        ramps: list[GroupRamp] = []
        for group_id, count in left.items():
            ramp = self.groups.get(group_id) if count else None
            if ramp and ramp.verdict is Verdict.UNKNOWN:
                ramps.append(ramp)
        return ramps

    def has_looked_enough(self, waiting: Collection[GroupRamp]) -> bool:
        """Return whether a verdict on each of these groups does not wait for a look alone."""
        for ramp in waiting:
            looks = self._looks.get(self._name(ramp.group_id), [])
            if len(looks) < LOOKS:
                return False
        return True

    def ready_at(self, waiting: Collection[GroupRamp]) -> float:
        """Return the earliest moment for a verdict on one of these groups."""
        moments: list[float] = []
        for ramp in waiting:
            blocker = self._blockers.get(self._name(ramp.group_id), _NOT_LOOKED)
            moments.append(blocker.ready_at)
        return min(moments, default=0)

    def why_not(self, left: Mapping[str, int]) -> str:
        """Return why a group has no next step now, and what ends that; empty if none is in the way.

        A wait for a time is named first.
        """
        ramps_by_verdict = defaultdict[Verdict, list[GroupRamp]](list)
        # A copy: progress asks in a thread of its own.
        for group_id, ramp in list(self.groups.items()):
            if left.get(group_id):
                ramps_by_verdict[ramp.verdict].append(ramp)

        if waiting := ramps_by_verdict[Verdict.UNKNOWN]:
            return self._why_unknown(waiting)
        if unproven := ramps_by_verdict[Verdict.UNPROVEN]:
            return f"{unproven[0].reason}; the next run sends step {unproven[0].step} once more"
        if returned := ramps_by_verdict[Verdict.RETURNED]:
            return returned[0].reason
        return ""

    def _why_unknown(self, waiting: Sequence[GroupRamp]) -> str:
        """Return why the first of these groups cannot be judged yet, and from when it can."""
        first = waiting[0]
        ready_at = self.ready_at(waiting)
        if ready_at <= self.now_seconds():
            return f"step {first.step} cannot be judged yet: {first.reason}"
        after = f"{datetime.fromtimestamp(ready_at, UTC):%H:%M} UTC"
        return f"step {first.step} can be judged after {after}: {first.reason}"

    def _name(self, group_id: str) -> StepName:
        plan_id, own = self.last_steps(group_id)
        return plan_id, own[-1].number if own else 0

    def _read_all_counts(self, groups: Collection[str]) -> dict[str, Counts | None]:
        """Read the counters of the plans whose steps count for these groups."""
        plan_ids: set[str] = set()
        for group_id in groups:
            plan_id, own = self.last_steps(group_id)
            if own:
                plan_ids.add(plan_id)

        counts: dict[str, Counts | None] = {}
        for plan_id in plan_ids:
            # Also of its other groups: their returns tell how many of a step were handled.
            groups_of_plan: set[str] = set()
            for step in self._steps_of(plan_id):
                groups_of_plan.update(step.messages)
            counts[plan_id] = self.read_counts(plan_id, groups_of_plan)
        return counts

    def _look_at(self, plan_id: str, step: Step, counts: Counts | None) -> None:
        """Look once at a step that something still keeps from a verdict."""
        name = (plan_id, step.number)
        blocker = self._blockers.get(name)
        if blocker and (not blocker.reason or blocker.is_final):
            return

        now = self.now_seconds()
        looks = self._looks.setdefault(name, [])
        if looks and looks[-1].at == now:
            # Another group has the same last step.
            return
        if step.sent_at is None:
            self._blockers[name] = _NOT_ENDED
            return
        looks.append(self.read(step.began_at, now))

        expected = 0
        for later_step in self._steps_of(plan_id):
            if later_step.number >= step.number and later_step.sent_at is not None:
                expected += later_step.expected(counts or {})
        sent_at = step.sent_at + self.delay_seconds
        self._blockers[name] = blocker_of(looks, expected, sent_at, self.times)

    def _steps_of(self, plan_id: str) -> Sequence[Step]:
        return self.steps if plan_id == self.plan_id else self.earlier[plan_id]

    def _ramps(
        self, left: Mapping[str, int], counts: Mapping[str, Counts | None]
    ) -> list[GroupRamp]:
        """Return how far the groups are that have a step and are not halted by this run."""
        ramps: list[GroupRamp] = []
        for group_id, count in left.items():
            plan_id, own = self.last_steps(group_id)
            if not own or self.is_bad(group_id):
                continue

            number = own[-1].number
            is_ours = plan_id == self.plan_id
            blocker = self._blockers.get((plan_id, number), _NOT_LOOKED)
            counts_of_plan = counts[plan_id]
            returned: int | None = None
            if counts_of_plan is None:
                blocker = _UNREAD
            elif not (is_ours and group_id in self.newly_counted and number not in self.here):
                returned = counts_of_plan.get(group_id)

            ramp = group_ramp(
                group_id,
                own,
                count,
                returned,
                self.allowed,
                blocker,
                in_order=self.in_order and is_ours,
            )
            ramps.append(ramp)
        return ramps
