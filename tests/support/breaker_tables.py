"""A breaker's item in memory: DynamoDB's conditional update, and faults."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dlq_replay.errors import TableError
from dlq_replay.rules.breaker import Update, apply


@dataclass
class FakeBreaker:
    """One main queue's breaker, shared by all workers of a test.

    Attributes:
        faults: asked before each call, with its name; may raise. Replaced by tests.
    """

    faults: Callable[[str], None] = lambda _: None
    numbers: Mapping[str, int] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def read(self) -> Mapping[str, int]:
        self.calls.append("read")
        self.faults("read")
        return self.numbers

    def update(self, update: Update) -> tuple[bool, Mapping[str, int]]:
        self.calls.append("update")
        self.faults("update")
        changed = apply(self.numbers, update)
        self.numbers = self.numbers if changed is None else changed
        return changed is not None, self.numbers


def denied(_: str) -> None:
    raise TableError("AccessDeniedException: not authorized")
