"""Decides on each record of a batch, before any message is sent. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dlq_replay.backoff import DrawUpTo
from dlq_replay.rules.breaker import BreakerView
from dlq_replay.rules.decision import (
    Decision,
    Hold,
    Park,
    Replay,
    decide,
    hold_by_breaker,
)
from dlq_replay.rules.failures import Failure
from dlq_replay.rules.outgoing import held_entry, parked_entry, replay_entry, source_queue
from dlq_replay.rules.policy import ReplayPolicy
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message, SendEntry, UnreadableRecord

NOT_COUNTED = "not_counted"
"""The cause of messages that wait for a table, and for no queue: no send of them failed."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It stays in the DLQ, and SQS brings it again.

    Attributes:
        cause: a word for metrics and log searches: ``unreadable``, ``no_group``, ``refused``,
            ``unconfirmed``, ``not_reached``, ``not_counted`` or ``not_a_member``.
        detail: the text of SQS, or the fault of the record; never a part of a body.
    """

    cause: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """FIFO: it stays in the DLQ behind one of its group that is held, parked or left."""


RecordDecision = Decision | Wait | Failed


class PlannedRecord(NamedTuple):
    """One record and the decision about it; after the send, what became of it.

    Attributes:
        group: messages that must keep their order: the FIFO group, else the message alone; None
            where a group is needed and missing.
        main_queue: its source queue; the policy's main queue where its source is not configured.
        entry: the copy to send; None where nothing is sent: Wait, Failed, and Hold on FIFO. It goes
            to the main queue (Replay), the DLQ (Hold) or the parked queue (Park).
    """

    record: Message | UnreadableRecord
    group: str | None
    main_queue: QueueAddress
    decision: RecordDecision
    entry: SendEntry | None = None

    @property
    def message_id(self) -> str:
        """The id of the received copy."""
        return self.record.message_id

    @property
    def fault(self) -> str | None:
        """Why its context was ignored, for the log."""
        return self.record.history.fault if isinstance(self.record, Message) else None

    @property
    def is_left(self) -> bool:
        """True if it must stay in the DLQ: Failed, and on FIFO Hold and Wait."""
        return self.entry is None or isinstance(self.decision, Failed)


def plan_batch(
    records: Iterable[Message | UnreadableRecord],
    policy: ReplayPolicy,
    now_seconds: int,
    draw_up_to: DrawUpTo,
    failures: Mapping[str, Failure],
    breakers: Mapping[QueueAddress, BreakerView | None] | None = None,
    left: Mapping[str, Failed] | None = None,
) -> list[PlannedRecord]:
    """Decide on every record, in order. Message ids must be distinct.

    *failures* are the records of consumers, by ``failed_id``. *breakers* are those of each main
    queue; without them no message is held for them. *left* are messages about which it is decided
    already that they stay in the DLQ, by their ids.

    On FIFO a group goes on only past a replay: behind a record that is held, parked or left, the
    rest of its group is left too, so that it cannot overtake.
    """
    planned_records: list[PlannedRecord] = []
    stopped: set[str | None] = set()
    planners: dict[QueueAddress | None, _Planner] = {}
    is_fifo = policy.main_queue.is_fifo
    for record in records:
        group = record.message_group_id if is_fifo else record.message_id
        source = source_queue(record, policy) if isinstance(record, Message) else None
        planner = planners.get(source)
        if planner is None:
            own = policy.of(source)
            view = (breakers or {}).get(own.main_queue) or BreakerView({}, now_seconds)
            planner = planners[source] = _Planner(own, draw_up_to, view, view.grants)

        main = planner.policy.main_queue
        if group in stopped:
            planned = PlannedRecord(record, group, main, Wait())
        elif isinstance(record, UnreadableRecord):
            planned = PlannedRecord(record, group, main, Failed("unreadable", record.fault))
        elif group is None:
            planned = PlannedRecord(
                record, None, main, Failed("no_group", "a FIFO queue needs MessageGroupId")
            )
        elif left and record.message_id in left:
            planned = PlannedRecord(record, group, main, left[record.message_id])
        else:
            planned = planner.plan(record, group, failures.get(record.failed_id))

        if group is not None and not isinstance(planned.decision, Replay):
            stopped.add(group)
        planned_records.append(planned)
    return planned_records


@dataclass(slots=True)
class _Planner:
    """Decides on the messages of one main queue, and counts the grants that its limit has left."""

    policy: ReplayPolicy
    draw_up_to: DrawUpTo
    breaker: BreakerView
    grants: int

    def plan(self, message: Message, group: str, failure: Failure | None) -> PlannedRecord:
        policy = self.policy
        view = self.breaker
        decision = decide(message, policy, view.now_seconds, self.draw_up_to, failure)
        # Rule 8: a message that the other rules replay is held where the limit turns it away.
        if view.limit and isinstance(decision, Replay):
            hold = hold_by_breaker(message, decision, policy, self.draw_up_to, view)
            if hold and self.grants > 0:
                self.grants -= 1
                # Under a limit of 1 the consumer does not work: no attempt of the message's own.
                decision = decision._replace(is_granted=True, is_counted=view.limit != 1)
            elif hold:
                decision = hold

        entry = self._copy(message, decision, failure)
        return PlannedRecord(message, group, policy.main_queue, decision, entry)

    def _copy(
        self, message: Message, decision: Decision, failure: Failure | None
    ) -> SendEntry | None:
        policy = self.policy
        now_seconds = self.breaker.now_seconds
        match decision:
            case Replay(number, delay_seconds):
                count = number if decision.is_counted else number - 1
                # None once it is replayed without a limit.
                held = None
                if self.breaker.applies_to(message):
                    held = self.breaker.held_since_seconds(message)
                return replay_entry(message, count, delay_seconds, now_seconds, policy, held)
            case Park(reason):
                error = failure.to_failure_error() if failure else None
                return parked_entry(message, reason, now_seconds, policy, error)
            case Hold() if policy.main_queue.is_fifo:
                return None
            case Hold(_, due_seconds, wait_seconds, by_breaker):
                return held_entry(
                    message, due_seconds, wait_seconds, now_seconds, policy, by_breaker=by_breaker
                )
