"""The use case of the schedule: every member DLQ gets a turn, and full ones go round again.

A turn is one receive, the replay of what came, and the deletion of exactly what that settled.
Messages that stay are received again when the visibility timeout of this receive ends, so a FIFO
group keeps its order, and two sweeps at once have different messages. A sweep that dies between
send and delete leaves at most the 10 messages of each open turn to be sent again.
"""

import math
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Protocol

from dlq_replay.errors import QueueError, QueueGoneError
from dlq_replay.replaying.fleet import NO_PARKED_QUEUE, Fleet, FleetBatch
from dlq_replay.retry import awake_seconds
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message, UnreadableRecord

CONCURRENT_QUEUES = 50
"""Turns at once: most of them only wait for an answer that an empty queue gives after a second."""

RECEIVE_WAIT_SECONDS = 1
"""A receive that does not wait asks some of SQS's servers only, and may miss a small queue."""

VISIBILITY_SECONDS = 120
"""For which a receive hides its messages: longer than a sweep, so that no send of it begins when
others may have the message; shorter than the 5 minutes in which SQS removes a FIFO copy that is
sent a second time."""

LAST_TURN_SECONDS = 10.0
"""A turn that begins later could end after the sweep, so none does."""

SETTLE_SECONDS = 3.0
"""Kept back from each turn to delete what was sent."""

FULL = 10
"""Messages of a receive after which there may be more: the most that SQS gives."""


UNDELETED = "messages that were sent could not be deleted, and would be sent again"
UNDELETED_PAUSE_SECONDS = 600.0
"""For which a standard DLQ with such messages is not read. A FIFO DLQ is: within 5 minutes SQS
removes the copy that is sent a second time, and the delete is tried again."""


class SweptQueue(Protocol):
    """A DLQ, as a sweep uses it. ``sqs.SqsQueue`` is one, and has the contracts."""

    def receive_records(
        self, *, wait_seconds: int, visibility_timeout_seconds: int, attempt_id: str | None
    ) -> list[Message | UnreadableRecord]:
        """Receive up to 10 messages; may raise QueueError."""

    def delete(self, messages: Sequence[Message]) -> list[Message]:
        """Delete messages; return those that SQS did not confirm."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of a turn of one DLQ.

    Attributes:
        received: number of messages of the receive.
        batch: what became of them; None where none came.
        not_deleted: messages that were settled, and will come again all the same.
        fault: why the turn ended early; else empty.
        is_reached: False where no time was left for a turn.
    """

    dlq: QueueAddress
    received: int = 0
    batch: FleetBatch | None = None
    not_deleted: Sequence[Message] = ()
    fault: str = ""
    is_reached: bool = True


@dataclass(slots=True)
class SweepSummary:
    """The result of a sweep: numbers of turns and of messages, and the DLQs that were not read."""

    turns: int = 0
    received: int = 0
    stuck: dict[QueueAddress, str] = field(default_factory=dict)

    def add(self, turn: Turn) -> None:
        """Count a turn."""
        self.turns += 1
        self.received += turn.received
        fault = turn.fault or (UNDELETED if turn.not_deleted else "")
        if fault:
            self.stuck[turn.dlq] = fault


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Sweeps the DLQs of a fleet.

    Attributes:
        executor: runs several turns at once; none of the threads that ``fleet`` uses.
        report: gets each turn in which messages came; called by the threads of the turns.
        clock_seconds: see ``awake_seconds``.
        paused_until: when DLQs may be read again, by that clock; the same for all sweeps.
    """

    fleet: Fleet
    queue_of: Callable[[QueueAddress], SweptQueue]
    executor: Executor
    report: Callable[[Turn], object]
    clock_seconds: Callable[[], float] = awake_seconds
    paused_until: dict[QueueAddress, float] = field(default_factory=dict)

    def sweep(
        self, dlqs: Sequence[QueueAddress], seconds_left: Callable[[], float]
    ) -> SweepSummary:
        """Give each of *dlqs* a turn, in this order, and full ones further turns behind the others.

        Never raises for a queue: the others go on. Returns when all is done, or when the time of
        *seconds_left* is up; turns that are open then may still end, and begin no call.
        """
        summary = SweepSummary()
        ended: SimpleQueue[Turn] = SimpleQueue()

        def begin(dlq: QueueAddress) -> None:
            self.executor.submit(lambda: ended.put(self._guarded_turn(dlq, seconds_left)))

        waiting = set[QueueAddress]()
        for dlq in dlqs:
            fault = self._why_not(dlq)
            if fault:
                summary.stuck[dlq] = fault
            else:
                waiting.add(dlq)
                begin(dlq)

        open_turns = len(waiting)
        while open_turns:
            try:
                turn = ended.get(timeout=max(0.0, seconds_left()))
            except Empty:
                break
            open_turns -= 1
            if turn.is_reached:
                waiting.discard(turn.dlq)
                summary.add(turn)
            if turn.not_deleted and not turn.dlq.is_fifo:
                self.paused_until[turn.dlq] = self.clock_seconds() + UNDELETED_PAUSE_SECONDS
            elif turn.received >= FULL:
                begin(turn.dlq)
                open_turns += 1

        for dlq in waiting:
            summary.stuck[dlq] = "the time of the sweep was over before its turn"
        return summary

    def _why_not(self, dlq: QueueAddress) -> str:
        """Return why a DLQ gets no turn in this sweep; empty if it gets one."""
        if self.fleet.settings.parked_queue_url_for(dlq) is None:
            return NO_PARKED_QUEUE
        is_paused = self.clock_seconds() < self.paused_until.get(dlq, -math.inf)
        return UNDELETED if is_paused else ""

    def _guarded_turn(self, dlq: QueueAddress, seconds_left: Callable[[], float]) -> Turn:
        try:
            return self._turn(dlq, seconds_left)
        except QueueGoneError:
            return Turn(dlq)
        except QueueError as error:
            return Turn(dlq, fault=str(error))
        except Exception as error:  # noqa: BLE001 - a queue that fails does not stop the others
            # The text of an unknown error may quote a message.
            return Turn(dlq, fault=type(error).__name__)

    def _turn(self, dlq: QueueAddress, seconds_left: Callable[[], float]) -> Turn:
        if seconds_left() <= LAST_TURN_SECONDS:
            return Turn(dlq, is_reached=False)

        queue = self.queue_of(dlq)
        hidden_until = self.clock_seconds() + VISIBILITY_SECONDS
        records = queue.receive_records(
            wait_seconds=RECEIVE_WAIT_SECONDS,
            visibility_timeout_seconds=VISIBILITY_SECONDS,
            attempt_id=uuid.uuid4().hex if dlq.is_fifo else None,
        )
        if not records:
            return Turn(dlq)

        def seconds_left_to_send() -> float:
            hidden_seconds = hidden_until - self.clock_seconds()
            return min(seconds_left(), hidden_seconds) - SETTLE_SECONDS

        batch = self.fleet.replay(dlq, records, seconds_left_to_send)
        settled: list[Message] = []
        for outcome in batch.outcome.outcomes:
            if not outcome.is_left and isinstance(outcome.record, Message):
                settled.append(outcome.record)

        not_deleted = queue.delete(settled)
        if not_deleted:
            not_deleted = queue.delete(not_deleted)
        turn = Turn(dlq, len(records), batch, not_deleted)
        self.report(turn)
        return turn
