"""Moves messages step by step: main queue, consumer, DLQ, Lambda, main queue again. Pure.

With a circuit breaker, dead letters are held as the product holds them; ``breaker`` says what is
approximate.
"""

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from dlq_cli.simulate.breaker import SimulatedBreaker
from dlq_cli.simulate.jitter import Jitter
from dlq_cli.simulate.recovery import Recovery, Steps
from dlq_cli.simulate.scenario import Scenario
from dlq_cli.simulate.timeline import Run, Timeline, runs_of
from dlq_cli.simulate.waits import waits_by_replay_count
from dlq_replay.breaker import BreakerRules, Phase
from dlq_replay.settings import MAX_ATTEMPTS_RANGE

MAX_IN_FLIGHT = 120_000
"""The quota of messages in flight in one queue. Above it, receives return nothing:
SQSDeveloperGuide, "Amazon SQS visibility timeout"."""


def simulate(
    scenario: Scenario, jitter: Jitter = Jitter.FULL, breaker: BreakerRules | None = None
) -> Recovery:
    """Simulate an outage until its last message is processed or parked.

    *breaker* has the rules of a circuit breaker; None: the stack has none.
    """
    flow = _Flow(scenario, jitter, breaker)
    step = 0
    while step < flow.outage_steps or flow.has_messages_of_the_outage():
        flow.pass_step(step)
        step += 1
    return flow.recovery()


class _Kind(NamedTuple):
    """What copies carry. All but the first are used with a circuit breaker only.

    Attributes:
        replay_count: how often they were replayed.
        slot: of their first replay, on copies that were replayed once.
        probe_at: the moment of the probe that they are.
        held_part: since when a breaker has held them.
    """

    replay_count: int
    slot: int | None = None
    probe_at: int | None = None
    held_part: int | None = None


class _Cohort(NamedTuple):
    """Identical messages in main.

    Attributes:
        kind: what the copies carry.
        receive_count: how often the consumer failed on these copies.
        is_late: whether they arrived after the outage, as normal traffic.
        size: their average number.
    """

    kind: _Kind
    receive_count: int
    is_late: bool
    size: float


class _StepWaits(NamedTuple):
    """``Waits`` of one replay count, with times in steps instead of seconds."""

    delays: tuple[Run, ...]
    receives: Sequence[Run]
    parked: float


_AT_ONCE = (Run(0, 1, 1.0),)
_DUE = _StepWaits(_AT_ONCE, _AT_ONCE, 0.0)
"""Of what a breaker has held until it was due."""


class _Look(NamedTuple):
    """Dead letters that the Lambda received and may replay."""

    kind: _Kind
    size: float
    waits: _StepWaits


