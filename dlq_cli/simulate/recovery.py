"""The result of a simulation. Pure."""

from collections.abc import Sequence
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
        receives: dead letters that the Lambda received, held ones included.
        through: messages of the outage that the consumer processed successfully.
        parked: messages of the outage that ended in the parked queue.
    """

    tries: list[float] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)
    receives: list[float] = field(default_factory=list)
    through: list[float] = field(default_factory=list)
    parked: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The results for the messages of an outage: those that arrived before its end.

    Attributes:
        steps: of ``scenario.step_seconds`` each.
        through_by_replay_count: successfully processed messages, by their number of replays.
        replays: copies sent back to main.
        peak_in_flight: the most copies in main that were hidden at the same time after a failed
            try.
        seconds_to_park: average time from the first try to the parked queue for a message that
            never succeeds, without a backlog at the consumer.
    """

    scenario: Scenario
    jitter: Jitter
    steps: Steps
    through_by_replay_count: Sequence[float]
    replays: float
    peak_in_flight: float
    seconds_to_park: float

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
        first = self.scenario.outage_seconds // self.scenario.step_seconds
        return max(self.load_per_second()[first:], default=0.0)
