"""Fault injection: rules, and which of them apply to a request."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from random import Random

from local_sqs.errors import SqsError, kms_error


class Effect(StrEnum):
    """The effect of a rule on a request."""

    THROTTLE = "throttle"
    """Refused with RequestThrottled; not carried out."""
    ERROR = "error"
    """Answered with HTTP 500; not carried out."""
    UNAVAILABLE = "unavailable"
    """Answered with HTTP 503; not carried out."""
    REFUSE = "refuse"
    """Refused with the rule's *code*; not carried out."""
    CLOSE = "close"
    """The connection breaks; not carried out."""
    LOSE = "lose"
    """Carried out; the connection breaks before the answer."""
    HANG = "hang"
    """Carried out; no answer is ever sent."""
    DELAY = "delay"
    """Delayed by the rule's *seconds*, before or after it is carried out."""
    FAIL_ENTRIES = "fail_entries"
    """The rule's *entries* of a batch are reported in ``Failed``; the others are carried out."""
    CALL = "call"
    """The rule's *callback* runs, before or after the request is carried out."""


_REFUSALS: Mapping[Effect, tuple[str, int]] = {
    Effect.THROTTLE: ("RequestThrottled", 403),
    Effect.ERROR: ("InternalError", 500),
    Effect.UNAVAILABLE: ("ServiceUnavailable", 503),
    Effect.REFUSE: ("", 403),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule: which requests it applies to, and its effect.

    Without *nth*, *every* and *probability* it applies to every request of its operation and
    queue.

    Attributes:
        operation: name of the AWS operation; ``*`` for all.
        queue: name of the queue; ``*`` for all.
        nth: only this request, counted from 1 since the rule was added.
        every: every k-th request.
        probability: for each request, drawn with *seed*.
        times: the most often that it applies.
        after: for delay and call: after the request is carried out, before the answer.
        entries: 0-based positions in a batch; empty means all.
        code: error code of failed entries and refused requests. ``InternalError`` counts as an
            error of the service. KMS's errors may be given by shape or by code: the answer has
            both, and boto3 shows the code.
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
    callback: Callable[[], None] | None = None

    def refusal(self) -> SqsError | None:
        """Return the error to answer with; None if the effect is not an error."""
        if self.effect not in _REFUSALS:
            return None

        code, status = _REFUSALS[self.effect]
        return invented(code or self.code, status)


def invented(code: str, status: int = 400) -> SqsError:
    """Return the error of a fault. ``InternalError`` and HTTP 5xx are errors of the service."""
    message = "Invented by a fault."
    if error_of_kms := kms_error(code, message):
        return error_of_kms

    is_sender_fault = code != "InternalError" and status < HTTPStatus.INTERNAL_SERVER_ERROR
    return SqsError(code, message, status=status, is_sender_fault=is_sender_fault)


@dataclass
class _Armed:
    """A rule with its counters."""

    fault: Fault
    request_count: int = 0
    applied_count: int = 0
    random: Random = field(default_factory=Random)

    def applies(self, operation: str, queue: str) -> bool:
        """Count a request; return whether the rule applies to it."""
        fault = self.fault
        if fault.operation not in {"*", operation} or fault.queue not in {"*", queue}:
            return False

        self.request_count += 1
        applies = (
            fault.nth in {None, self.request_count}
            and self.request_count % (fault.every or 1) == 0
            and (fault.probability is None or self.random.random() < fault.probability)
            and (fault.times is None or self.applied_count < fault.times)
        )
        if applies:
            self.applied_count += 1
        return applies


class FaultPlan:
    """The active rules. They may be changed while requests arrive."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._lock = threading.Lock()
        self._armed: list[_Armed] = []
        self.add(*faults)

    def add(self, *faults: Fault) -> None:
        with self._lock:
            for fault in faults:
                self._armed.append(_Armed(fault, random=Random(fault.seed)))

    def clear(self) -> None:
        with self._lock:
            self._armed.clear()

    def meeting(self, operation: str, queue: str) -> list[Fault]:
        """Count the request for every rule; return those that apply, in the order of ``add``."""
        with self._lock:
            return [armed.fault for armed in self._armed if armed.applies(operation, queue)]
