"""The path of every request, over HTTP or in process: log, faults, model, answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from local_sqs.api import call, failed_entry, wait_seconds
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault, FaultPlan, invented
from local_sqs.model import SqsModel

_CHECK_CLIENT_MS = 250
"""The interval in which a long poll checks whether its client is still there."""


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

    def matches(self, operation: str, queue: str) -> bool:
        """Return whether it is such a request; ``*`` means any."""
        return operation in {"*", self.operation} and queue in {"*", self.queue}


class RequestLog:
    """The received requests, in order. Thread-safe."""

    def __init__(self) -> None:
        self._records: list[RequestRecord] = []

    def add(self, record: RequestRecord) -> None:
        self._records.append(record)

    def clear(self) -> None:
        self._records.clear()

    def records(self, operation: str = "*", queue: str = "*") -> Sequence[RequestRecord]:
        """Return the records of an operation and a queue; ``*`` means all."""
        return [record for record in self._records.copy() if record.matches(operation, queue)]

    def count(self, operation: str = "*", queue: str = "*") -> int:
        return len(self.records(operation, queue))


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

    def handle(
        self,
        operation: str,
        request: Mapping[str, Any],
        is_gone: Callable[[], bool] = lambda: False,
    ) -> dict[str, Any]:
        """Handle one request in the caller's thread.

        A wait, also that of a long poll, advances a virtual clock. A long poll whose client
        *is_gone* ends without receiving.

        Raises:
            SqsError: the model or a rule refuses the request.
            AnswerLostError: a rule drops the answer, or the client of a long poll is gone.
        """
        url = request.get("QueueUrl") or request.get("QueueName") or ""
        queue = url.rstrip("/").rpartition("/")[2]
        faults = self.faults.meeting(operation, queue)
        record = RequestRecord(
            operation=operation,
            queue=queue,
            entry_count=len(request["Entries"]) if "Entries" in request else 1,
            at_ms=self.model.clock.now_ms(),
            effects=tuple(fault.effect.value for fault in faults),
        )
        self.log.add(record)

        self._disturb(faults, after=False)
        for fault in faults:
            if fault.effect is Effect.CLOSE:
                raise AnswerLostError(is_timeout=False)
            if (refusal := fault.refusal()) is not None:
                raise refusal

        answer = self._act_waiting(operation, request, faults, is_gone)

        self._disturb(faults, after=True)
        for fault in faults:
            if fault.effect in {Effect.LOSE, Effect.HANG}:
                raise AnswerLostError(is_timeout=fault.effect is Effect.HANG)

        return answer

    def _disturb(self, faults: Sequence[Fault], *, after: bool) -> None:
        """Wait and call back as the rules say, before or *after* the request is carried out."""
        for fault in faults:
            if fault.after != after:
                continue
            if fault.effect is Effect.DELAY:
                self.model.clock.sleep(fault.seconds)
            elif fault.callback is not None:
                fault.callback()

    def _act_waiting(
        self,
        operation: str,
        request: Mapping[str, Any],
        faults: Sequence[Fault],
        is_gone: Callable[[], bool],
    ) -> dict[str, Any]:
        """Carry out a request; repeat a long poll until there is an answer or its wait ends."""
        model = self.model
        clock = model.clock
        deadline_ms = clock.now_ms() + wait_seconds(model, operation, request) * 1000

        with model.changed:
            while not (answer := self._act(operation, request, faults)):
                now_ms = clock.now_ms()
                if now_ms >= deadline_ms:
                    break

                due_ms = model.find(request["QueueUrl"]).next_event_ms() or deadline_ms
                if isinstance(clock, VirtualClock):
                    clock.advance_to(min(deadline_ms, due_ms))
                    continue

                until_ms = min(deadline_ms, due_ms, now_ms + _CHECK_CLIENT_MS)
                model.changed.wait((until_ms - now_ms) / 1000)
                if is_gone():
                    raise AnswerLostError(is_timeout=False)

        return answer

    def _act(
        self, operation: str, request: Mapping[str, Any], faults: Sequence[Fault]
    ) -> dict[str, Any]:
        """Carry out a request now, without the entries of a batch that a rule fails."""
        entries = request.get("Entries", [])
        failures: dict[int, dict[str, Any]] = {}
        for fault in faults:
            if fault.effect is not Effect.FAIL_ENTRIES:
                continue
            for position in fault.entries or range(len(entries)):
                if position < len(entries):
                    error = invented(fault.code)
                    failures[position] = failed_entry(entries[position], error)

        if not failures:
            return call(self.model, operation, request)

        others = [entry for position, entry in enumerate(entries) if position not in failures]
        answer = call(self.model, operation, {**request, "Entries": others}) if others else {}
        answer["Failed"] = [*answer.get("Failed", []), *failures.values()]
        return answer
