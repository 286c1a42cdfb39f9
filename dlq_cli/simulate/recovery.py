"""The result of a simulation. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from dlq_cli.simulate.jitter import Jitter
from dlq_cli.simulate.scenario import Scenario

ROUNDING_ERROR = 1e-12
"""A smaller share is 0: the sum of thousands of steps is not more precise."""

LAST_MESSAGE = 0.5
"""The last message is processed when on average less than half a message is left."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Numbers of messages in each step, from second 0.

    Attributes:
        tries: messages that the consumer received, new ones included: its load.
        failed: tries that failed.
        failed_replays: those of them that were tries of a replayed copy.
        receives: dead letters that the Lambda received, held ones included.
        through: messages of the outage that the consumer processed successfully.
        parked: messages of the outage that ended in the parked queue.
        held: dead letters that the circuit breaker held; each look counts.
        replays: copies that the replay function sent back, when they are visible in main.
    """

    tries: list[float] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)
    failed_replays: list[float] = field(default_factory=list)
    receives: list[float] = field(default_factory=list)
    through: list[float] = field(default_factory=list)
    parked: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    replays: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The results for the messages of an outage: those that arrived before its end.

    Attributes:
        steps: of ``scenario.step_seconds`` each.
        through_by_replay_count: successfully processed messages, by their number of replays.
        peak_in_flight: the most copies in main that were hidden at the same time after a failed
            try.
        seconds_to_park: average time from the first try to the parked queue for a message that
            never succeeds, without a backlog at the consumer or a circuit breaker.
        opened_seconds: when the circuit breaker opened, in seconds from the beginning.
        closed_seconds: when it closed.
    """

    scenario: Scenario
    jitter: Jitter
    steps: Steps
    through_by_replay_count: Sequence[float]
    peak_in_flight: float
    seconds_to_park: float
    opened_seconds: Sequence[int] = ()
    closed_seconds: Sequence[int] = ()

    @property
    def recovered(self) -> float:
        """Messages that were processed successfully without a person."""
        return sum(self.through_by_replay_count)

    @property
    def parked(self) -> float:
        """Messages that were parked."""
        return sum(self.steps.parked)

    @property
    def parked_share(self) -> float:
        """The share of the outage's messages that is parked, 0 to 1."""
        share = self.parked / self.scenario.arrived_count
        return share if share > ROUNDING_ERROR else 0.0

    @property
    def failed_tries(self) -> float:
        """Tries of the consumer that failed, all during the outage."""
        return sum(self.steps.failed)

    @property
    def failed_tries_of_replays(self) -> float:
        """Those of them that were tries of a replayed copy."""
        return sum(self.steps.failed_replays)

    @property
    def replays(self) -> float:
        """Copies sent back to main."""
        return sum(self.steps.replays)

    @property
    def held(self) -> float:
        """How often the circuit breaker held a message."""
        return sum(self.steps.held)

    @property
    def receives(self) -> float:
        """Receives of dead letters by the Lambda."""
        return sum(self.steps.receives)

    def through_seconds(self, share: float) -> int:
        """Return when *share* of the recovered messages was processed.

        In seconds after the end of the outage; 0 if it was before the end.

        Args:
            share: 0 to 1; 1 means the last message.
        """
        allowed_out = max(LAST_MESSAGE, (1 - share) * self.recovered)
        out = (self.recovered - through for through in accumulate(self.steps.through))
        step = next((step for step, count in enumerate(out) if count <= allowed_out), 0)
        return max(0, (step + 1) * self.scenario.step_seconds - self.scenario.outage_seconds)

    def load_per_second(self) -> list[float]:
        """Return the tries of the consumer per second, for each step."""
        return [tries / self.scenario.step_seconds for tries in self.steps.tries]

    def peak_per_second(self) -> float:
        """Return the highest load after the end of the outage."""
        return max(self.load_per_second()[self._first_step_after :], default=0.0)

    def peak_replays_per_second(self, seconds: int = 60) -> float:
        """Return the most replays after the end of the outage, on average over *seconds*."""
        count = max(1, seconds // self.scenario.step_seconds)
        totals = list(accumulate(self.steps.replays[self._first_step_after :], initial=0.0))
        if len(totals) <= count:
            return totals[-1] / (count * self.scenario.step_seconds)
        most = max(last - first for first, last in zip(totals, totals[count:], strict=False))
        return most / (count * self.scenario.step_seconds)

    @property
    def _first_step_after(self) -> int:
        return self.scenario.outage_seconds // self.scenario.step_seconds


BREAKER = "breaker"
"""The name of the results with the circuit breaker, which draws delays with full jitter."""

Recoveries = Mapping[str, Recovery]
"""Results by name: by jitter without the circuit breaker, and BREAKER."""
