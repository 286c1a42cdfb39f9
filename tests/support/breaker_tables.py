"""A breaker's item in memory: DynamoDB's conditional update, limits and faults."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dlq_replay.errors import TableError
from dlq_replay.rules.breaker import Update, apply

ITEM_UNITS_A_SECOND = 1000
"""What one partition of DynamoDB writes: DynamoDBDeveloperGuide, "Burst and adaptive capacity"."""


@dataclass
class FakeBreaker:
    """One main queue's breaker, shared by all workers of a test.

    Attributes:
        now_seconds: the table's own clock, for its limit.
        faults: asked before each call, with its name; may raise. Replaced by tests.
        units_a_second: write units that the item takes.
    """

    now_seconds: Callable[[], float] = lambda: 0.0
    faults: Callable[[str], None] = lambda _: None
    units_a_second: int = ITEM_UNITS_A_SECOND
    numbers: Mapping[str, int] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    largest_bytes: int = 0
    _used: tuple[int, int] = (0, 0)

    def read(self) -> Mapping[str, int]:
        self.calls.append("read")
        self.faults("read")
        return self.numbers

    def update(self, update: Update) -> tuple[bool, Mapping[str, int]]:
        self.calls.append("update")
        self.faults("update")
        changed = apply(self.numbers, update)
        self._use(changed or self.numbers)
        self.numbers = self.numbers if changed is None else changed
        return changed is not None, self.numbers

    def _use(self, numbers: Mapping[str, int]) -> None:
        size = _size_bytes(numbers)
        self.largest_bytes = max(self.largest_bytes, size)
        second, used = int(self.now_seconds()), -(-size // 1024)
        used += self._used[1] if self._used[0] == second else 0
        if used > self.units_a_second:
            raise TableError("ProvisionedThroughputExceededException: throttled")
        self._used = second, used


def denied(_: str) -> None:
    raise TableError("AccessDeniedException: not authorized")


def _size_bytes(numbers: Mapping[str, int]) -> int:
    """As DynamoDB counts: names in UTF-8, numbers two digits a byte and one more."""
    key = len("message_id") + len("breaker#orders")
    all_numbers = {**numbers, "expires_at": 1_700_000_000}
    return key + sum(len(n) + (len(str(value)) + 1) // 2 + 1 for n, value in all_numbers.items())
