"""One redrive task's loop: claim a chunk, send it, write down what became of each message.

Nothing is sent before its claim is durable, so wherever this stops, the ledger names every message
that may be on its way. Only what SQS confirmed is called sent.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dlq_replay.message import Message, SendEntry
from dlq_replay.sending import (
    Confirmed,
    InDoubt,
    NotReached,
    Queue,
    Refused,
    SendResult,
    Shipment,
)
from spark_reprocess.archive.ledger import (
    Attempt,
    Claim,
    Ledger,
    Outcome,
    Result,
    State,
    states_of,
    timestamp,
)
from spark_reprocess.errors import ArchiveError
from spark_reprocess.redrive.gated_queue import Gate
from spark_reprocess.redrive.run_facts import RunFacts
from spark_reprocess.redrive.selection import WORK, Fate

# Shares of a claim's life, which begins at the claim's own time. Calls may begin until the first,
# answers are waited for until the second. When the life is over, others may take the messages for
# lost.
_CALLS_SHARE = 0.7
_ANSWERS_SHARE = 0.8

_SETTLED: dict[State, tuple[Outcome, Fate]] = {
    State.SENT: (Outcome.SENT, Fate.SENT_BEFORE),
    State.DISCARDED: (Outcome.DISCARDED, Fate.DISCARDED_BEFORE),
    State.RESTORED: (Outcome.RESTORED, Fate.RESTORED_BEFORE),
}
_ARRIVED = (Outcome.SENT, Fate.SENT_BEFORE, Outcome.RESTORED, Fate.RESTORED_BEFORE)


@dataclass(frozen=True, slots=True)
class Item:
    """One message as it is to be sent; *fate* is ``send``, ``discard``, or why it is neither.

    Attributes:
        entry: the copy to send, where it has been made ready.
    """

    group_id: str
    fate: str
    message: Message
    entry: SendEntry | None = None

    @property
    def message_id(self) -> str:
        """The archived copy's id."""
        return self.message.message_id


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one item: an ``Outcome`` or a ``Fate``, and why."""

    item: Item
    word: str
    detail: str = ""


Lanes = Iterable[Sequence[Shipment[str]]]
QueueT = TypeVar("QueueT", bound=Queue)
SendLanes = Callable[[Lanes, QueueT, Callable[[], float]], Mapping[str, SendResult]]
"""Sends lanes, all of them for one queue, while there are seconds left; a result for each key."""


@dataclass(slots=True)
class ChunkSender(Generic[QueueT]):
    """Settles chunks, one after the other, in the order in which they are given.

    Attributes:
        queue_until: the queue for a chunk whose calls may begin until then, epoch seconds.
    """

    queue_until: Callable[[float], QueueT]
    send_lanes: SendLanes[QueueT]
    ledger: Ledger
    facts: RunFacts
    gate: Gate
    now_seconds: Callable[[], float]
    _stopped_groups: set[str] = field(default_factory=set)

    def settle(self, unit: str, chunk: int, items: Sequence[Item]) -> list[Settled]:
        """Send or discard the items of one chunk that are still open; say what became of each.

        Items stand in the order in which they must arrive. On a FIFO queue the first message of a
        group that is not confirmed stops the group, here and in every later chunk. What concerns
        more than this chunk stops the whole run, at the gate.

        Raises:
            ArchiveError: the ledger cannot be read or written; nothing of the chunk was sent.
        """
        attempts = self.ledger.attempts(unit, chunk)
        settled = self._hindered(items, attempts)
        work = [item for item in items if item.message_id not in settled]
        if work:
            number = len(attempts) + 1
            # Others count the claim's age from this moment, so the deadlines below do too: writing
            # the claim takes time, and may take long.
            claimed_at = self.now_seconds()
            if self.ledger.claim(unit, chunk, number, self._claim(work, claimed_at)):
                done = self._act(unit, chunk, number, work, claimed_at)
            else:
                done = [Settled(item, Fate.BUSY) for item in work]
            settled |= {one.item.message_id: one for one in done}
        self._stop_groups(settled.values())
        return [settled[item.message_id] for item in items]

    def _hindered(self, items: Sequence[Item], attempts: Sequence[Attempt]) -> dict[str, Settled]:
        """What the ledger says now; another run may have come by since this one was planned."""
        now, ttl = self.now_seconds(), self.facts.claim_ttl_seconds
        if any(attempt.is_busy(now, ttl) for attempt in attempts):
            return {item.message_id: Settled(item, Fate.BUSY) for item in items}
        states = states_of(attempts, now, ttl)
        ours = states_of((a for a in attempts if a.claim.run_id == self.facts.run_id), now, ttl)
        settled: dict[str, Settled] = {}
        for item in items:
            word = self._hindrance(item, states.get(item.message_id), ours.get(item.message_id))
            if word:
                settled[item.message_id] = Settled(item, word)
                self._stop_groups([settled[item.message_id]])
        return settled

    def _hindrance(self, item: Item, state: State | None, ours: State | None) -> str:
        if item.fate not in WORK:
            return Fate(item.fate)
        if state in _SETTLED:
            # Spark runs a task again that was lost: what the first one did is this run's doing.
            now, before = _SETTLED[state]
            return now if ours is state else before
        if state is State.IN_DOUBT and not self.facts.send_in_doubt:
            return Fate.IN_DOUBT
        if item.fate == Fate.SEND and self._group_of(item) in self._stopped_groups:
            return Fate.WAITS
        return ""

    def _claim(self, work: Sequence[Item], claimed_at: float) -> Claim:
        groups = sorted({item.group_id for item in work if item.fate == Fate.SEND})
        edits = self.facts.edits
        return Claim(
            run_id=self.facts.run_id,
            who=self.facts.who,
            reason=self.facts.reason,
            destination=self.facts.destination,
            time=timestamp(claimed_at),
            message_ids=tuple(item.message_id for item in work),
            ttl_seconds=self.facts.claim_ttl_seconds,
            edits={group_id: edits[group_id].digest for group_id in groups if group_id in edits},
            is_canary=self.facts.is_canary,
        )

    def _act(
        self, unit: str, chunk: int, number: int, work: Sequence[Item], claimed_at: float
    ) -> list[Settled]:
        answers = self._send([item for item in work if item.fate == Fate.SEND], claimed_at)
        time = timestamp(self.now_seconds())
        confirmed = self.facts.confirmed
        results = [
            _result(item.message_id, answers.get(item.message_id), time, confirmed) for item in work
        ]
        try:
            self.ledger.record(unit, chunk, number, results)
        except ArchiveError as error:
            self.gate.stop(str(error))
            return [Settled(item, Outcome.IN_DOUBT, str(error)) for item in work]
        return [_settled(*pair, answers) for pair in zip(work, results, strict=True)]

    def _send(self, items: Sequence[Item], claimed_at: float) -> Mapping[str, SendResult]:
        ttl = self.facts.claim_ttl_seconds
        queue = self.queue_until(claimed_at + ttl * _CALLS_SHARE)
        answers_until = claimed_at + ttl * _ANSWERS_SHARE
        lanes: dict[str, list[Shipment[str]]] = {}
        for item in items:
            lanes.setdefault(self._group_of(item), []).append(self._shipment(item, queue))
        return self.send_lanes(lanes.values(), queue, lambda: answers_until - self.now_seconds())

    def _shipment(self, item: Item, queue: Queue) -> Shipment[str]:
        entry = item.entry or self.facts.entry(item.message)
        return Shipment(item.message_id, queue, entry)

    def _group_of(self, item: Item) -> str:
        """What must arrive in order: a FIFO message group; elsewhere each message by itself."""
        group = item.message.message_group_id if self.facts.to_fifo else None
        return group if group is not None else item.message_id

    def _stop_groups(self, settled: Iterable[Settled]) -> None:
        if self.facts.to_fifo:
            self._stopped_groups |= {
                self._group_of(one.item)
                for one in settled
                if one.item.fate != Fate.DISCARD and one.word not in _ARRIVED
            }


def settle_all(
    sender: ChunkSender[QueueT], chunks: Iterable[tuple[str, int, Sequence[Item]]]
) -> Iterator[Settled]:
    """Settle chunk after chunk until all are done or the gate is closed; report each there.

    What is not yielded was not reached: nothing of it was sent. Where the ledger cannot be used,
    the whole run stops.
    """
    for unit, chunk, items in chunks:
        if sender.gate.stopped_by:
            return
        try:
            settled = sender.settle(unit, chunk, items)
        except ArchiveError as error:
            sender.gate.stop(str(error))
            return
        sender.gate.report(Counter(str(one.word) for one in settled))
        yield from settled


def _result(message_id: str, answer: SendResult | None, time: str, confirmed: Outcome) -> Result:
    match answer:
        case None:
            return Result(message_id, Outcome.DISCARDED, time)
        case Confirmed(new_message_id):
            return Result(message_id, confirmed, time, new_message_id)
        case Refused(code):
            return Result(message_id, Outcome.FAILED, time, detail=code)
        case InDoubt(cause):
            return Result(message_id, Outcome.IN_DOUBT, time, detail=cause)
        case NotReached():
            return Result(message_id, Outcome.FAILED, time, detail="not reached")


def _settled(item: Item, result: Result, answers: Mapping[str, SendResult]) -> Settled:
    if isinstance(answers.get(item.message_id), NotReached):
        return Settled(item, Fate.NOT_REACHED)
    return Settled(item, result.outcome, result.detail)
