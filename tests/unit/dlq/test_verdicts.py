"""Verdicts on groups: some go on, some wait, and each wait ends, in one plan and over nights."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from dlq.aws.clients import QueueCounts
from dlq.explain.triage import GroupState
from dlq.redrive.ramping.step_records import Step
from dlq.redrive.ramping.verdict_rules import GroupRamp, QueueTimes, Reading, Verdict
from dlq.redrive.ramping.verdicts import Counts, Verdicts
from tests.support.ramp_steps import a_step

EMPTY = QueueCounts()
MINUTE = 60.0
HOUR = 3600.0
DAY = 86_400.0
TIMES = QueueTimes(failure=90, retention=4 * DAY)
PLAN = "p-2"
YESTERDAY = "p-1"
SENT_AT = 1000.0
LEFT = {"g": 20}

ALL_IS_WELL: dict[str, Any] = {
    "main": EMPTY,
    "dead_letters": EMPTY,
    "ages": {SENT_AT + MINUTE: 5.0},
    "deleted": 99,
}


@dataclass
class World:
    """The queue and the counters as a run sees them. Each look takes ten seconds.

    Attributes:
        seen: what differs from a step that went well, at each moment.
        counts: how many failed again, by plan and group; None where nobody can read that.
    """

    seen: dict[str, Any] = field(default_factory=dict)
    counts: Mapping[str, Counts] | None = None
    states: dict[str, GroupState] = field(default_factory=dict)
    now: float = SENT_AT + HOUR
    readings: list[float] = field(default_factory=list)
    bad: list[GroupRamp] = field(default_factory=list)

    def verdicts(self, **changes: Any) -> Verdicts:
        given: dict[str, Any] = {
            "plan_id": PLAN,
            "earlier": {},
            "state": lambda group_id: self.states.get(group_id, GroupState()),
            "read_counts": self.read_counts,
            "read": self.read,
            "now_seconds": lambda: self.now,
            "times": TIMES,
            "on_bad": self.bad.append,
            **changes,
        }
        return Verdicts(**given)

    def read_counts(self, plan_id: str, groups: Collection[str]) -> Counts | None:
        return None if self.counts is None else self.counts.get(plan_id, {})

    def read(self, began_at: float, now: float) -> Reading:
        self.readings.append(began_at)
        return Reading(now, **{**ALL_IS_WELL, **self.seen})

    def look(self, verdicts: Verdicts, left: Mapping[str, int], times: int = 2) -> None:
        for _ in range(times):
            self.now += 10
            verdicts.look(left)


def of_yesterday(*steps: Step, **changes: Any) -> dict[str, Any]:
    return {"earlier": {YESTERDAY: list(steps)}, **changes}


def sent(number: int, group_id: str = "g", messages: int = 1, **fields: Any) -> Step:
    fields = {"began_at": SENT_AT, "sent_at": SENT_AT, **fields}
    return a_step(number, group_id, messages, **fields)


NONE_BACK = {YESTERDAY: {"g": 0}, PLAN: {"g": 0}}


def test_group_of_a_new_plan_goes_on_with_the_step_that_it_had_reached() -> None:
    world = World(counts=NONE_BACK)
    verdicts = world.verdicts(**of_yesterday(sent(3, messages=6, proven=3)))

    assert verdicts.ready(LEFT) == {}
    world.look(verdicts, LEFT)

    assert verdicts.ready(LEFT) == {"g": 18}
    assert verdicts.proven("g") == 9


EXPIRED = {"now": SENT_AT + 5 * DAY, "seen": {"ages": {SENT_AT + 5 * DAY: 5.0}}}


@pytest.mark.parametrize(
    ("changes", "step", "why"),
    [
        # Of ten messages one expired, or somebody purged it, on a quiet queue.
        ({"seen": {"deleted": 5}}, {}, "the consumer deleted 5 messages since the step, of 6"),
        ({"seen": {"deleted": None}}, {}, "the consumer deleted ? messages since the step"),
        (EXPIRED, {}, "may have expired in the main queue"),
        ({"seen": {"uncounted": 1}}, {}, "could not count 1 return"),
        # The counters have expired.
        ({"counts": {YESTERDAY: {}}}, {}, "what failed again is not counted any more"),
        # The run was killed while it sent.
        ({}, {"sent_at": None}, "the run that sent it was killed"),
    ],
)
def test_what_nobody_will_ever_know_repeats_the_same_size(
    changes: dict[str, Any], step: dict[str, Any], why: str
) -> None:
    world = World(**{"counts": NONE_BACK, **changes})
    verdicts = world.verdicts(**of_yesterday(sent(3, messages=6, proven=3, **step)))

    world.look(verdicts, LEFT)

    assert verdicts.ready(LEFT) == {"g": 6}
    assert verdicts.waiting(LEFT) == []
    assert why in verdicts.groups["g"].reason
    assert verdicts.proven("g") == 3


@pytest.mark.parametrize(
    "seen",
    [
        {"obstacle": "limited to 1 replay a minute"},
        {"obstacle": "nothing feeds the replay function; turn its trigger on: dlq resume"},
        {"ages": {SENT_AT + MINUTE: 500.0}, "main": QueueCounts(1)},
        {"dead_letters": QueueCounts(visible=1)},
    ],
)
def test_each_other_reason_ends_and_holds_up_no_other_group(seen: dict[str, Any]) -> None:
    world = World(seen=seen, counts={YESTERDAY: {"g": 0}, PLAN: {"g": 0, "new": 0}})
    verdicts = world.verdicts(**of_yesterday(sent(3, messages=6, proven=3)))
    left = {"g": 20, "new": 9}

    world.look(verdicts, left, times=99)

    assert verdicts.ready(left) == {"new": 1}
    assert [ramp.group_id for ramp in verdicts.waiting(left)] == ["g"]
    assert verdicts.why_not(left).startswith("step 3 cannot be judged yet: ")
    # The consumer works, the trigger is on, the limit is over, the DLQ is empty.
    world.seen = {}
    world.look(verdicts, left)
    assert verdicts.ready(left) == {"g": 18, "new": 1}


def test_a_step_that_nobody_receives_is_repeated_when_it_has_expired() -> None:
    world = World(seen={"ages": {}, "main": QueueCounts(6), "deleted": 0}, counts=NONE_BACK)
    verdicts = world.verdicts(**of_yesterday(sent(3, messages=6, proven=3)))

    world.look(verdicts, LEFT)
    assert verdicts.ready(LEFT) == {}
    world.now = SENT_AT + 4 * DAY
    world.look(verdicts, LEFT)

    assert verdicts.ready(LEFT) == {"g": 6}


def test_a_failure_that_may_still_return_has_a_time() -> None:
    world = World(now=SENT_AT + MINUTE, counts=NONE_BACK)
    verdicts = world.verdicts(**of_yesterday(sent(1)))

    world.look(verdicts, LEFT)

    assert verdicts.why_not(LEFT).startswith("step 1 can be judged after 00:20 UTC: ")
    assert verdicts.ready_at(verdicts.waiting(LEFT)) == SENT_AT + MINUTE + 90 + MINUTE
    world.now = SENT_AT + HOUR
    world.look(verdicts, LEFT)
    assert verdicts.ready(LEFT) == {"g": 2}


def test_too_many_that_came_back_of_an_earlier_plan_stop_the_group_once() -> None:
    world = World(counts={YESTERDAY: {"g": 2}})
    verdicts = world.verdicts(**of_yesterday(sent(3, messages=6, proven=3)))

    world.look(verdicts, LEFT, times=9)

    assert verdicts.ready(LEFT) == {}
    assert [ramp.reason for ramp in world.bad] == ["2 of 6 messages failed again, 0 allowed"]
    assert verdicts.is_bad("g")
    assert verdicts.why_not(LEFT) == ""


def test_run_repeats_no_step_that_it_sent_itself() -> None:
    """A function that never counts what fails again must not get step after step."""
    world = World(seen={"uncounted": 1}, counts=NONE_BACK)
    verdicts = world.verdicts(steps=[sent(1)], here={1})

    world.look(verdicts, LEFT)

    assert verdicts.groups["g"].verdict is Verdict.UNPROVEN
    assert verdicts.ready(LEFT) == {}
    assert verdicts.why_not(LEFT).endswith("; the next run sends step 1 once more")
    assert world.verdicts(steps=[sent(1)]).ready(LEFT) == {}
    later = world.verdicts(steps=[sent(1)])
    world.look(later, LEFT)
    assert later.ready(LEFT) == {"g": 1}


def test_counters_that_this_run_made_tell_nothing_of_what_was_sent_before() -> None:
    world = World(counts=NONE_BACK)
    older = world.verdicts(steps=[sent(1)], newly_counted=())
    newer = world.verdicts(steps=[sent(1)], newly_counted={"g"})
    world.look(older, LEFT)
    world.look(newer, LEFT)

    verdicts_before = older.groups["g"].verdict, newer.groups["g"].verdict
    assert verdicts_before == (Verdict.GOOD, Verdict.UNPROVEN)
    # Of its own next step they do.
    newer.steps = [sent(1), sent(2)]
    newer.here = {2}
    world.look(newer, LEFT)
    assert newer.groups["g"].verdict is Verdict.GOOD


def test_on_fifo_a_return_that_was_allowed_holds_its_plan_and_not_the_next() -> None:
    world = World(counts={YESTERDAY: {"g": 1}, PLAN: {"g": 1, "new": 0}})
    fields: dict[str, Any] = {"allowed": "1", "in_order": True}
    same = world.verdicts(**fields, steps=[sent(2, messages=2, proven=1)])
    new = world.verdicts(**fields, **of_yesterday(sent(2, messages=2, proven=1)))
    left = {"g": 20, "new": 9}
    for verdicts in (same, new):
        world.look(verdicts, left)

    assert same.ready(left) == {"new": 1}
    assert same.held_groups() == ["g"]
    assert same.why_not(left) == "what failed again must go first: collect again"
    assert new.ready(left) == {"g": 6, "new": 1}
    assert new.held_groups() == []


@pytest.mark.parametrize(
    ("seen", "here", "held"),
    [
        ({}, {1}, []),
        ({"dead_letters": QueueCounts(1)}, set(), ["g"]),
        ({"uncounted": 1}, {1}, ["g"]),
        # Nothing more will be known of it.
        ({"uncounted": 1}, set(), []),
    ],
)
def test_what_may_still_come_back_holds_its_message_groups(
    seen: dict[str, Any], here: set[int], held: list[str]
) -> None:
    world = World(seen=seen, counts=NONE_BACK)
    verdicts = world.verdicts(steps=[sent(1)], here=here, in_order=True)
    world.look(verdicts, LEFT)

    assert verdicts.held_groups() == held


def test_nobody_goes_on_while_the_counters_cannot_be_read() -> None:
    world = World()
    verdicts = world.verdicts(steps=[sent(1)])

    world.look(verdicts, LEFT)
    assert (verdicts.ready(LEFT), len(verdicts.waiting(LEFT))) == ({}, 1)
    assert "the failure table cannot be read" in verdicts.why_not(LEFT)
    world.counts = NONE_BACK
    world.look(verdicts, LEFT)
    assert verdicts.ready(LEFT) == {"g": 2}


def test_steps_in_flight_need_a_delete_for_each_of_their_messages() -> None:
    """A step of one group is not good by what the consumer deleted of a later one."""
    world = World(seen={"deleted": 7}, counts={PLAN: {"g": 0, "h": 0}})
    first = sent(1, "g", 6, began_at=SENT_AT - 1)
    second = sent(2, "h", 2)
    verdicts = world.verdicts(steps=[first, second], here={1, 2})

    world.look(verdicts, {"g": 9, "h": 9})
    assert verdicts.groups["g"].verdict is Verdict.UNPROVEN
    assert verdicts.groups["h"].verdict is Verdict.GOOD
    # Each step is looked at once at each moment, and no more when it is known.
    assert world.readings == [first.began_at, second.began_at] * 2
    world.look(verdicts, {"g": 9, "h": 9})
    assert len(world.readings) == 4


def test_group_whose_last_step_is_sent_waits_for_nothing() -> None:
    world = World(seen={"deleted": 0}, counts=NONE_BACK)
    verdicts = world.verdicts(steps=[replace(sent(1), left={"g": 0})], here={1})

    world.look(verdicts, {"g": 0})

    assert verdicts.groups["g"].verdict is Verdict.SENT
    assert (verdicts.ready({"g": 0}), verdicts.waiting({"g": 0})) == ({}, [])
    assert world.readings == []


def test_first_look_at_the_dlq_proves_nothing() -> None:
    world = World(counts=NONE_BACK)
    verdicts = world.verdicts(**of_yesterday(sent(1)))

    world.look(verdicts, LEFT, times=1)
    assert not verdicts.has_looked_enough(verdicts.waiting(LEFT))
    world.look(verdicts, LEFT, times=1)
    assert verdicts.has_looked_enough(verdicts.waiting(LEFT))
    assert verdicts.ready(LEFT) == {"g": 2}
