"""What one worker does for the circuit breaker of its queue: count, claim, judge.

``breaker`` has the rules. A worker keeps what it counted until it may write it, at most once a
second, and what it last read. Where the table fails it goes on with what it knows for a minute;
then it does as if there were no breaker. It never raises for what the table does.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dlq_replay.breaker import (
    ARRIVED,
    RETURNED,
    TURNED_AWAY,
    BreakerRules,
    BreakerState,
    BreakerView,
    Update,
    grant_claim,
    judge,
    judgment_claim,
    limit_in_words,
    stale_names,
)
from dlq_replay.errors import TableError
from dlq_replay.message import Message
from dlq_replay.plan import Passage, Step
from dlq_replay.retry import awake_seconds

READ_SECONDS = 2.0
WRITE_SECONDS = 1.0
PAUSE_SECONDS = 5.0
"""How long nothing is asked of a table that failed."""

BLIND_SECONDS = 60.0
"""How long the last known state is acted upon, and how often a fault is told."""

ReadDeletions = Callable[[int, int], Mapping[int, int]]
"""Messages that the main queue deleted between two moments, epoch seconds: by minute, without those
that the metric does not have. Empty where it cannot be read; never raises."""


class BreakerTable(Protocol):
    """The breaker of one main queue. ``breaker_table.DynamoDbBreaker`` is one.

    Each method raises TableError where the table is missing, refuses or does not answer.
    """

    def read(self) -> BreakerState:
        """Read the item."""

    def update(self, update: Update) -> tuple[bool, BreakerState]:
        """Change the item; whether that was done, and what it is now."""


@dataclass(frozen=True, slots=True)
class BreakerReport:
    """What a batch had to do with the breaker.

    Attributes:
        is_low: whether the queue is limited to 1 replay a minute, as far as the worker knows.
        held: how many messages it held.
        event: what this worker made of the limit, in a line; else None.
        fault: why the breaker does nothing, told once a minute; else None.
    """

    is_low: bool
    held: int
    event: str | None = None
    fault: str | None = None


class BreakerWorker:
    """The breaker of one main queue, as one execution environment works with it.

    Not safe to share between threads: an environment has one invocation at a time.

    Args:
        table: its state.
        rules: thresholds and durations.
        read_deletions: the metric of the main queue.
        max_receive_count: of the main queue on FIFO, where the receive count says which look is
            the first; None on standard queues.
        clock_seconds: see ``awake_seconds``.
    """

    def __init__(
        self,
        table: BreakerTable,
        rules: BreakerRules,
        read_deletions: ReadDeletions,
        max_receive_count: int | None = None,
        clock_seconds: Callable[[], float] = awake_seconds,
    ) -> None:
        self._table, self._rules, self._read_deletions = table, rules, read_deletions
        self._max_receive_count, self._clock_seconds = max_receive_count, clock_seconds
        self._state = BreakerState()
        self._counts: Counter[str] = Counter()
        self._read_at = self._wrote_at = self._paused_until = self._told_at = -math.inf
        self._writes_fail_since: float | None = None
        self._fault: str | None = None

    def look(self, messages: Sequence[Message], now_seconds: int) -> BreakerView | None:
        """Count the dead letters that are new here, and say what is known of the limit.

        None where nothing is known: then all is as without a breaker.
        """
        self._refresh()
        if self._is_blind():
            self._counts.clear()
            return None
        minute = self._rules.minute(now_seconds)
        for message in messages:
            if self._is_first_look(message):
                kind = RETURNED if was_replayed(message) else ARRIVED
                self._counts[f"{kind}{minute}"] += 1
        return BreakerView.of(self._state, now_seconds, self._rules)

    def may_grant(self, view: BreakerView) -> bool:
        """Whether the limit might let a message of the batch through now."""
        return view.limit is not None and grant_claim(self._state, 1, *self._at(view))[0] > 0

    def claim(self, view: BreakerView, candidates: int) -> BreakerView:
        """Claim grants for so many *candidates*, once more where another worker came first."""
        for _ in range(2):
            count, claim = grant_claim(self._state, candidates, *self._at(view))
            is_done = self._update(claim) if count else None
            if is_done:
                return replace(view, grants=count)
            if is_done is None:
                break
        return view

    def finish(self, steps: Sequence[Step], view: BreakerView | None) -> BreakerReport:
        """Count what was turned away, write, and judge the consumer where that is due.

        *view* is what ``look`` gave for the batch.
        """
        if view is None:
            return BreakerReport(is_low=False, held=0, fault=self._fault_to_tell())
        held = sum(step.passage is Passage.HELD for step in steps)
        if held:
            self._counts[f"{TURNED_AWAY}{self._rules.minute(view.now_seconds)}"] += held
        event = None
        if self._clock_seconds() >= max(self._wrote_at + WRITE_SECONDS, self._paused_until):
            self._write_counts(view.now_seconds)
            event = self._judge(view.now_seconds)
        is_low = self._state.limit_at(view.now_seconds, self._rules) == 1
        return BreakerReport(is_low, held, event, self._fault_to_tell())

    def _at(self, view: BreakerView) -> tuple[int, BreakerRules]:
        return view.now_seconds, self._rules

    def _refresh(self) -> None:
        clock = self._clock_seconds()
        if clock < max(self._read_at + READ_SECONDS, self._paused_until):
            return
        try:
            self._state = self._table.read()
        except TableError as error:
            self._note_failure(error)
        else:
            self._read_at = clock

    def _is_blind(self) -> bool:
        clock = self._clock_seconds()
        if clock - self._read_at > BLIND_SECONDS:
            return True
        if self._writes_fail_since is None or clock - self._writes_fail_since <= BLIND_SECONDS:
            return False
        return self._update(Update()) is None

    def _is_first_look(self, message: Message) -> bool:
        """Whether SQS moved it here, and on FIFO, where it waits in place, just now."""
        if message.source_arn is None:
            return False
        if self._max_receive_count is None:
            return True
        received = message.receive_count
        return received is not None and received <= self._max_receive_count + 1

    def _write_counts(self, now_seconds: int) -> None:
        """Write what was counted. What is not confirmed is dropped: it may have been counted."""
        if not self._counts:
            return
        self._wrote_at = self._clock_seconds()
        counts, self._counts = self._counts, Counter()
        stale = stale_names(self._state, now_seconds, self._rules) - counts.keys()
        self._update(Update(add=counts, remove=stale))

    def _judge(self, now_seconds: int) -> str | None:
        """Judge the consumer, once a minute; say what became of the limit."""
        claim = judgment_claim(self._state, now_seconds, self._rules)
        if not (claim and self._update(claim)):
            return None
        deleted = self._read_deletions(*self._rules.metric_range(now_seconds))
        if not deleted:
            self._note_fault("the main queue's metric NumberOfMessagesDeleted cannot be read")
        update = judge(self._state, deleted, now_seconds, self._rules)
        before = self._state.numbers.get("limit", 0)
        if not (update and self._update(update)):
            return None
        now = self._state.numbers.get("limit", 0)
        if before == now or (before > 1 and now > 1):
            return None
        words = limit_in_words(self._state, now_seconds, self._rules)
        return f"circuit breaker: {words or 'no limit any more'}"

    def _update(self, update: Update) -> bool | None:
        """Change the item: done, or not because it has changed; None where the table failed."""
        if self._clock_seconds() < self._paused_until:
            return None
        try:
            is_done, self._state = self._table.update(update)
        except TableError as error:
            self._note_failure(error)
            if self._writes_fail_since is None:
                self._writes_fail_since = self._clock_seconds()
            return None
        self._writes_fail_since = None
        return is_done

    def _note_failure(self, error: TableError) -> None:
        self._paused_until = self._clock_seconds() + PAUSE_SECONDS
        self._note_fault(str(error))

    def _note_fault(self, fault: str) -> None:
        if self._clock_seconds() - self._told_at >= BLIND_SECONDS:
            self._fault = fault

    def _fault_to_tell(self) -> str | None:
        fault, self._fault = self._fault, None
        if fault is not None:
            self._told_at = self._clock_seconds()
        return fault


def was_replayed(message: Message) -> bool:
    """Whether a dead letter came back, and is no new arrival.

    One that a limit let through may have its old counter, 0; its mark says that it was replayed.
    """
    history = message.history
    return bool(history.replay_count) or history.context.held_seconds is not None
