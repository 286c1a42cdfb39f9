"""The laws of a ramp: its rule with the function's own code, on a virtual clock. No Spark.

``play`` sends what ``Verdicts`` lets go; ``tests/integration/test_ramp_job.py`` tests who does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dlq.aws.clients import queue_counts
from dlq.explain.triage import GroupState
from dlq.redrive.ramping.step_records import Step
from dlq.redrive.ramping.verdict_rules import (
    LOOKS_A_MINUTE,
    PATIENCE_MINUTES,
    GroupRamp,
    QueueTimes,
    Reading,
    Verdict,
    returns_allowed,
)
from dlq.redrive.ramping.verdicts import Verdicts
from dlq_replay.errors import TableError
from dlq_replay.replaying.returns import Returns
from dlq_replay.rules.outgoing import redriven_entry
from tests.simulation.ramp_world import MAX_RECEIVES, VISIBILITY_SECONDS, RampWorld
from tests.support.builders import MAIN, message
from tests.support.returns_counters import FakeCounters

PLAN = "plan"
PATIENCE_SECONDS = 30
"""Each step is looked at for this time: longer than any return takes to be counted."""

RETENTION_SECONDS = 345_600

LIMITS: dict[str, Any] = {"max_receive_count": MAX_RECEIVES, "dlq_visibility_seconds": 450}
"""The function gives up at the third delivery of what it cannot count."""

OTHERS_A_SECOND = 500


@dataclass(frozen=True)
class Scenario:
    """A redrive by ramp, and what goes wrong.

    Attributes:
        groups: of each message its tenant.
        fails: tenants whose messages the consumer cannot handle.
        nobody_from: the step from which on the consumer receives nothing of ours.
        no_function_from: the step from which on nothing feeds the function, and nobody sees that.
        has_traffic: whether the queue has 500 other messages a second, and their metrics.
        table_faults: for each moment of a call of the table whether it fails then; the rest do not.
        loses: of each answer of the function whether Lambda does not get it; the rest arrive.
        before: how many returns were counted before the first step.
    """

    groups: Mapping[str, Sequence[str]]
    fails: str = ""
    allowed: str | None = None
    nobody_from: int = 99
    no_function_from: int = 99
    has_traffic: bool = False
    table_faults: Sequence[bool] = ()
    loses: Sequence[bool] = ()
    before: int = 0


groups = st.dictionaries(
    st.sampled_from(["g-1", "g-2", "g-3"]),
    st.integers(1, 60).flatmap(lambda n: st.just("a" * n) | st.text("aab", min_size=n, max_size=n)),
    min_size=1,
)
works = partial(
    st.builds,
    Scenario,
    groups,
    has_traffic=st.booleans(),
    loses=st.lists(st.booleans(), max_size=3),
    before=st.integers(0, 3),
)
healthy = works(fails=st.sampled_from(["", "b"]))
"""Whoever fails, fails for one tenant; everything else works."""

scenarios = works(
    fails=st.sampled_from(["", "a", "b", "ab"]),
    allowed=st.sampled_from([None, "1", "50%"]),
    nobody_from=st.sampled_from([99, 99, 1, 2, 3]),
    no_function_from=st.sampled_from([99, 99, 1, 2, 3]),
    table_faults=st.lists(st.booleans(), max_size=6) | st.just([True] * 99),
)


@dataclass
class Ending:
    """The end of a run, and what it did.

    Attributes:
        steps: of each step the bodies of each group.
        seen: at the begin of each step which of all bodies had been handled.
        ramp: the last word on each group.
    """

    scenario: Scenario
    world: RampWorld
    counters: FakeCounters
    steps: list[dict[str, list[str]]] = field(default_factory=list)
    seen: list[set[str]] = field(default_factory=list)
    ramp: dict[str, GroupRamp] = field(default_factory=dict)
    ages: dict[float, float] = field(default_factory=dict)

    def fails(self, body: str) -> bool:
        return body[0] in self.scenario.fails

    def look_at_age(self) -> None:
        """Note the age of the oldest message, as CloudWatch does of a queue with traffic."""
        now = self.world.clock.time()
        age = 0.2
        for queued in self.world.main.queue.messages():
            age = max(age, now - queued.sent_ms / 1000)
        self.ages[int(now)] = max(age, self.ages.get(int(now), 0))

    def reading(self, began_at: float) -> Reading:
        world = self.world
        now = world.clock.time()
        deleted = sum(n for at, n in world.main.queue.deleted.items() if at >= int(began_at))
        main = queue_counts(world.main)
        if self.scenario.has_traffic:
            deleted += OTHERS_A_SECOND * (int(now) - int(began_at))
            main = main and replace(main, visible=main.visible + OTHERS_A_SECOND)

        recent = max(began_at, now - PATIENCE_MINUTES)
        missed = [at for at in world.faults["missed"] if at >= began_at]
        left = [at for at in world.faults["left"] if at >= recent]
        return Reading(
            at=now,
            obstacle="a fault" if left else "",
            uncounted=len(missed),
            main=main,
            dead_letters=queue_counts(world.dlq),
            ages={at: age for at, age in self.ages.items() if at >= int(began_at)},
            deleted=deleted,
        )

    def send(self, bodies: Mapping[str, Sequence[str]], left: Mapping[str, int]) -> None:
        """Send these bodies of each group, of which *left* others are to be sent later."""
        for group, bodies_of_group in bodies.items():
            ours: dict[str, Any] = {"group_id": group, "in_step": bool(left[group])}
            for body in bodies_of_group:
                entry = redriven_entry(message(body, body), PLAN, MAIN, **ours)
                self.world.main.send([entry])

    def returned(self) -> dict[str, int]:
        return {group: returns.returned for (_, group), returns in self.counters.items.items()}


def play(scenario: Scenario) -> Ending:
    """Send step after step until no group may go on."""
    faults = iter(scenario.table_faults)
    losses = iter(scenario.loses)

    def table_faults() -> None:
        if next(faults, False):
            raise TableError("denied")

    earlier = frozenset(f"earlier-{n}" for n in range(scenario.before))
    counters = FakeCounters({}, table_faults)
    counters.items = {(PLAN, group): Returns(len(earlier), 0, earlier) for group in scenario.groups}
    world = RampWorld(counters.add, **LIMITS)
    ending = Ending(scenario, world, counters)
    world.step_seconds = 0.1
    world.fails = lambda received: ending.fails(received.body)
    world.loses_answer = lambda: next(losses, False)
    if scenario.has_traffic:
        world.last = ending.look_at_age

    bodies = {}
    for group, tenants in scenario.groups.items():
        bodies[group] = [f"{tenant}-{group}-{n:02d}" for n, tenant in enumerate(tenants)]
    left = {group: len(bodies[group]) for group in bodies}
    verdicts = Verdicts(
        plan_id=PLAN,
        earlier={},
        state=lambda _: GroupState(),
        read_counts=lambda _, __: ending.returned(),
        read=lambda began_at, _: ending.reading(began_at),
        now_seconds=world.clock.time,
        times=QueueTimes(VISIBILITY_SECONDS * MAX_RECEIVES, RETENTION_SECONDS, 1),
        allowed=scenario.allowed,
    )
    steps = verdicts.steps = list[Step]()
    while wanted := verdicts.ready(left):
        ending.seen.append({handled.body for handled in world.handled})
        drawn = {}
        for group, size in wanted.items():
            drawn[group] = bodies[group][:size]
            bodies[group] = bodies[group][size:]
        left = {group: len(bodies[group]) for group in bodies}
        ending.steps.append(drawn)
        world.is_consuming = len(ending.steps) < scenario.nobody_from
        world.is_replaying = len(ending.steps) < scenario.no_function_from

        before = ending.returned()
        now = world.clock.time()
        ending.send(drawn, left)
        step = Step(
            number=len(ending.steps),
            run_id="run",
            began_at=now,
            messages=wanted,
            returned_before=before,
            halts=dict.fromkeys(wanted, 0),
            proven={group: verdicts.proven(group) for group in wanted},
            left={group: left[group] for group in wanted},
            sent_at=now,
        )
        steps.append(step)
        verdicts.here.add(step.number)

        for _ in range(PATIENCE_SECONDS * LOOKS_A_MINUTE):
            world.pass_time(1 / LOOKS_A_MINUTE)
            verdicts.look(left)
            if not verdicts.waiting(left):
                break

    ending.ramp = verdicts.groups
    # Nobody waits for the last step.
    world.pass_time(5)
    return ending


# The laws. Each takes an ending and asserts.


def steps_keep_the_bound(ending: Ending) -> None:
    for group in ending.scenario.groups:
        sizes = [len(step[group]) for step in ending.steps if group in step]
        assert all(size <= max(1, 2 * sum(sizes[:n])) for n, size in enumerate(sizes))


def no_step_follows_what_is_not_proven(ending: Ending) -> None:
    """Where nobody received the step before, or returns are not counted, nothing follows."""
    for number, step in enumerate(ending.steps):
        for group in step:
            earlier = list[str]()
            for before in ending.steps[:number]:
                earlier += before.get(group, ())
            unhandled = [body for body in earlier if body not in ending.seen[number]]
            assert len(unhandled) <= returns_allowed(ending.scenario.allowed, len(earlier))
            assert all(map(ending.fails, unhandled)), "nobody received it"


def only_groups_with_failures_are_halted(ending: Ending) -> None:
    for group, ramp in ending.ramp.items():
        if not any(ending.fails(tenant) for tenant in ending.scenario.groups[group]):
            assert ramp.verdict is not Verdict.BAD


@given(scenarios)
def test_laws_hold_whatever_fails(scenario: Scenario) -> None:
    ending = play(scenario)

    steps_keep_the_bound(ending)
    no_step_follows_what_is_not_proven(ending)
    only_groups_with_failures_are_halted(ending)


@given(healthy)
def test_groups_go_through_beside_one_tenant_that_fails(scenario: Scenario) -> None:
    ending = play(scenario)

    no_step_follows_what_is_not_proven(ending)
    only_groups_with_failures_are_halted(ending)
    handled = Counter(received.body for received in ending.world.handled)
    for group, tenants in scenario.groups.items():
        if not any(map(ending.fails, tenants)):
            assert ending.ramp[group].verdict is Verdict.SENT
            assert {handled[f"{t}-{group}-{n:02d}"] for n, t in enumerate(tenants)} == {1}
