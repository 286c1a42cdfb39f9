"""A gate without a driver."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class FakeGate:
    """Open until it is stopped.

    Attributes:
        calls: what entered, in order; messages.
        inside: messages of calls that have not left.
        pauses: how long it was asked to wait.
        closes_after: how many calls are let in.
    """

    call_messages: int = 10
    stopped_by: str = ""
    calls: list[int] = field(default_factory=list)
    inside: int = 0
    pauses: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    closes_after: float = math.inf

    def enter(self, messages: int, seconds: float) -> bool:
        if len(self.calls) >= self.closes_after:
            self.stop("enough")
        if self.stopped_by:
            return False
        self.calls.append(messages)
        self.inside += messages
        return True

    def leave(self, messages: int) -> None:
        self.inside -= messages

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def report(self, counts: Mapping[str, int]) -> None:
        self.counts.update(counts)

    def stop(self, why: str) -> None:
        self.stopped_by = self.stopped_by or why
