"""The work of one worker for the circuit breaker of its queue: count, claim, judge.

``breaker`` has the rules. A worker keeps what it counted until it may write it, at most once a
second, and what it last read. Where the table fails it goes on with what it knows for a minute;
then it does as if there were no breaker. It never raises for what the table does.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dlq_replay.retry import OptionalCalls, awake_seconds
from dlq_replay.rules.batch_plan import PlannedRecord
from dlq_replay.rules.breaker import (
    ARRIVED,
    GRANTED,
    RETURNED,
    TURNED_AWAY,
    BreakerRules,
    BreakerView,
    Update,
    is_first_look,
    was_replayed,
)
from dlq_replay.rules.decision import Hold, Replay
from dlq_replay.wire.message import Message

READ_SECONDS = 2.0
WRITE_SECONDS = 1.0

BLIND_SECONDS = 60.0
"""Time for which the last known state is acted upon."""

REPORT_SECONDS = 30.0
"""Greatest age of that state where it is only reported."""

ReadDeletions = Callable[[int, int], Mapping[int, int]]
"""Messages that the main queue deleted between two moments, by minute, as far as that is known, as
``breaker_table.read_deletions``."""


class BreakerTable(Protocol):
    """As ``breaker_table.DynamoDbBreaker``; TableError: the table fails or does not answer."""

    def read(self) -> Mapping[str, int]:
        """Read the item's numbers."""

    def update(self, update: Update) -> tuple[bool, Mapping[str, int]]:
        """Change the item; whether that was done, and what its numbers are now."""


@dataclass(frozen=True, slots=True)
class BreakerReport:
    """The state of the breaker after a batch, and its changes.

    Attributes:
        is_low: whether the queue is limited to 1 replay a minute; None where that is not known.
        event: what this worker made of the limit, in a line; else None.
        fault: why the breaker does nothing, told once a minute; else None.
    """

    is_low: bool | None = None
    event: str | None = None
    fault: str | None = None


