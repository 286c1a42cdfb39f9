"""Signals without an archive, and a limiter that lets every call begin at once."""

from dataclasses import dataclass, field

from dlq.archive.ledger.stop import Stop
from dlq.redrive.sending.rate_limiter import RateLimiter
from dlq.redrive.sending.stop_signals import StopSignals


@dataclass
class FakeSignals(StopSignals):
    """Nothing stops the task until somebody calls ``stop``.

    Attributes:
        pauses: how long it was asked to wait.
    """

    stopped_by: Stop | None = None
    pauses: list[float] = field(default_factory=list)

    def look(self) -> bool:
        return not self.stopped_by

    may_go_on = look

    def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def stop(self, stop: Stop) -> None:
        self.stopped_by = self.stopped_by or stop

    stop_task = stop


@dataclass
class FakeLimiter(RateLimiter):
    """Counts calls.

    Attributes:
        calls: what was acquired, in order; messages.
        in_flight: messages of calls that were not released.
    """

    call_messages: int = 10
    calls: list[int] = field(default_factory=list)
    in_flight: int = 0

    def acquire(self, messages: int) -> float:
        self.calls.append(messages)
        self.in_flight += messages
        return 0.0

    def release(self, messages: int) -> None:
        self.in_flight -= messages
