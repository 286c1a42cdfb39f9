"""Counters of returns in memory, as ``ReturnsTable`` counts."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from dlq_replay.replaying.returns import Key, Returns

Ids = frozenset[str]
NONE: Ids = frozenset()


@dataclass
class FakeCounters:
    """The counters of all redrives of a test.

    Attributes:
        items: those that a redrive has begun.
        faults: asked before each change, and again once it is made; may raise.
        calls: each change that was asked for: its key and the ids.
        confirmed: first ids of returns, of each call that was answered.
    """

    items: dict[Key, Returns] = field(default_factory=dict)
    faults: Callable[[], None] = lambda: None
    calls: list[tuple[Key, Ids, Ids]] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, keys: Collection[Key], faults: Callable[[], None] = lambda: None) -> "FakeCounters":
        return cls(dict.fromkeys(keys, Returns()), faults)

    def add(self, plan_id: str, group_id: str, returned: Ids = NONE, parked: Ids = NONE) -> bool:
        key, asked = (plan_id, group_id), returned
        self.calls.append((key, returned, parked))
        self.faults()
        known = self.items.get(key)
        if known is not None:
            returned, parked = known.returned_ids | returned, known.parked_ids | parked
            self.items[key] = Returns(len(returned), len(parked), returned, parked)
        self.faults()
        self.confirmed += asked
        return known is not None
