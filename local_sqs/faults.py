"""What can go wrong on the way to SQS and back: rules, and which of them a request meets."""

import random
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from local_sqs.errors import SqsError, internal, throttled


class Effect(StrEnum):
    """What happens to a request that a rule meets."""

    THROTTLE = "throttle"
    """Refused with RequestThrottled; nothing was done."""
    ERROR = "error"
    """Answered with HTTP 500; nothing was done."""
    UNAVAILABLE = "unavailable"
    """Answered with HTTP 503; nothing was done."""
    REFUSE = "refuse"
    """Refused with the rule's *code*; nothing was done."""
    CLOSE = "close"
    """The connection breaks; nothing was done."""
    LOSE = "lose"
    """It was done, and the connection breaks before the answer."""
    HANG = "hang"
    """It was done, and no answer ever comes."""
    DELAY = "delay"
    """The rule's *seconds* pass, before or after it is done."""
    FAIL_ENTRIES = "fail_entries"
    """The rule's *entries* of a batch stand in ``Failed`` and are not done; the others are."""
    KILL = "kill"
    """The rule's *pid* gets SIGKILL, before or after it is done. It is done all the same, as SQS
    would; with CLOSE as a second rule it is not."""
    CALL = "call"
    """The rule's *callback* runs, before or after it is done."""


_REFUSALS: Mapping[Effect, Callable[[], SqsError]] = {
    Effect.THROTTLE: throttled,
    Effect.ERROR: internal,
    Effect.UNAVAILABLE: lambda: internal(503),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule: which requests, and what happens to them.

    Without *nth*, *every* and *probability* it meets every request of its operation and queue.

    Attributes:
        operation: as AWS names it; ``*`` for all.
        queue: its name; ``*`` for all.
        nth: only this request, counted from 1 since the rule was set.
        every: each k-th request.
        probability: of each request, drawn from *seed*.
        times: how often at most.
        after: for delay, kill and call: once it is done, before the answer.
        entries: 0-based places in a batch; empty means all.
        code: of failed entries, where ``InternalError`` counts as the service's fault, and of
            requests that are refused.
    """

    effect: Effect
    operation: str = "*"
    queue: str = "*"
    nth: int | None = None
    every: int | None = None
    probability: float | None = None
    seed: int = 0
    times: int | None = None
    after: bool = False
    seconds: float = 0.0
    entries: tuple[int, ...] = ()
    code: str = "InternalError"
    pid: int | None = None
    callback: Callable[[], None] | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Read a rule that was sent over HTTP; a callback cannot be.

        Raises:
            ValueError, TypeError: an unknown effect or field.
        """
        known = {f.name for f in fields(cls)} - {"callback"}
        if unknown := set(raw) - known:
            raise ValueError(f"unknown fields of a fault: {sorted(unknown)}")
        given = dict(raw)
        effect, entries = Effect(given.pop("effect")), tuple(given.pop("entries", ()))
        return cls(effect, entries=entries, **given)

    def refusal(self) -> SqsError | None:
        """The error to answer with, if that is the effect."""
        if self.effect is Effect.REFUSE:
            return SqsError(self.code, "Invented by a fault.", status=403)
        refuse = _REFUSALS.get(self.effect)
        return refuse() if refuse else None


@dataclass
class _Armed:
    """A rule with its counters."""

    fault: Fault
    seen: int = 0
    met: int = 0
    draws: random.Random = field(default_factory=random.Random)

    def meets(self, operation: str, queue: str) -> bool:
        fault = self.fault
        if fault.operation not in {"*", operation} or fault.queue not in {"*", queue}:
            return False
        self.seen += 1
        is_met = self._is_turn() and (fault.times is None or self.met < fault.times)
        self.met += is_met
        return is_met

    def _is_turn(self) -> bool:
        fault = self.fault
        if fault.nth is not None:
            return self.seen == fault.nth
        if fault.every is not None:
            return self.seen % fault.every == 0
        return fault.probability is None or self.draws.random() < fault.probability


class FaultPlan:
    """The rules in force; safe to change while requests arrive."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._lock = threading.Lock()
        self._armed: list[_Armed] = []
        self.add(*faults)

    def add(self, *faults: Fault) -> None:
        with self._lock:
            self._armed += [_Armed(f, draws=random.Random(f.seed)) for f in faults]

    def clear(self) -> None:
        with self._lock:
            self._armed.clear()

    def meeting(self, operation: str, queue: str) -> list[Fault]:
        """Count the request with every rule; those that it meets, in the order they were set."""
        with self._lock:
            return [armed.fault for armed in self._armed if armed.meets(operation, queue)]
