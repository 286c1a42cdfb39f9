"""Moves messages step by step: main queue, consumer, DLQ, Lambda, main queue again. Pure."""

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from dlq_cli.simulate.jitter import Jitter
from dlq_cli.simulate.recovery import Recovery, Steps
from dlq_cli.simulate.scenario import Scenario
from dlq_cli.simulate.timeline import Run, Timeline, runs_of
from dlq_cli.simulate.waits import waits_by_replay_count

MAX_IN_FLIGHT = 120_000
"""The quota of messages in flight in one queue. Above it, receives return nothing:
SQSDeveloperGuide, "Amazon SQS visibility timeout"."""


def simulate(scenario: Scenario, jitter: Jitter = Jitter.FULL) -> Recovery:
    """Simulate an outage until its last message is processed or parked."""
    flow = _Flow(scenario, jitter)
    step = 0
    while step < flow.outage_steps or flow.has_messages_of_the_outage():
        flow.pass_step(step)
        step += 1
    return flow.recovery()


class _Cohort(NamedTuple):
    """Identical messages in main.

    Attributes:
        replay_count: how often they were replayed.
        receive_count: how often the consumer failed on these copies.
        is_late: whether they arrived after the outage, as normal traffic.
        size: their average number.
    """

    replay_count: int
    receive_count: int
    is_late: bool
    size: float


class _StepWaits(NamedTuple):
    """``Waits`` of one replay count, with times in steps instead of seconds."""

    delays: Sequence[Run]
    receives: Sequence[Run]
    parked: float


class _Flow:
    def __init__(self, scenario: Scenario, jitter: Jitter) -> None:
        self._scenario, self._jitter = scenario, jitter
        seconds = scenario.step_seconds
        self.outage_steps = scenario.outage_seconds // seconds
        self._hidden_steps = _hidden_steps(scenario)
        capacity = scenario.capacity_per_second
        self._capacity = math.inf if capacity is None else capacity * seconds
        table = waits_by_replay_count(scenario.policy, jitter)
        self._waits = [
            _StepWaits(
                runs_of(waits.delays, seconds), runs_of(waits.receives, seconds), waits.parked
            )
            for waits in table
        ]
        tries_seconds = scenario.visibility_timeout_seconds * scenario.max_receive_count
        self._seconds_to_park = sum(tries_seconds + waits.mean_seconds for waits in table)
        self._replayed = [Timeline() for _ in self._waits]
        self._receives = Timeline()
        self._hidden: defaultdict[int, list[_Cohort]] = defaultdict(list)
        self._in_flight = 0.0
        self._max_in_flight = _max_in_flight(scenario)
        self._visible: deque[_Cohort] = deque()
        self._steps = Steps()
        self._through = [0.0] * len(self._waits)
        self._replays = self._peak_in_flight = 0.0

    def pass_step(self, step: int) -> None:
        self._steps.parked.append(0.0)
        for cohort in self._hidden.pop(step, ()):
            self._in_flight -= cohort.size
            if cohort.receive_count < self._scenario.max_receive_count:
                self._visible.append(cohort)
            else:
                self._move_to_dlq(step, cohort)
        self._steps.receives.append(self._receives.take(step))
        for replay_count, replayed in enumerate(self._replayed):
            if size := replayed.take(step):
                self._replays += size
                self._visible.append(_Cohort(replay_count, 0, is_late=False, size=size))
        self._arrive(step)
        self._serve(step)

    def has_messages_of_the_outage(self) -> bool:
        if self._hidden or any(replayed.is_pending() for replayed in self._replayed):
            return True
        return any(not cohort.is_late for cohort in self._visible)

    def recovery(self) -> Recovery:
        return Recovery(
            self._scenario,
            self._jitter,
            self._steps,
            self._through,
            self._replays,
            self._peak_in_flight,
            self._seconds_to_park,
        )

    def _move_to_dlq(self, step: int, cohort: _Cohort) -> None:
        """Move a cohort to the DLQ and apply the decisions of the Lambda."""
        waits = self._waits[cohort.replay_count]
        self._receives.add(step, cohort.size, waits.receives)
        self._steps.parked[step] += waits.parked * cohort.size
        if waits.delays:
            self._replayed[cohort.replay_count + 1].add(step, cohort.size, waits.delays)

    def _arrive(self, step: int) -> None:
        """Add new messages. The step in which the outage ends has both early and late ones."""
        rate, seconds = self._scenario.arrivals_per_second, self._scenario.step_seconds
        left_seconds = self._scenario.outage_seconds - step * seconds
        early = rate * min(seconds, max(0, left_seconds))
        late = rate * seconds - early
        if step == 0:
            early += self._scenario.burst_count
        if early:
            self._visible.append(_Cohort(0, 0, is_late=False, size=early))
        if late:
            self._visible.append(_Cohort(0, 0, is_late=True, size=late))

    def _serve(self, step: int) -> None:
        tries = failed = through = 0.0
        for cohort in self._taken(step):
            tries += cohort.size
            if step < self.outage_steps:
                self._fail(step, cohort)
                failed += cohort.size
            elif not cohort.is_late:
                self._through[cohort.replay_count] += cohort.size
                through += cohort.size
        self._steps.tries.append(tries)
        self._steps.failed.append(failed)
        self._steps.through.append(through)

    def _fail(self, step: int, cohort: _Cohort) -> None:
        """Hide a cohort until it is visible again or moves to the DLQ."""
        replay_count, receive_count, is_late, size = cohort
        failed = _Cohort(replay_count, receive_count + 1, is_late, size)
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