class BreakerWorker:
    """The breaker of one main queue, as one execution environment works with it.

    Not safe to share between threads: an environment has one invocation at a time.

    *rules* are ``breaker.rules_for`` the queue. For *clock_seconds* see ``awake_seconds``.
    """

    def __init__(
        self,
        table: BreakerTable,
        rules: BreakerRules,
        read_deletions: ReadDeletions,
        clock_seconds: Callable[[], float] = awake_seconds,
    ) -> None:
        self._table = table
        self._rules = rules
        self._read_deletions = read_deletions
        self._clock_seconds = clock_seconds
        self._numbers: Mapping[str, int] = {}
        self._counts: Counter[str] = Counter()
        self._known_at = self._wrote_at = -math.inf
        self._is_failing = False
        self._calls = OptionalCalls(clock_seconds)

    def look(self, messages: Sequence[Message], now_seconds: int) -> BreakerView | None:
        """Claim what the limit may let through of *messages*.

        None where nothing is known of the limit: then all is as without a breaker.
        """
        if not self._knows(READ_SECONDS):
            self._counts.clear()
            return None
        view = self._view(now_seconds)
        return self._claim(view, sum(map(view.applies_to, messages)))

    def finish(self, outcomes: Sequence[PlannedRecord], view: BreakerView | None) -> BreakerReport:
        """Count the outcomes of a batch, write, and judge the consumer where that is due.

        *outcomes* are those of this queue's messages that SQS confirmed. *view* is the result of
        ``look`` for the batch.
        """
        if view is None:
            return BreakerReport(fault=self._calls.fault_to_report())

        now_seconds = view.now_seconds
        held = 0
        granted = 0
        for outcome in outcomes:
            self._count_dead_letter(outcome, now_seconds)
            match outcome.decision:
                case Hold(by_breaker=True):
                    held += 1
                case Replay(is_granted=True):
                    granted += 1
        self._count(TURNED_AWAY, now_seconds, held)
        self._count(GRANTED, now_seconds, granted - view.grants)

        event = None
        is_time = self._clock_seconds() >= self._wrote_at + WRITE_SECONDS
        if is_time and not self._calls.is_paused:
            self._write_counts(now_seconds)
            event = self._judge(now_seconds)
        is_low = self._view(now_seconds).limit == 1
        return BreakerReport(is_low, event, self._calls.fault_to_report())

    def report(self, now_seconds: int) -> BreakerReport:
        """Report the limit, as far as it is known, for a batch without a message of this queue."""
        is_low = None
        if self._knows(REPORT_SECONDS):
            is_low = self._view(now_seconds).limit == 1
        return BreakerReport(is_low, fault=self._calls.fault_to_report())

    def _knows(self, fresh_seconds: float) -> bool:
        """Read the limit if it was last read *fresh_seconds* ago; return whether it is known."""
        if self._clock_seconds() >= self._known_at + fresh_seconds:
            # After a failure by a write: a worker that can only read must not keep to a limit.
            self._ask(Update() if self._is_failing else None)
        return self._clock_seconds() <= self._known_at + BLIND_SECONDS

    def _count(self, kind: str, now_seconds: int, count: int = 1) -> None:
        if count:
            self._counts[f"{kind}{self._rules.minute(now_seconds)}"] += count

    def _count_dead_letter(self, outcome: PlannedRecord, now_seconds: int) -> None:
        """Count a dead letter that SQS moved here, once: when it leaves, on FIFO at its first look.

        A copy that stays, because no queue takes it, comes again and again.
        """
        message = outcome.record
        if not isinstance(message, Message) or message.source_arn is None:
            return
        is_new = is_first_look(message, self._rules) if self._rules.is_fifo else not outcome.is_left
        if is_new:
            self._count(RETURNED if was_replayed(message) else ARRIVED, now_seconds)

    def _view(self, now_seconds: int) -> BreakerView:
        return BreakerView(self._numbers, now_seconds, self._rules)

    def _claim(self, view: BreakerView, wanted: int) -> BreakerView:
        """Claim grants, once more where another worker came first. ``finish`` gives back."""
        for _ in range(2):
            count, claim = self._view(view.now_seconds).grant_claim(wanted)
            if count and self._ask(claim):
                return replace(view, grants=count)
        return view

    def _write_counts(self, now_seconds: int) -> None:
        """Write the counts. Counts that are not confirmed are dropped: they may be written."""
        if not self._counts:
            return
        self._wrote_at = self._clock_seconds()
        counts = self._counts
        self._counts = Counter()
        stale = self._view(now_seconds).stale([*self._numbers, *counts])
        add = {name: count for name, count in counts.items() if name not in stale}
        self._ask(Update(add=add, put=dict.fromkeys(stale)))

    def _judge(self, now_seconds: int) -> str | None:
        """Judge the consumer, once a minute; describe a change of the limit."""
        claim = self._view(now_seconds).judgment_claim()
        if not (claim and self._ask(claim)):
            return None

        deletions = self._read_deletions(*self._rules.metric_range(now_seconds))
        if not deletions:
            self._calls.note("the main queue's metric NumberOfMessagesDeleted cannot be read")
        update = self._view(now_seconds).judge(deletions)
        if not (update and self._ask(update) and "since" in update.put):
            return None
        return f"circuit breaker: {self._view(now_seconds).in_words or 'no limit any more'}"

    def _ask(self, update: Update | None) -> bool:
        """Change the item, or read it; return whether that was done."""
        asked_at = self._clock_seconds()
        table = self._table
        answer = self._calls.call(
            lambda: (True, table.read()) if update is None else table.update(update)
        )
        if answer is None:
            self._is_failing = True
            return False
        self._is_failing = False
        self._known_at = asked_at
        is_done, self._numbers = answer
        return is_done
