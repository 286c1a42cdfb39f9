"""How a redrive keeps to the limit that the circuit breaker sets for its destination.

The limit is the window of the rate limiter. At a limit of 1 nothing is sent: the consumer does not
work.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dlq_replay.breaker import BreakerRules
from dlq_replay.errors import TableError
from spark_reprocess.clients import breaker_table
from spark_reprocess.figures import limit_sentence
from spark_reprocess.redrive.rate_limiter import RateLimiter
from spark_reprocess.redrive.stop_signals import StopSignals
from spark_reprocess.repeating import repeating

WAITING = "waiting"
"""How the reason begins for which one destination must wait: for a limit, or for a verdict."""

_FOR_BREAKER = f"{WAITING} for the breaker"
READ_SECONDS = 10.0
BLIND_SECONDS = 60.0
"""How long a task keeps to the limit that it knows while the table fails."""


def is_waiting(stopped_by: str) -> bool:
    """Whether this is why one destination waits; any other reason stops the whole run."""
    return stopped_by.startswith(WAITING)


@dataclass(frozen=True, slots=True)
class Limit:
    """What a queue may get.

    Attributes:
        per_minute: messages; None for no limit.
        sentence: the limit in words; empty without one.
    """

    per_minute: int | None = None
    sentence: str = ""

    @property
    def waiting(self) -> str:
        """Why nothing may be sent; empty if something may."""
        return f"{_FOR_BREAKER}: {self.sentence}" if self.per_minute == 1 else ""

    def is_below(self, other: "Limit") -> bool:
        """Whether it allows less than *other*."""
        if self.per_minute is None:
            return False
        return other.per_minute is None or self.per_minute < other.per_minute

    def least_rate(self, max_rate: float | None) -> float | None:
        """The lower one of *max_rate*, messages a second, and the limit; None for neither."""
        rates = [max_rate, self.per_minute and self.per_minute / 60]
        return min((rate for rate in rates if rate is not None), default=None)


def read_limit(failure_table: str | None, queue_url: str) -> Limit | None:
    """Read the limit of a queue; there is none without a table. Never raises.

    Returns:
        None if the table fails.
    """
    if failure_table is None:
        return Limit()
    try:
        state = breaker_table(failure_table, queue_url).read()
    except TableError:
        return None
    now = datetime.now(UTC)
    per_minute = state.limit_at(int(now.timestamp()), BreakerRules())
    return Limit(per_minute, limit_sentence(state, now))


@dataclass(slots=True)
class BreakerGate:
    """Keeps one task to the limit, which it reads every ten seconds.

    Attributes:
        read: reads the limit of the task's destination; None if it is not known.
        limit: that the task's window was made for.
        free_window: the task's window without a limit; None for no window.
    """

    read: Callable[[], Limit | None]
    limit: Limit
    limiter: RateLimiter
    signals: StopSignals
    free_window: int | None = None
    clock_seconds: Callable[[], float] = time.monotonic

    _known_at: float = field(init=False)

    def __post_init__(self) -> None:
        """Take the limit as known: the driver has read it."""
        self._known_at = self.clock_seconds()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look now, and in a thread until the block ends."""
        self.look()
        with repeating(self.look, READ_SECONDS, "breaker"):
            yield

    def look(self) -> None:
        """Stop the task where the limit fell; lift its window where there is no limit any more."""
        limit, now = self.read(), self.clock_seconds()
        if limit is not None:
            self._known_at = now
        elif now - self._known_at <= BLIND_SECONDS:
            return
        known = limit or Limit()
        if known.is_below(self.limit) or known.waiting:
            # Another task may be ahead of its share: a new run divides the lower limit.
            self.signals.stop_task(f"{_FOR_BREAKER}: {known.sentence}")
        elif known.per_minute is None and self.limit.per_minute is not None:
            self.limiter.lift(self.free_window)
            self.limit = known
