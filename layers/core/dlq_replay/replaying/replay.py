"""The use case: a batch of dead letters, each replayed, held, parked or left where it was.

Plans with ``plan``, acts through ``sending`` and, for holds on FIFO, through visibility; accounts
for every message.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Protocol

from dlq_replay.backoff import DrawUpTo
from dlq_replay.replaying.breaker_worker import BreakerReport, BreakerWorker
from dlq_replay.replaying.returns import ReturnsCounter
from dlq_replay.replaying.sending import (
    Confirmed,
    NotSent,
    Refused,
    SendResult,
    Shipment,
    Unconfirmed,
    WritableQueue,
    send_groups,
)
from dlq_replay.rules.batch_plan import NOT_COUNTED, Failed, PlannedRecord, Wait, plan_batch
from dlq_replay.rules.breaker import BreakerView
from dlq_replay.rules.decision import Hold, Park, Replay
from dlq_replay.rules.failures import Failure
from dlq_replay.rules.outgoing import source_queue
from dlq_replay.rules.policy import ReplayPolicy
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import History, Message, UnreadableRecord

_UNCOUNTED = Failed(NOT_COUNTED, "its return could not be counted")

FindFailures = Callable[[Sequence[str]], tuple[Mapping[str, Failure], str | None]]


class DeadLetterQueue(WritableQueue, Protocol):
    """The DLQ, as a replay uses it. ``sqs.SqsQueue`` is one."""

    def change_visibility(self, changes: Sequence[tuple[Message, int]]) -> Sequence[Message]:
        """Hide each received message for a number of seconds from now; 0 shows it at once.

        Returns those that SQS did not confirm; never raises for an error of SQS.
        """


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcomes of a batch: exactly one per message id.

    Attributes:
        outcomes: one for each message; Replay, Park and Hold mean that SQS confirmed it.
        breakers: the report of the circuit breaker of each main queue; empty where there is none.
        uncounted_returns: returns of redrives that could not be counted and go on all the same.
        returns_fault: why the table could not count returns, reported once a minute; else None.
        failures_fault: why the failures that consumers recorded may be incomplete; else None.
    """

    outcomes: tuple[PlannedRecord, ...]
    breakers: Mapping[QueueAddress, BreakerReport] = field(default_factory=dict)
    uncounted_returns: int = 0
    returns_fault: str | None = None
    failures_fault: str | None = None

    def to_partial_batch_response(self) -> dict[str, list[dict[str, str]]]:
        """Return Lambda's partial batch response: it deletes every message that is not in it."""
        left_ids = [outcome.message_id for outcome in self.outcomes if outcome.is_left]
        return {"batchItemFailures": [{"itemIdentifier": left_id} for left_id in left_ids]}


