"""The circuit breaker of a simulated main queue: the product's own worker, a table in memory. Pure.

The worker counts samples, each of which stands for many messages. So the thresholds that are
numbers of messages are divided by the weight of a sample.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dlq_replay.breaker import BreakerRules, BreakerState, Phase, Update, apply
from dlq_replay.breaker_worker import BreakerWorker
from dlq_replay.plan import Passage, Step

STARTED_SECONDS = 1_700_000_040
"""When the outage begins, at the start of a minute. Any time works: rules use differences only."""


class SimulatedBreaker:
    """The breaker of one queue whose consumer records no errors. It is its own ``BreakerTable``.

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
            open_count=math.ceil(rules.open_count / weight),
            ramp_min_count=math.ceil(rules.ramp_min_count / weight),
        )
        self._deleted: Counter[int] = Counter()
        self._deleted_before = round(samples_before * rules.slot_seconds)
        self._states: dict[str, BreakerState] = {}
        self.now_seconds = 0
        self.worker = BreakerWorker(
            self, self._rules, self._read_deletions, clock_seconds=lambda: self.now_seconds
        )

    def count_deleted(self, at_seconds: int) -> None:
        """Count a sample that main deleted, in seconds from the start of the outage."""
        self._deleted[self._rules.slot(STARTED_SECONDS + at_seconds)] += 1

    def is_probe(self, step: Step) -> bool:
        """Return whether *step* sends a probe: one message, not all of its sample."""
        is_open = any(state.phase is Phase.OPEN for state in self._states.values())
        return is_open and step.passage is Passage.GRANTED

    def read(
        self, names: Iterable[str], *, is_consistent: bool = False
    ) -> tuple[frozenset[str], Mapping[str, BreakerState]]:
        """Return all breakers; there are no types of errors."""
        del names, is_consistent
        return frozenset(), dict(self._states)

    def register(self, types: Sequence[str], room: int) -> frozenset[str]:
        """Register nothing."""
        del types, room
        return frozenset()

    def update(self, name: str, update: Update) -> tuple[bool, BreakerState]:
        """Change a breaker if it is as expected."""
        state = self._states.get(name, BreakerState())
        changed = apply(state, update)
        if changed is None:
            return False, state
        self._states[name] = changed
        return True, changed

    def _read_deletions(self, start_seconds: int, end_seconds: int) -> Mapping[int, int]:
        first, slot = self._rules.slot(STARTED_SECONDS), self._rules.slot
        slots = range(slot(start_seconds), slot(end_seconds))
        return {s: self._deleted[s] if s >= first else self._deleted_before for s in slots}
