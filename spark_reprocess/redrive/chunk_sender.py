"""One redrive task's loop: claim a chunk, send it, write down what became of each message.

Nothing is sent before its claim is durable, so wherever this stops, the ledger names every message
that may be on its way. Only what SQS confirmed is called sent.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from dlq_replay.message import Message
from dlq_replay.outgoing import redriven_entry
from dlq_replay.sending import Confirmed, InDoubt, Queue, Refused, SendResult, Shipment, send_lanes
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
from spark_reprocess.redrive.selection import Fate

_SENDING_SHARE = 0.8
"""Of a claim's life, in which its messages may be sent; after it, others may take them for lost."""


class ResultLostError(ArchiveError):
    """Messages were sent and their results could not be written down."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is the same for every chunk of a run; goes into each claim.

    Attributes:
        claim_ttl_seconds: how long a claim counts as busy.
        send_in_doubt: whether messages in doubt are sent again.
        max_message_bytes: the destination's limit.
    """

    run_id: str
    plan_id: str
    who: str
    reason: str
    destination: str
    to_fifo: bool
    claim_ttl_seconds: float
    send_in_doubt: bool
    keep_counter: bool
    max_message_bytes: int


@dataclass(frozen=True, slots=True)
class Item:
    """One message that has work to be done; *fate* is ``send`` or ``discard``."""

    group_id: str
    fate: str
    message: Message

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


@dataclass(slots=True)
class ChunkSender:
    """Settles chunks, one after the other, in the order in which they are given."""

    queue: Queue
    executor: Executor
    ledger: Ledger
    facts: RunFacts
    now_seconds: Callable[[], float]
    _stopped_groups: set[str] = field(default_factory=set)

    def settle(self, unit: str, chunk: int, items: Sequence[Item]) -> list[Settled]:
        """Send or discard the items of one chunk that are still open; say what became of each.

        Items stand in the order in which they must arrive. On a FIFO queue the first message of a
        group that is not confirmed stops the group, here and in every later chunk.

        Raises:
            ResultLostError: messages were sent and the ledger does not say so: they are in doubt.
            ArchiveError: the ledger cannot be read or written; nothing of the chunk was sent.
        """
        attempts = self.ledger.attempts(unit, chunk)
        settled = self._hindered(items, attempts)
        work = [item for item in items if item.message_id not in settled]
        if work:
            number = len(attempts) + 1
            claim = self._claim(work)
            if self.ledger.claim(unit, chunk, number, claim):
                results = self._act(work)
                self._record(unit, chunk, number, results)
                pairs = zip(work, results, strict=True)
                settled |= {i.message_id: Settled(i, r.outcome, r.detail) for i, r in pairs}
            else:
                settled |= {i.message_id: Settled(i, Fate.BUSY) for i in work}
        self._stop_groups(settled.values())
        return [settled[item.message_id] for item in items]

    def _hindered(self, items: Sequence[Item], attempts: Sequence[Attempt]) -> dict[str, Settled]:
        """What the ledger says now; another run may have come by since this one was planned."""
        now, ttl = self.now_seconds(), self.facts.claim_ttl_seconds
        if any(attempt.is_busy(now, ttl) for attempt in attempts):
            return {item.message_id: Settled(item, Fate.BUSY) for item in items}
        states = states_of(attempts, now, ttl)
        settled: dict[str, Settled] = {}
        for item in items:
            word = self._hindrance(item, states.get(item.message_id))
            if word:
                settled[item.message_id] = Settled(item, word)
                self._stop_groups([settled[item.message_id]])
        return settled

    def _hindrance(self, item: Item, state: State | None) -> Fate | None:
        if state is State.SENT:
            return Fate.SENT_BEFORE
        if state is State.DISCARDED:
            return Fate.DISCARDED_BEFORE
        if state is State.IN_DOUBT and not self.facts.send_in_doubt:
            return Fate.IN_DOUBT
        if item.fate == Fate.SEND and self._group_of(item) in self._stopped_groups:
            return Fate.WAITS
        return None

    def _claim(self, work: Sequence[Item]) -> Claim:
        return Claim(
            run_id=self.facts.run_id,
            who=self.facts.who,
            reason=self.facts.reason,
            destination=self.facts.destination,
            time=timestamp(self.now_seconds()),
            message_ids=tuple(item.message_id for item in work),
        )

    def _act(self, work: Sequence[Item]) -> list[Result]:
        send_until = self.now_seconds() + self.facts.claim_ttl_seconds * _SENDING_SHARE
        lanes: dict[str, list[Shipment[str]]] = {}
        for item in work:
            if item.fate == Fate.SEND:
                lanes.setdefault(self._group_of(item), []).append(self._shipment(item))
        answers = send_lanes(lanes.values(), self.executor, lambda: send_until - self.now_seconds())
        time = timestamp(self.now_seconds())
        return [_result(item.message_id, answers.get(item.message_id), time) for item in work]

    def _record(self, unit: str, chunk: int, number: int, results: Sequence[Result]) -> None:
        try:
            self.ledger.record(unit, chunk, number, results)
        except ArchiveError as error:
            raise ResultLostError(str(error)) from error

    def _shipment(self, item: Item) -> Shipment[str]:
        entry = redriven_entry(
            item.message,
            self.facts.plan_id,
            to_fifo=self.facts.to_fifo,
            keep_counter=self.facts.keep_counter,
            max_message_bytes=self.facts.max_message_bytes,
        )
        return Shipment(item.message_id, self.queue, entry)

    def _group_of(self, item: Item) -> str:
        """What must arrive in order: a FIFO message group; elsewhere each message by itself."""
        group = item.message.message_group_id if self.facts.to_fifo else None
        return group if group is not None else item.message_id

    def _stop_groups(self, settled: Iterable[Settled]) -> None:
        if self.facts.to_fifo:
            self._stopped_groups |= {
                self._group_of(one.item)
                for one in settled
                if one.item.fate == Fate.SEND and one.word not in (Outcome.SENT, Fate.SENT_BEFORE)
            }


def settle_all(
    sender: ChunkSender, chunks: Iterable[tuple[str, int, Sequence[Item]]]
) -> Iterable[Settled]:
    """Settle chunk after chunk. Never raises for the archive: what it hides becomes a word.

    Where the ledger cannot be written, nothing more is sent: what was sent and not recorded is in
    doubt, and the rest has failed.
    """
    fault = ""
    for unit, chunk, items in chunks:
        if fault:
            yield from (Settled(item, Outcome.FAILED, f"not reached: {fault}") for item in items)
            continue
        try:
            yield from sender.settle(unit, chunk, items)
        except ArchiveError as error:
            fault = str(error)
            word = Outcome.IN_DOUBT if isinstance(error, ResultLostError) else Outcome.FAILED
            yield from (Settled(item, word, fault) for item in items)


def _result(message_id: str, answer: SendResult | None, time: str) -> Result:
    match answer:
        case None:
            return Result(message_id, Outcome.DISCARDED, time)
        case Confirmed(new_message_id):
            return Result(message_id, Outcome.SENT, time, new_message_id)
        case Refused(code):
            return Result(message_id, Outcome.FAILED, time, detail=code)
        case InDoubt(cause):
            return Result(message_id, Outcome.IN_DOUBT, time, detail=cause)
        case _:
            return Result(message_id, Outcome.FAILED, time, detail="not reached")
