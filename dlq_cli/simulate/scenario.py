"""An outage of the consumer, and the queues around it. Pure."""

from dataclasses import dataclass, field

from dlq_replay.addresses import QueueAddress
from dlq_replay.backoff import Backoff
from dlq_replay.policy import QueueLimits, ReplayPolicy

DEFAULT_MAX_ATTEMPTS = 20
DEFAULT_BACKOFF_RATE = 10.0
DEFAULT_BACKOFF_CAP_SECONDS = 900
DEFAULT_MAX_RECEIVE_COUNT = 5
"""Of the template; a contract test checks that they are equal."""

DEFAULT_VISIBILITY_TIMEOUT_SECONDS = 30
"""The default of SQS: SQSAPI, CreateQueue."""

DEFAULT_MESSAGE_BYTES = 2048

MAX_STEPS = 6000
"""About the number of steps of a simulation; a step is a whole number of seconds."""

_MAIN_QUEUE = QueueAddress("000000000000", "main")
_LIMITS = QueueLimits(dlq_retention_seconds=1_209_600)


def policy_of(max_attempts: int, rate_seconds: float, cap_seconds: int) -> ReplayPolicy:
    """Return the policy of a stack whose queues are those of the template.

    Raises:
        ValueError: a number of the backoff is out of range.
    """
    return ReplayPolicy(
        _MAIN_QUEUE, max_attempts, Backoff(rate_seconds, cap_seconds), limits=_LIMITS
    )


@dataclass(frozen=True, slots=True)
class Scenario:
    """An outage: every try of the consumer fails from second 0 until its end, and none after it.

    Attributes:
        outage_seconds: its length, at least 1.
        arrivals_per_second: new messages during and after the outage, at least 0.
        burst_count: additional messages that all arrive in second 0, at least 0.
        policy: the rules of the replays.
        visibility_timeout_seconds: of main: how long a copy stays hidden after a failed try.
        max_receive_count: of main: failed tries of one copy before it is a dead letter.
        capacity_per_second: tries that the consumer can make per second; None: no limit.
        message_bytes: body and attributes of one message, for the bill.
    """

    outage_seconds: int
    arrivals_per_second: float
    burst_count: int = 0
    policy: ReplayPolicy = field(
        default_factory=lambda: policy_of(
            DEFAULT_MAX_ATTEMPTS, DEFAULT_BACKOFF_RATE, DEFAULT_BACKOFF_CAP_SECONDS
        )
    )
    visibility_timeout_seconds: int = DEFAULT_VISIBILITY_TIMEOUT_SECONDS
    max_receive_count: int = DEFAULT_MAX_RECEIVE_COUNT
    capacity_per_second: float | None = None
    message_bytes: int = DEFAULT_MESSAGE_BYTES

    def __post_init__(self) -> None:
        """Raise ValueError if no message arrives, or a backlog would never shrink."""
        if self.arrived_count <= 0:
            raise ValueError("nothing arrives: give --rate or --burst a number above 0")
        if self._is_overloaded:
            raise ValueError(
                f"a capacity of {self.capacity_per_second:g} a second cannot reduce a backlog "
                f"while {self.arrivals_per_second:g} a second arrive: it must be larger"
            )

    @property
    def arrived_count(self) -> float:
        """Messages that arrive before the outage ends."""
        return self.burst_count + self.arrivals_per_second * self.outage_seconds

    @property
    def step_seconds(self) -> int:
        """Length of a step, at least 1 s; more for outages above about 1.5 hours."""
        return max(1, round(self._horizon_seconds / MAX_STEPS))

    @property
    def _is_overloaded(self) -> bool:
        capacity = self.capacity_per_second
        return capacity is not None and capacity <= self.arrivals_per_second

    @property
    def _horizon_seconds(self) -> float:
        """About when the last message is processed."""
        tries_seconds = self.visibility_timeout_seconds * self.max_receive_count
        ends = self.outage_seconds + self.policy.backoff.cap_seconds + tries_seconds
        if self.capacity_per_second is None:
            return ends
        return ends + self.arrived_count / (self.capacity_per_second - self.arrivals_per_second)
