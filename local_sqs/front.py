"""The path of every request, over HTTP or in process: log, faults, model, answer."""

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from local_sqs.api import call, wait_seconds
from local_sqs.api_batches import failed
from local_sqs.clock import VirtualClock
from local_sqs.errors import SqsError
from local_sqs.faults import Effect, Fault, FaultPlan
from local_sqs.model import SqsModel


class AnswerLostError(Exception):
    """The connection broke, or no answer came in time.

    Attributes:
        is_timeout: True if no answer came, False if the connection broke.
    """

    def __init__(self, *, is_timeout: bool) -> None:
        super().__init__("no answer came" if is_timeout else "the connection broke")
        self.is_timeout = is_timeout


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One received request.

    Attributes:
        queue: name of the queue; empty if the request has none.
        entry_count: of a batch; 1 for everything else.
        at_ms: on the clock of the model.
        effects: of the rules that applied.
    """

    operation: str
    queue: str
    entry_count: int
    at_ms: int
    effects: tuple[str, ...] = ()


class RequestLog:
    """The received requests, in order. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: list[RequestRecord] = []

    def add(self, record: RequestRecord) -> None:
        with self._lock:
            self._records.append(record)

    def clear(self) -> None:
        with self._lock:
            self._records.clear()

    def records(self, operation: str = "*", queue: str = "*") -> Sequence[RequestRecord]:
        with self._lock:
            records = list(self._records)
        return [r for r in records if operation in {"*", r.operation} and queue in {"*", r.queue}]

    def count(self, operation: str = "*", queue: str = "*") -> int:
        return len(self.records(operation, queue))


@dataclass(frozen=True, slots=True)
class Visit:
    """One request and the rules that apply to it."""

    operation: str
    request: Mapping[str, Any]
    faults: Sequence[Fault]

    def refuse(self) -> None:
        """Raise if a rule prevents the request from being carried out.

        Raises:
            SqsError: a fault refuses the request.
            AnswerLostError: a fault breaks the connection.
        """
        for fault in self.faults:
            if fault.effect is Effect.CLOSE:
                raise AnswerLostError(is_timeout=False)
            if (refusal := fault.refusal()) is not None:
                raise refusal

    def seconds(self, *, after: bool) -> float:
        """Return how long to wait before (or *after*) the request is carried out."""
        delays = [f for f in self.faults if f.effect is Effect.DELAY and f.after == after]
        return sum(fault.seconds for fault in delays)

    def trigger(self, *, after: bool) -> None:
        """Run kills and callbacks that are due before (or *after*) the request is carried out."""
        for fault in self.faults:
            if fault.after != after:
                continue
            if fault.effect is Effect.KILL and fault.pid is not None:
                os.kill(fault.pid, signal.SIGKILL)
            if fault.effect is Effect.CALL and fault.callback is not None:
                fault.callback()

    def lose(self) -> None:
        """Drop the answer if a rule has that effect.

        Raises:
            AnswerLostError: a rule has it.
        """
        for fault in self.faults:
            if fault.effect in {Effect.LOSE, Effect.HANG}:
                raise AnswerLostError(is_timeout=fault.effect is Effect.HANG)

    def split(self) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
        """Return the request without the entries that a rule fails, and their results."""
        entries = self.request.get("Entries", [])
        refused: dict[int, dict[str, Any]] = {}
        for fault in self.faults:
            if fault.effect is Effect.FAIL_ENTRIES:
                error = _failure(fault.code)
                places = [i for i in fault.entries or range(len(entries)) if i < len(entries)]
                refused.update({i: failed(entries[i], error) for i in places})
        if not refused:
            return self.request, []
        kept = [entry for place, entry in enumerate(entries) if place not in refused]
        return {**self.request, "Entries": kept}, list(refused.values())


def _failure(code: str) -> SqsError:
    return SqsError(code, "Invented by a fault.", is_sender_fault=code != "InternalError")


class Front:
    """A model with a log and faults in front of it.

    Attributes:
        model: answers the requests.
        faults: the active rules; may be changed at any time.
        log: the received requests.
    """

    def __init__(self, model: SqsModel, *faults: Fault) -> None:
        self.model = model
        self.faults = FaultPlan(faults)
        self.log = RequestLog()

    @classmethod
    def of(cls, source: "SqsModel | Front") -> "Front":
        """Return *source* if it is a front, else a new front for the model."""
        return cls(source) if isinstance(source, SqsModel) else source

    def admit(self, operation: str, request: Mapping[str, Any]) -> Visit:
        """Log a request and find the rules that apply."""
        url = request.get("QueueUrl") or request.get("QueueName") or ""
        queue = url.rstrip("/").rpartition("/")[2]
        faults = self.faults.meeting(operation, queue)
        entry_count = len(request["Entries"]) if "Entries" in request else 1
        effects = tuple(fault.effect.value for fault in faults)
        now_ms = self.model.clock.now_ms()
        self.log.add(RequestRecord(operation, queue, entry_count, now_ms, effects))
        return Visit(operation, request, faults)

    def act(self, visit: Visit) -> dict[str, Any]:
        """Carry out a request now, without waiting for messages.

        Raises:
            SqsError: the model refuses.
        """
        request, refused = visit.split()
        answer = (
            {} if refused and not request["Entries"] else call(self.model, visit.operation, request)
        )
        if refused:
            answer["Failed"] = [*answer.get("Failed", []), *refused]
        return answer

    def handle(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Handle one request in the caller's thread.

        A wait, also that of a long poll, advances a virtual clock.

        Raises:
            SqsError: the model or a rule refuses the request.
            AnswerLostError: a rule drops the answer.
        """
        visit = self.admit(operation, request)
        self._sleep(visit.seconds(after=False))
        visit.trigger(after=False)
        visit.refuse()
        answer = self._act_waiting(visit)
        visit.trigger(after=True)
        self._sleep(visit.seconds(after=True))
        visit.lose()
        return answer

    def _act_waiting(self, visit: Visit) -> dict[str, Any]:
        model, clock = self.model, self.model.clock
        wait_ms = wait_seconds(model, visit.operation, visit.request) * 1000
        deadline_ms = clock.now_ms() + wait_ms
        with model.changed:
            while not (answer := self.act(visit)) and clock.now_ms() < deadline_ms:
                due_ms = model.find(visit.request["QueueUrl"]).next_event_ms()
                until_ms = min(deadline_ms, due_ms or deadline_ms)
                if isinstance(clock, VirtualClock):
                    clock.advance_to(until_ms)
                else:
                    model.changed.wait((until_ms - clock.now_ms()) / 1000)
        return answer

    def _sleep(self, seconds: float) -> None:
        clock = self.model.clock
        if isinstance(clock, VirtualClock):
            clock.advance(seconds)
        elif seconds:
            time.sleep(seconds)