class _Flow:
    def __init__(self, scenario: Scenario, jitter: Jitter, rules: BreakerRules | None) -> None:
        self._scenario, self._jitter = scenario, jitter
        seconds = scenario.step_seconds
        self.outage_steps = scenario.outage_seconds // seconds
        self._hidden_steps = _hidden_steps(scenario)
        capacity = scenario.capacity_per_second
        self._capacity = math.inf if capacity is None else capacity * seconds
        table = waits_by_replay_count(scenario.policy, jitter)
        self._waits = [
            _StepWaits(
                tuple(runs_of(waits.delays, seconds)),
                runs_of(waits.receives, seconds),
                waits.parked,
            )
            for waits in table
        ]
        tries_seconds = scenario.visibility_timeout_seconds * scenario.max_receive_count
        self._seconds_to_park = sum(tries_seconds + waits.mean_seconds for waits in table)
        self._breaker = (
            None
            if rules is None
            else SimulatedBreaker(rules, scenario.arrivals_per_second, seconds)
        )
        self._replayed: defaultdict[_Kind, Timeline] = defaultdict(Timeline)
        self._held: defaultdict[_Kind, Timeline] = defaultdict(Timeline)
        self._looks: list[_Look] = []
        self._receives = Timeline()
        self._hidden: defaultdict[int, list[_Cohort]] = defaultdict(list)
        self._in_flight = 0.0
        self._max_in_flight = _max_in_flight(scenario)
        self._visible: deque[_Cohort] = deque()
        self._steps = Steps()
        self._through = [0.0] * len(self._waits)
        self._peak_in_flight = 0.0

    def pass_step(self, step: int) -> None:
        self._steps.parked.append(0.0)
        self._steps.held.append(0.0)
        if self._breaker:
            self._breaker.begin_step(step)
        for cohort in self._hidden.pop(step, ()):
            self._in_flight -= cohort.size
            if cohort.receive_count < self._scenario.max_receive_count:
                self._visible.append(cohort)
            else:
                self._move_to_dlq(step, cohort)
        for kind, size in _take_all(self._held, step):
            self._looks.append(_Look(kind, size, _DUE))
        self._leave_dlq(step)
        self._steps.receives.append(self._receives.take(step))
        replays = 0.0
        for kind, size in _take_all(self._replayed, step):
            replays += size
            self._visible.append(_Cohort(kind, 0, is_late=False, size=size))
        self._steps.replays.append(replays)
        self._arrive(step)
        self._serve(step)

    def has_messages_of_the_outage(self) -> bool:
        timelines = (*self._replayed.values(), *self._held.values())
        if self._hidden or any(one.is_pending() for one in timelines):
            return True
        return any(not cohort.is_late for cohort in self._visible)

    def recovery(self) -> Recovery:
        return Recovery(
            self._scenario,
            self._jitter,
            self._steps,
            self._through,
            self._peak_in_flight,
            self._seconds_to_park,
            self._breaker.opened_seconds if self._breaker else (),
            self._breaker.closed_seconds if self._breaker else (),
        )

    def _move_to_dlq(self, step: int, cohort: _Cohort) -> None:
        """Move a cohort to the DLQ. What the rules park is parked."""
        kind, size = cohort.kind, cohort.size
        waits = self._waits[kind.replay_count]
        if self._breaker:
            if kind.replay_count == 0:
                self._breaker.count_arrived(size)
            if kind.slot is not None:
                self._breaker.count_returned(size, kind.slot)
            if kind.probe_at is not None:
                self._breaker.note_probe_returned(kind.probe_at)
        self._steps.parked[step] += waits.parked * size
        if waits.delays:
            kind = _Kind(kind.replay_count, held_part=kind.held_part)
            self._looks.append(_Look(kind, size, waits))
        else:
            self._receives.add(step, size, waits.receives)

    def _leave_dlq(self, step: int) -> None:
        """Replay what the Lambda received, or hold it as the breaker says."""
        looks, self._looks = self._looks, []
        breaker = self._breaker
        if breaker is None or breaker.phase is Phase.CLOSED:
            for look in looks:
                self._replay(step, look, look.size)
        else:
            self._pass_breaker(step, looks, breaker)
        if breaker:
            breaker.change_phase()

    def _pass_breaker(self, step: int, looks: Sequence[_Look], breaker: SimulatedBreaker) -> None:
        candidates = []
        for look in looks:
            if breaker.may_hold(look.kind.held_part):
                candidates.append(look)
            else:
                self._replay(step, look, look.size)
        if not candidates:
            return
        share, probe_size = 0.0, 0.0
        largest = max(candidates, key=lambda look: look.size)
        if breaker.phase is Phase.RAMP:
            total = sum(look.size for look in candidates)
            share = breaker.claim_release(total) / total
        elif (probe_at := breaker.claim_probe()) is not None:
            probe_size = min(1.0, largest.size)
            self._replay(step, largest._replace(waits=_DUE), probe_size, probe_at)
        for look in candidates:
            self._replay(step, look, share * look.size)
            held = (1 - share) * look.size - (probe_size if look is largest else 0.0)
            self._hold(step, look, held, breaker)

    def _replay(self, step: int, look: _Look, size: float, probe_at: int | None = None) -> None:
        if size <= 0:
            return
        kind, waits = look.kind, look.waits
        slot = None
        if self._breaker and kind.replay_count == 0:
            slot = self._breaker.slot
            self._breaker.count_sent(size)
        self._receives.add(step, size, waits.receives)
        replayed = _Kind(kind.replay_count + 1, slot, probe_at, kind.held_part)
        self._replayed[replayed].add(step, size, waits.delays)

    def _hold(self, step: int, look: _Look, size: float, breaker: SimulatedBreaker) -> None:
        if size <= 0:
            return
        kind = look.kind
        self._receives.add(step, size, _AT_ONCE)
        self._steps.held[step] += size
        runs = breaker.hold_runs(kind.held_part, look.waits.delays)
        if kind.held_part is None:
            kind = kind._replace(held_part=breaker.held_part())
        self._held[kind].add(step, size, runs)

    def _arrive(self, step: int) -> None:
        """Add new messages. The step in which the outage ends has both early and late ones."""
        rate, seconds = self._scenario.arrivals_per_second, self._scenario.step_seconds
        left_seconds = self._scenario.outage_seconds - step * seconds
        early = rate * min(seconds, max(0, left_seconds))
        late = rate * seconds - early
        if step == 0:
            early += self._scenario.burst_count
        if early:
            self._visible.append(_Cohort(_Kind(0), 0, is_late=False, size=early))
        if late:
            self._visible.append(_Cohort(_Kind(0), 0, is_late=True, size=late))

    def _serve(self, step: int) -> None:
        tries = failed = failed_replays = through = 0.0
        for cohort in self._taken(step):
            tries += cohort.size
            if step < self.outage_steps:
                self._fail(step, cohort)
                failed += cohort.size
                failed_replays += cohort.size if cohort.kind.replay_count else 0.0
            elif not cohort.is_late:
                self._through[cohort.kind.replay_count] += cohort.size
                through += cohort.size
        if self._breaker:
            self._breaker.count_handled(tries - failed)
        self._steps.tries.append(tries)
        self._steps.failed.append(failed)
        self._steps.failed_replays.append(failed_replays)
        self._steps.through.append(through)

    def _fail(self, step: int, cohort: _Cohort) -> None:
        """Hide a cohort until it is visible again or moves to the DLQ."""
        kind, receive_count, is_late, size = cohort
        failed = _Cohort(kind, receive_count + 1, is_late, size)
        hidden = self._hidden_steps[receive_count]
        if hidden:
            self._hidden[step + hidden].append(failed)
            self._in_flight += size
            self._peak_in_flight = max(self._peak_in_flight, self._in_flight)
        else:
            self._visible.append(failed)

    def _taken(self, step: int) -> Iterator[_Cohort]:
        """Yield what the consumer receives from main in one step, oldest first."""
        left = self._capacity
        if step < self.outage_steps:
            left = min(left, self._max_in_flight - self._in_flight)
        while self._visible and left > 0:
            cohort = self._visible.popleft()
            if cohort.size > left:
                self._visible.appendleft(cohort._replace(size=cohort.size - left))
                cohort = cohort._replace(size=left)
            left -= cohort.size
            yield cohort


