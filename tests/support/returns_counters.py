"""Counters of returns in memory, as ``ReturnsTable`` counts."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from dlq_replay.replaying.returns import Key, Returns


@dataclass
class FakeCounters:
    """The counters of all redrives of a test.

    Attributes:
        items: those that a redrive has begun.
        faults: asked before each change, and again once it is made; may raise.
        calls: each change that was asked for: key, kind and ids.
        confirmed: first ids of returns, of each call that was answered.
    """

    items: dict[Key, Returns] = field(default_factory=dict)
    faults: Callable[[], None] = lambda: None
    calls: list[tuple[Key, str, frozenset[str]]] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, keys: Collection[Key], faults: Callable[[], None] = lambda: None) -> "FakeCounters":
        return cls(dict.fromkeys(keys, Returns()), faults)

    def add(self, plan_id: str, group_id: str, kind: str, ids: frozenset[str]) -> bool:
        key = plan_id, group_id
        self.calls.append((key, kind, ids))
        self.faults()
        if counted := self.items.get(key):
            parked = counted.parked_ids | (ids if kind == "parked" else set())
            returned = counted.returned_ids | ids
            self.items[key] = Returns(len(returned), len(parked), returned, parked)
        self.faults()
        self.confirmed += ids if kind == "returned" else ()
        return counted is not None
