"""How a redrive keeps to the limit that the circuit breaker sets for its destination.

The limit is the window of the rate limiter. At a limit of 1 nothing is sent: the consumer does not
work.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from spark_reprocess.limits import Limit
from spark_reprocess.redrive.sending.rate_limiter import RateLimiter
from spark_reprocess.redrive.sending.stop_signals import StopSignals

WAITING = "waiting"
"""How the reason begins for which one destination must wait: for a limit, or for a verdict."""

READ_SECONDS = 10.0


def waiting_for(limit: Limit) -> str:
    """Return why nothing may be sent under a limit; empty if something may."""
    return f"{WAITING} for the breaker: {limit.sentence}" if limit.per_minute == 1 else ""


def is_waiting(stopped_by: str) -> bool:
    """Whether this is why one destination waits; any other reason stops the whole run."""
    return stopped_by.startswith(WAITING)


@dataclass(slots=True)
class BreakerGate:
    """Keeps one task to the limit, which it reads every ten seconds.

    A task that cannot read it, for example because executors do not reach the table, keeps to what
    the driver read.

    Attributes:
        read: reads the limit of the task's destination.
        limit: that the task's window was made for.
        free_window: the task's window without a limit; None for no window.
    """

    read: Callable[[], Limit]
    limit: Limit
    limiter: RateLimiter
    signals: StopSignals
    free_window: int | None = None

    def look(self) -> None:
        """Stop the task where the limit fell; lift its window where there is no limit any more."""
        limit = self.read()
        if limit.fault:
            return
        if (limit.per_minute or math.inf) < (self.limit.per_minute or math.inf):
            # Another task may be ahead of its share: a new run divides the lower limit.
            self.signals.stop_task(f"{WAITING} for the breaker: {limit.sentence}")
        elif limit.per_minute is None and self.limit.per_minute is not None:
            self.limiter.lift(self.free_window)
            self.limit = limit