def _take_all(timelines: dict[_Kind, Timeline], step: int) -> Iterator[tuple[_Kind, float]]:
    """Yield what is due in *step*, and drop the timelines in which nothing is left."""
    for kind, timeline in list(timelines.items()):
        if size := timeline.take(step):
            yield kind, size
        if not timeline.is_pending():
            del timelines[kind]


def _hidden_steps(scenario: Scenario) -> Sequence[int]:
    """Return for how many steps a copy is hidden after its first, second, ... failed try.

    The sum is the duration of all tries. The last one, before the DLQ, is at least one step.
    """
    ratio = scenario.visibility_timeout_seconds / scenario.step_seconds
    ends = [round(tries * ratio) for tries in range(scenario.max_receive_count + 1)]
    hidden = [end - start for start, end in pairwise(ends)]
    return [*hidden[:-1], max(1, hidden[-1])]


def _max_in_flight(scenario: Scenario) -> float:
    """Return the quota for one step; no limit if a failed copy is visible again at once."""
    timeout_seconds = scenario.visibility_timeout_seconds
    if not timeout_seconds:
        return math.inf
    return MAX_IN_FLIGHT * max(1, scenario.step_seconds / timeout_seconds)


def smallest_max_attempts(scenario: Scenario, parked_share: float) -> int | None:
    """Return the smallest ``max_attempts`` that parks less than *parked_share* of the messages.

    None if even the largest is not enough.
    """
    low, high = MAX_ATTEMPTS_RANGE[0] - 1, 1
    while not _is_enough(scenario, high, parked_share):
        if high == MAX_ATTEMPTS_RANGE[1]:
            return None
        low, high = high, min(2 * high, MAX_ATTEMPTS_RANGE[1])
    while high - low > 1:
        middle = (low + high) // 2
        if _is_enough(scenario, middle, parked_share):
            high = middle
        else:
            low = middle
    return high


def _is_enough(scenario: Scenario, max_attempts: int, parked_share: float) -> bool:
    policy = replace(scenario.policy, max_attempts=max_attempts)
    return simulate(replace(scenario, policy=policy)).parked_share < parked_share
