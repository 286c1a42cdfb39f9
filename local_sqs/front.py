"""What every request passes, over HTTP or in process: log, faults, model, answer."""

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
        is_timeout: no answer came, as opposed to a broken connection.
    """

    def __init__(self, *, is_timeout: bool) -> None:
        super().__init__("no answer came" if is_timeout else "the connection broke")
        self.is_timeout = is_timeout


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request that arrived.

    Attributes:
        queue: its name; empty where the request names none.
        entry_count: of a batch; 1 for everything else.
        at_ms: on the clock of the model.
        effects: of the faults that it met.
    """

    operation: str
    queue: str
    entry_count: int
    at_ms: int
    effects: tuple[str, ...] = ()


class RequestLog:
    """What arrived, in order; safe to read at any time."""

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
    """One request and the faults that it meets; the front decides nothing more about it."""

    operation: str
    request: Mapping[str, Any]
    faults: Sequence[Fault]

    def refuse(self) -> None:
        """Stop here if nothing is to be done.

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
        """How long to wait at this point."""
        delays = [f for f in self.faults if f.effect is Effect.DELAY and f.after == after]
        return sum(fault.seconds for fault in delays)

    def trigger(self, *, after: bool) -> None:
        """Kill and call what is to be killed and called at this point."""
        for fault in self.faults:
            if fault.after != after:
                continue
            if fault.effect is Effect.KILL and fault.pid is not None:
                os.kill(fault.pid, signal.SIGKILL)
            if fault.effect is Effect.CALL and fault.callback is not None:
                fault.callback()

    def lose(self) -> None:
        """Keep the answer back if a fault says so.

        Raises:
            AnswerLostError: it does.
        """
        for fault in self.faults:
            if fault.effect in {Effect.LOSE, Effect.HANG}:
                raise AnswerLostError(is_timeout=fault.effect is Effect.HANG)

    def split(self) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
        """The request without the entries that are to fail, and their results."""
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
        model: what answers.
        faults: what goes wrong; may be changed at any time.
        log: what arrived.
    """

    def __init__(self, model: SqsModel, *faults: Fault) -> None:
        self.model = model
        self.faults = FaultPlan(faults)
        self.log = RequestLog()

    @classmethod
    def of(cls, source: "SqsModel | Front") -> "Front":
        """That front, or a new one for that model."""
        return cls(source) if isinstance(source, SqsModel) else source

    def admit(self, operation: str, request: Mapping[str, Any]) -> Visit:
        """Log a request and see which faults it meets."""
        url = request.get("QueueUrl") or request.get("QueueName") or ""
        queue = url.rstrip("/").rpartition("/")[2]
        faults = self.faults.meeting(operation, queue)
        entry_count = len(request["Entries"]) if "Entries" in request else 1
        effects = tuple(fault.effect.value for fault in faults)
        now_ms = self.model.clock.now_ms()
        self.log.add(RequestRecord(operation, queue, entry_count, now_ms, effects))
        return Visit(operation, request, faults)

    def act(self, visit: Visit) -> dict[str, Any]:
        """Do it now, without waiting for messages.

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
        """Take one request all the way, in the caller's thread.

        On a virtual clock a wait, a long poll's too, moves the clock.

        Raises:
            SqsError: the model or a fault refuses.
            AnswerLostError: a fault keeps the answer back.
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
