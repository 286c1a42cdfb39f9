"""A table of circuit breakers in memory: DynamoDB's conditional update, limits and faults."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dlq_replay.breaker import BreakerState, Update, apply
from dlq_replay.errors import BreakerTableError

ITEM_UNITS_A_SECOND = 1000
"""What one partition of DynamoDB writes: DynamoDBDeveloperGuide, "Burst and adaptive capacity"."""


@dataclass
class FakeBreakers:
    """One source queue's breakers, shared by all workers of a test.

    Attributes:
        now_seconds: the table's own clock, for its limit.
        faults: asked before each call, with its name; may raise. Replaced by tests.
        units_a_second: write units that one item takes.
        updates: what was asked for and done, in order, with the breaker's name.
        lagging: what reads show that are not consistent; None for the states themselves.
    """

    now_seconds: Callable[[], float] = lambda: 0.0
    faults: Callable[[str], None] = lambda _: None
    units_a_second: int = ITEM_UNITS_A_SECOND
    types: frozenset[str] = frozenset()
    states: dict[str, BreakerState] = field(default_factory=dict)
    updates: list[tuple[str, Update]] = field(default_factory=list)
    lagging: Mapping[str, BreakerState] | None = None
    refused: int = 0
    throttled: int = 0
    largest_bytes: int = 0
    _used: dict[tuple[str, int], int] = field(default_factory=dict)

    def read(
        self, names: Iterable[str], *, is_consistent: bool = False
    ) -> tuple[frozenset[str], Mapping[str, BreakerState]]:
        self.faults("read")
        wanted = self.types.union(names)
        states = self.states if is_consistent or self.lagging is None else self.lagging
        return self.types, {n: state for n, state in states.items() if n in wanted}

    def register(self, types: Sequence[str], room: int) -> frozenset[str]:
        self.faults("register")
        if len(self.types) <= room:
            self.types = self.types.union(types)
        return self.types

    def update(self, name: str, update: Update) -> tuple[bool, BreakerState]:
        self.faults("update")
        state = self.states.get(name, BreakerState())
        changed = apply(state, update)
        self._use(name, changed or state)
        if changed is None:
            self.refused += 1
            return False, state
        self.states[name] = changed
        self.updates.append((name, update))
        return True, changed

    def _use(self, name: str, state: BreakerState) -> None:
        size = _size_bytes(name, state)
        self.largest_bytes = max(self.largest_bytes, size)
        second = (name, int(self.now_seconds()))
        used = self._used.get(second, 0) + -(-size // 1024)
        if used > self.units_a_second:
            self.throttled += 1
            raise BreakerTableError("ProvisionedThroughputExceededException: throttled")
        self._used = {second: used} | {k: v for k, v in self._used.items() if k[1] == second[1]}
        self._used[second] = used


def denied(_: str) -> None:
    raise BreakerTableError("AccessDeniedException: not authorized")


def _size_bytes(name: str, state: BreakerState) -> int:
    """As DynamoDB counts: names and texts in UTF-8, numbers two digits a byte and one more."""
    key = len("message_id") + len("breaker#orders#") + len(name)
    numbers = {**state.numbers, "v": 1, "expires_at": 1_700_000_000}
    digits = sum(len(n) + (len(str(value)) + 1) // 2 + 1 for n, value in numbers.items())
    return key + digits + sum(11 + len(text) for text in state.probes.values())
