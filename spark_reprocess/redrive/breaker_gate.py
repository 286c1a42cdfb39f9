"""How a redrive keeps to the limit that the circuit breaker sets for its destination.

The limit is the window of the rate limiter. Under a limit of 1 nothing is sent: the consumer does
not work. A limit that cannot be read is none.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dlq_replay.breaker import BreakerRules, BreakerState, limit_in_words
from dlq_replay.errors import BreakerTableError
from spark_reprocess.clients import breaker_table
from spark_reprocess.redrive.rate_limiter import RateLimiter
from spark_reprocess.redrive.stop_signals import StopSignals

WAITING = "waiting for the breaker"
"""How the reason of what was not sent because of a limit begins."""

READ_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Limit:
    """What one queue may get.

    Attributes:
        per_minute: messages; None for no limit.
        sentence: the limit in words; empty without one.
    """

    per_minute: int | None = None
    sentence: str = ""

    @classmethod
    def of(cls, state: BreakerState, now_seconds: int) -> "Limit":
        """Read it from a breaker."""
        rules = BreakerRules()
        sentence = limit_in_words(state, now_seconds, rules) or ""
        return cls(state.limit_at(now_seconds, rules), sentence)

    @property
    def waiting(self) -> str:
        """Why nothing may be sent; empty if something may."""
        return f"{WAITING}: {self.sentence}" if self.per_minute == 1 else ""

    def is_below(self, other: "Limit") -> bool:
        """Whether it allows less than *other*."""
        if self.per_minute is None:
            return False
        return other.per_minute is None or self.per_minute < other.per_minute

    def least_rate(self, max_rate: float | None) -> float | None:
        """The lower one of *max_rate*, messages a second, and the limit; None for neither."""
        rates = [max_rate, self.per_minute and self.per_minute / 60]
        return min((rate for rate in rates if rate is not None), default=None)


def read_limit(failure_table: str | None, queue_url: str) -> Limit:
    """Read the limit of a queue; none without a table, or where it fails. Never raises."""
    if failure_table is None:
        return Limit()
    try:
        state = breaker_table(failure_table, queue_url).read()
    except BreakerTableError:
        return Limit()
    return Limit.of(state, int(time.time()))


@dataclass(slots=True)
class BreakerGate:
    """A task's part: looks at the limit every ten seconds while it sends. For one thread.

    Attributes:
        read: reads the limit of the task's destination.
        began_with: the limit that the task's window was made for.
        free_window: the task's window without a limit; None for no window.
        clock_seconds: never set back.
    """

    read: Callable[[], Limit]
    began_with: Limit
    limiter: RateLimiter
    signals: StopSignals
    free_window: int | None = None
    clock_seconds: Callable[[], float] = time.monotonic
    _read_at: float = field(init=False)

    def __post_init__(self) -> None:
        """The driver has just read it."""
        self._read_at = self.clock_seconds()

    def look(self) -> None:
        """Stop the task where the limit fell, and let it go faster where there is none any more."""
        if self.clock_seconds() - self._read_at < READ_SECONDS:
            return
        self._read_at = self.clock_seconds()
        limit = self.read()
        if limit.is_below(self.began_with):
            self.signals.stop_task(f"{WAITING}: {limit.sentence}")
        elif limit.per_minute is None and self.began_with.per_minute is not None:
            self.limiter.set_window(self.free_window)
            self.began_with = limit
