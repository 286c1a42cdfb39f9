"""What came of an outage: the result of a simulation. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from dlq_cli.simulate.jitter import Jitter
from dlq_cli.simulate.scenario import Scenario

LAST_MESSAGE = 0.5
"""The last message is through when less than half of one is still out, on average."""


@dataclass(frozen=True, slots=True)
class Steps:
    """What happened in each step, from second 0 on; numbers of messages.

    Attributes:
        tries: what the consumer got, good or bad, new messages included: its load.
        failed: the tries that failed.
        looks: dead letters that the Lambda saw, those that wait on included.
        through: messages of the outage that the consumer handled at last.
        parked: messages of the outage that ended in the parked queue.
    """

    tries: list[float] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)
    through: list[float] = field(default_factory=list)
    parked: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a policy made of the messages of an outage: those that arrived before its end.

    Attributes:
        steps: of ``scenario.step_seconds`` each.
        through_by_replay_count: those that came through, by how often they had been replayed.
        replays: copies sent back to main.
        peak_in_flight: the most copies in main that were hidden at once after a failed try.
        seconds_to_park: from the first try to the parked queue, on average, of a message that can
            never succeed; without a queue at the consumer.
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
        """Messages that came through by themselves."""
        return sum(self.through_by_replay_count)

    @property
    def parked(self) -> float:
        """Messages that wait for a human."""
        return sum(self.steps.parked)

    @property
    def parked_share(self) -> float:
        """The parked messages among all of the outage, 0 to 1."""
        return self.parked / self.scenario.arrived_count

    @property
    def failed_tries(self) -> float:
        """Tries of the consumer that failed, while the outage lasted."""
        return sum(self.steps.failed)

    @property
    def looks(self) -> float:
        """Dead letters that the Lambda saw, each as often as it saw it."""
        return sum(self.steps.looks)

    def through_seconds(self, share: float) -> int:
        """When *share* of what recovers was through, in seconds after the end of the outage.

        0 where it was before; a share of 1 asks for the last message.
        """
        allowed_out = max(LAST_MESSAGE, (1 - share) * self.recovered)
        out = (self.recovered - through for through in accumulate(self.steps.through))
        step = next((step for step, count in enumerate(out) if count <= allowed_out), 0)
        return max(0, (step + 1) * self.scenario.step_seconds - self.scenario.outage_seconds)

    def load_per_second(self) -> list[float]:
        """Tries of the consumer per second, step by step."""
        return [tries / self.scenario.step_seconds for tries in self.steps.tries]

    def peak_per_second(self) -> float:
        """The highest load after the end of the outage."""
        first = self.scenario.outage_seconds // self.scenario.step_seconds
        return max(self.load_per_second()[first:], default=0.0)