@dataclass(frozen=True, slots=True)
class Replayer:
    """Replays batches by one policy, from the DLQ to each message's own main queue.

    Attributes:
        now_seconds: the clock, epoch seconds.
        draw_up_to: the randomness of the jitter on standard queues.
        find_failures: ``failure_table.FailureTable.find``; called once per batch, never raises.
    """

    policy: ReplayPolicy
    main_queues: Mapping[QueueAddress, WritableQueue]
    dlq: DeadLetterQueue
    parked_queue: WritableQueue
    now_seconds: Callable[[], int]
    draw_up_to: DrawUpTo
    executor: Executor
    find_failures: FindFailures = lambda _: ({}, None)
    breakers: Mapping[QueueAddress, BreakerWorker] = field(default_factory=dict)
    returns: ReturnsCounter = field(default_factory=ReturnsCounter)

    def replay(
        self,
        records: Sequence[Message | UnreadableRecord],
        seconds_left: Callable[[], float],
        left: Mapping[str, Failed] | None = None,
    ) -> BatchOutcome:
        """Decide and act on each record. Never raises for what a message contains or SQS answers.

        A message that is twice in the batch is sent once. *seconds_left* returns how long the
        answers may still be waited for; a message that is not confirmed by then is Failed. *left*
        are messages that stay in the DLQ, by their ids, and why.
        """
        distinct = {record.message_id: _without_foreign_context(record) for record in records}
        messages = [record for record in distinct.values() if isinstance(record, Message)]
        has_time = seconds_left() > 0
        failed_ids = [message.failed_id for message in messages]
        failures, fault = self.find_failures(failed_ids) if has_time else ({}, None)
        left = left or {}
        leaving = [record for record in distinct.values() if record.message_id not in left]
        counted, uncounted, missed = self.returns.count(leaving, self.policy)
        left = {**left, **dict.fromkeys(uncounted, _UNCOUNTED)}
        batch = list((distinct | {record.message_id: record for record in counted}).values())

        now_seconds = self.now_seconds()
        views: Mapping[QueueAddress, BreakerView | None] = {}
        reports: dict[QueueAddress, BreakerReport] = {}

        def plan() -> list[PlannedRecord]:
            return plan_batch(
                batch, self.policy, now_seconds, self.draw_up_to, failures, views, left
            )

        try:
            if self.breakers and seconds_left() > 0:
                views = self._look(batch, now_seconds)
            planned_records = plan()
        except Exception as error:  # noqa: BLE001 - no fault of a breaker may stop a message
            views = {}
            reports = dict.fromkeys(self.breakers, _faulty_breaker(error))
            planned_records = plan()

        results = send_groups(self._groups(planned_records), self.executor, seconds_left)
        held = self._settle_groups(planned_records, results, seconds_left)
        outcomes = tuple(_outcome(planned, results, held) for planned in planned_records)

        if seconds_left() > 0:
            for queue, view in views.items():
                reports[queue] = self._finish(queue, outcomes, view)
            self.returns.count_parked(outcomes)
            reports = self._report_others(reports, now_seconds, seconds_left)
        return BatchOutcome(
            outcomes=outcomes,
            breakers=reports,
            uncounted_returns=missed,
            returns_fault=self.returns.calls.fault_to_report(),
            failures_fault=fault,
        )

    def _look(
        self, records: Iterable[Message | UnreadableRecord], now_seconds: int
    ) -> dict[QueueAddress, BreakerView | None]:
        """Ask for the limit of each main queue that the batch has messages of."""
        messages: defaultdict[QueueAddress, list[Message]] = defaultdict(list)
        for record in records:
            source = self._source_of(record)
            if isinstance(record, Message) and source is not None and source in self.breakers:
                messages[source].append(record)

        views: dict[QueueAddress, BreakerView | None] = {}
        for queue, messages_of_queue in messages.items():
            views[queue] = self.breakers[queue].look(messages_of_queue, now_seconds)
        return views

    def _finish(
        self, queue: QueueAddress, outcomes: Sequence[PlannedRecord], view: BreakerView | None
    ) -> BreakerReport:
        """Let the breaker count. The messages are sent: an error here would send them again."""
        own = [outcome for outcome in outcomes if self._source_of(outcome.record) == queue]
        try:
            return self.breakers[queue].finish(own, view)
        except Exception as error:  # noqa: BLE001 - see above
            return _faulty_breaker(error)

    def _source_of(self, record: Message | UnreadableRecord) -> QueueAddress | None:
        return source_queue(record, self.policy) if isinstance(record, Message) else None

    def _report_others(
        self,
        reports: Mapping[QueueAddress, BreakerReport],
        now_seconds: int,
        seconds_left: Callable[[], float],
    ) -> dict[QueueAddress, BreakerReport]:
        """Add the reports of the queues that the batch has no message of.

        The number of limits is published for the DLQ, which they share. A table that fails once is
        not asked again, so that it cannot delay the answer.
        """
        all_reports = dict(reports)
        for queue, breaker in self.breakers.items():
            if queue in all_reports:
                continue

            has_fault = any(report.fault is not None for report in all_reports.values())
            is_asked = seconds_left() > 0 and not has_fault
            try:
                all_reports[queue] = breaker.report(now_seconds) if is_asked else BreakerReport()
            except Exception as error:  # noqa: BLE001 - see above
                all_reports[queue] = _faulty_breaker(error)
        return all_reports

    def _settle_groups(
        self,
        planned_records: Sequence[PlannedRecord],
        results: Mapping[str, SendResult],
        seconds_left: Callable[[], float],
    ) -> set[str]:
        left = seconds_left()
        if left <= 0 or not self.policy.main_queue.is_fifo:
            return set()
        settling = self.executor.submit(_settle_groups, planned_records, results, self.dlq)
        try:
            return settling.result(timeout=None if math.isinf(left) else left)
        except TimeoutError:
            # It may still take effect; either way the messages stay in the DLQ and come again.
            return set()

    def _groups(self, planned_records: Sequence[PlannedRecord]) -> list[list[Shipment]]:
        groups: dict[str | None, list[Shipment]] = {}
        for planned in planned_records:
            if planned.entry is not None:
                shipment = Shipment(planned.message_id, self._queue(planned), planned.entry)
                groups.setdefault(planned.group, []).append(shipment)
        return list(groups.values())

    def _queue(self, planned: PlannedRecord) -> WritableQueue:
        if isinstance(planned.decision, Park):
            return self.parked_queue
        if not isinstance(planned.decision, Replay):
            return self.dlq
        return self.main_queues[planned.main_queue]


