"""The circuit breaker of a simulated main queue: the product's own worker, a table in memory. Pure.

The worker counts samples, each of which stands for many messages. So the thresholds that are
numbers of messages are divided by the weight of a sample.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from dlq_replay.breaker import BreakerRules, BreakerState, Update, apply
from dlq_replay.breaker_worker import BreakerWorker

STARTED_SECONDS = 1_700_000_040
"""When the outage begins, at the start of a minute. Any time works: rules use differences only."""


class SimulatedBreaker:
    """The breaker of one queue. It is its own ``BreakerTable``.

    Args:
        weight: how many messages a sample stands for.
        samples_before: that main deleted per second before the outage.

    Attributes:
        worker: for the ``Replayer``.
        now_seconds: the clock, in seconds from the start of the outage; the caller sets it.
    """

    def __init__(self, weight: int, samples_before: float) -> None:
        rules = BreakerRules()
        self._rules = replace(
            rules,
            judged_deletes=math.ceil(rules.judged_deletes / weight),
            least_returns=math.ceil(rules.least_returns / weight),
            # More than 1, which is the limit while the consumer does not work.
            full_least=max(2, math.ceil(rules.full_least / weight)),
        )
        self._deleted: Counter[int] = Counter()
        self._per_minute_before = samples_before * rules.minute_seconds
        self._state = BreakerState()
        self.now_seconds = 0
        self.worker = BreakerWorker(
            self, self._rules, self._read_deletions, clock_seconds=lambda: self.now_seconds
        )

    def count_deleted(self, at_seconds: int) -> None:
        """Count a sample that main deleted, in seconds from the start of the outage."""
        self._deleted[self._rules.minute(STARTED_SECONDS + at_seconds)] += 1

    def read(self) -> BreakerState:
        """Return the state."""
        return self._state

    def update(self, update: Update) -> tuple[bool, BreakerState]:
        """Change the state if it is as expected."""
        changed = apply(self._state, update)
        self._state = changed or self._state
        return changed is not None, self._state

    def _read_deletions(self, start_seconds: int, end_seconds: int) -> Mapping[int, int]:
        first, minute = self._rules.minute(STARTED_SECONDS), self._rules.minute
        minutes = range(minute(start_seconds), minute(end_seconds))
        # Rounded as a whole: fewer than one a minute are not none in an hour.
        before = {
            m: int(self._per_minute_before * (m + 1)) - int(self._per_minute_before * m)
            for m in minutes
        }
        return {m: self._deleted[m] if m >= first else before[m] for m in minutes}
