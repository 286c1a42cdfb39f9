"""The use case: a batch of dead letters, each replayed, parked or left where it was.

Decides with ``decision``, acts through ``sending``, and accounts for every message.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from dlq_replay.backoff import DrawUpTo
from dlq_replay.decision import Decision, Park, Replay, decide
from dlq_replay.events import UnreadableRecord
from dlq_replay.history import History
from dlq_replay.message import Message
from dlq_replay.outgoing import parked_entry, replay_entry
from dlq_replay.policy import ReplayPolicy
from dlq_replay.sending import (
    Confirmed,
    InDoubt,
    Queue,
    Refused,
    SendResult,
    Shipment,
    send_lanes,
)


@dataclass(frozen=True, slots=True)
class Failed:
    """It stays in the DLQ, and SQS brings it again.

    Attributes:
        cause: a word for metrics and log searches: ``unreadable``, ``no_group``, ``group_waits``,
            ``refused``, ``in_doubt`` or ``not_reached``.
        detail: what SQS or the record said, never a part of a body.
    """

    cause: str
    detail: str = ""


Fate = Replay | Park | Failed


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one message. Replay and Park mean that SQS confirmed the new copy."""

    message_id: str
    fate: Fate
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of a batch: exactly one outcome per message id."""

    outcomes: tuple[Outcome, ...]

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The outcomes of messages that stay in the DLQ."""
        return tuple(o for o in self.outcomes if isinstance(o.fate, Failed))

    def to_partial_batch_response(self) -> dict[str, list[dict[str, str]]]:
        """What Lambda wants: it deletes every message that is not named here."""
        return {"batchItemFailures": [{"itemIdentifier": o.message_id} for o in self.failed]}


@dataclass(frozen=True, slots=True)
class Replayer:
    """Replays batches by one policy, between three queues.

    Attributes:
        now_seconds: the clock, epoch seconds.
        draw_up_to: the randomness of the jitter.
        executor: runs the sends.
    """

    policy: ReplayPolicy
    main_queue: Queue
    parked_queue: Queue
    now_seconds: Callable[[], int]
    draw_up_to: DrawUpTo
    executor: Executor

    def replay(
        self, records: Sequence[Message | UnreadableRecord], seconds_left: Callable[[], float]
    ) -> BatchOutcome:
        """Decide and act on each record. Never raises for what a message contains or SQS answers.

        A message that stands twice in the batch is sent once. *seconds_left* says how long the
        answers may still be waited for; what is not confirmed by then is Failed.
        """
        now_seconds = self.now_seconds()
        distinct = list({record.message_id: record for record in records}.values())
        plan = _Plan()
        for record in distinct:
            self._plan(record, now_seconds, plan)
        results = send_lanes(plan.lanes.values(), self.executor, seconds_left)
        return BatchOutcome(tuple(_outcome(record, plan, results.get) for record in distinct))

    def _plan(self, record: Message | UnreadableRecord, now_seconds: int, plan: "_Plan") -> None:
        is_fifo = self.policy.main_queue.is_fifo
        group = record.message_group_id if is_fifo else record.message_id
        if group in plan.stopped_groups:
            plan.fail(record, Failed("group_waits"))
        elif isinstance(record, UnreadableRecord):
            plan.fail(record, Failed("unreadable", record.fault))
        elif group is None:
            plan.fail(record, Failed("no_group", "a FIFO queue needs MessageGroupId"))
        else:
            decision = decide(record, self.policy, now_seconds, self.draw_up_to)
            plan.ship(
                record.message_id, group, decision, self._shipment(record, decision, now_seconds)
            )
        if group is not None and not isinstance(plan.fates[record.message_id], Replay):
            plan.stopped_groups.add(group)

    def _shipment(self, message: Message, decision: Decision, now_seconds: int) -> Shipment[str]:
        if isinstance(decision, Park):
            entry = parked_entry(message, decision.reason, now_seconds, self.policy)
            return Shipment(message.message_id, self.parked_queue, entry)
        entry = replay_entry(
            message, decision.number, decision.delay_seconds, now_seconds, self.policy
        )
        return Shipment(message.message_id, self.main_queue, entry)


class _Plan:
    """What is meant to happen to each message, before any of it has."""

    def __init__(self) -> None:
        self.fates: dict[str, Fate] = {}
        self.lanes: dict[str, list[Shipment[str]]] = {}
        self.stopped_groups: set[str] = set()

    def fail(self, record: Message | UnreadableRecord, fate: Failed) -> None:
        self.fates[record.message_id] = fate

    def ship(self, message_id: str, lane: str, decision: Decision, shipment: Shipment[str]) -> None:
        self.fates[message_id] = decision
        self.lanes.setdefault(lane, []).append(shipment)


def _outcome(
    record: Message | UnreadableRecord,
    plan: _Plan,
    result_of: Callable[[str], SendResult | None],
) -> Outcome:
    fault = History.of(record).fault if isinstance(record, Message) else None
    fate = plan.fates[record.message_id]
    result = result_of(record.message_id)
    if result is not None and not isinstance(result, Confirmed):
        fate = _failed(result)
    return Outcome(record.message_id, fate, fault)


def _failed(result: SendResult) -> Failed:
    match result:
        case Refused(code, text):
            return Failed("refused", f"{code}: {text}" if text else code)
        case InDoubt(cause):
            return Failed("in_doubt", cause)
        case _:
            return Failed("not_reached")