def _settle_groups(
    planned_records: Sequence[PlannedRecord],
    results: Mapping[str, SendResult],
    dlq: DeadLetterQueue,
) -> set[str]:
    """FIFO: hide the heads that must wait, and show the messages behind a head that is settled.

    A hidden message locks its group, which keeps the order while it waits. So a head is hidden only
    once all messages before it in its group are sent: one that failed before it would have to wait
    as long. Messages behind a hidden or a parked head are shown at once, so that the group moves on
    when the head is due or deleted, and not when the timeouts of this receive end.

    Returns:
        The ids of the heads whose hold SQS confirmed.
    """
    sent = {key for key, result in results.items() if isinstance(result, Confirmed)}
    heads = _heads_to_hide(planned_records, unsent=results.keys() - sent)
    unconfirmed = dlq.change_visibility([*heads.values()])
    held = heads.keys() - {message.message_id for message in unconfirmed}

    settled_groups: set[str | None] = set()
    for planned in planned_records:
        is_parked = isinstance(planned.decision, Park) and planned.message_id in sent
        if is_parked or planned.message_id in held:
            settled_groups.add(planned.group)

    behind: list[tuple[Message, int]] = []
    for planned in planned_records:
        if not isinstance(planned.decision, Wait) or not isinstance(planned.record, Message):
            continue
        if planned.group in settled_groups:
            behind.append((planned.record, 0))
    dlq.change_visibility(behind)
    return held


def _heads_to_hide(
    planned_records: Sequence[PlannedRecord], unsent: Collection[str]
) -> dict[str, tuple[Message, int]]:
    """Return the heads that wait, by id, each with the seconds for which to hide it.

    A head behind a message that was not sent is left out.
    """
    broken_groups: set[str | None] = set()
    for planned in planned_records:
        if planned.message_id in unsent:
            broken_groups.add(planned.group)

    heads: dict[str, tuple[Message, int]] = {}
    for planned in planned_records:
        if not isinstance(planned.decision, Hold) or not isinstance(planned.record, Message):
            continue
        if planned.group not in broken_groups:
            heads[planned.message_id] = (planned.record, planned.decision.wait_seconds)
    return heads


def _without_foreign_context(record: Message | UnreadableRecord) -> Message | UnreadableRecord:
    """Remove a context that names another queue than the one SQS moved the message from.

    A consumer passed body and attributes on, to a queue of its own.
    """
    if isinstance(record, UnreadableRecord):
        return record

    moved_from = record.source_arn
    source = record.history.context.source_queue
    if not (moved_from and source) or moved_from.split(":")[-1] == source:
        return record
    return record.with_history(History.inherited("it belongs to a message of another queue"))


def _faulty_breaker(error: Exception) -> BreakerReport:
    return BreakerReport(fault=f"{type(error).__name__}: {error}")


def _outcome(
    planned: PlannedRecord, results: Mapping[str, SendResult], held: set[str]
) -> PlannedRecord:
    if planned.entry is None:
        if isinstance(planned.decision, Hold) and planned.message_id not in held:
            return planned._replace(decision=Failed("not_reached", "its hold was not confirmed"))
        return planned

    match results[planned.message_id]:
        case Confirmed():
            return planned
        case Refused(code, text):
            return planned._replace(decision=Failed("refused", text or code))
        case Unconfirmed(cause):
            return planned._replace(decision=Failed("unconfirmed", cause))
        case NotSent():
            return planned._replace(decision=Failed("not_reached"))
