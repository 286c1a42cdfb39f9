"""One write task's loop: rows to entries, entries to SQS, until each is confirmed or given up."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from dlq_replay.message import SendEntry
from dlq_replay.sending import (
    Confirmed,
    InDoubt,
    Queue,
    Refused,
    SendResult,
    Shipment,
    forever,
    send_lanes,
)
from spark_reprocess.sql.outgoing_rows import RowError, entry_of

CHUNK_ROWS = 100
"""Rows that a task holds as entries at once: 10 calls."""

FIRST_PAUSE_SECONDS = 0.2
"""Before the second attempt at most; it doubles with each that follows."""

BEHIND = "behind a row of its message group that was not confirmed"

_Row = Mapping[str, Any]


@dataclass(slots=True)
class SendCounts:
    """What a task did.

    Attributes:
        sent: rows that SQS confirmed.
        faults: why the others were not, and how many: a rule that the row breaks, SQS's code, or
            what hid the answer.
        in_doubt: how many of the others SQS may have all the same.
    """

    sent: int = 0
    in_doubt: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def failed(self) -> int:
        """Rows that were not confirmed."""
        return self.faults.total()


@dataclass(slots=True)
class RowSender:
    """Sends the rows of one partition.

    Attributes:
        attempts: how often an unconfirmed entry is sent in all, at least 1.
        sleep: called with the seconds between two attempts.
        draw: a number of 0 to 1, for full jitter.
    """

    queue: Queue
    executor: Executor
    is_fifo: bool
    attempts: int
    sleep: Callable[[float], object]
    draw: Callable[[], float]
    _counts: SendCounts = field(default_factory=SendCounts)
    _stopped_groups: set[str] = field(default_factory=set)

    def send_all(self, rows: Iterable[_Row]) -> SendCounts:
        """Send every row; never raises for SQS or for a row.

        On a FIFO queue a row that was not confirmed stops its message group: what comes later
        would overtake it.
        """
        for chunk in _chunks(rows):
            self._settle([pending for row in chunk if (pending := self._pending(row))])
        return self._counts

    def _pending(self, row: _Row) -> "_Pending | None":
        group = row.get("message_group_id")
        if self.is_fifo and group in self._stopped_groups:
            self._give_up(BEHIND, group)
            return None
        try:
            return _Pending(entry_of(row, is_fifo=self.is_fifo))
        except RowError as error:
            self._give_up(str(error), group)
            return None

    def _settle(self, waiting: "list[_Pending]") -> None:
        for attempt in range(self.attempts):
            if waiting and attempt:
                self.sleep(self.draw() * FIRST_PAUSE_SECONDS * 2**attempt)
            waiting = self._send(waiting)
        for one in waiting:
            self._counts.in_doubt += one.is_in_doubt
            self._give_up(one.fault, one.entry.message_group_id)

    def _send(self, waiting: "list[_Pending]") -> "list[_Pending]":
        """Send once; return those that were not confirmed, in their order."""
        lanes: dict[Hashable, list[Shipment[int]]] = {}
        for key, one in enumerate(waiting):
            lane = one.entry.message_group_id if self.is_fifo else key
            lanes.setdefault(lane, []).append(Shipment(key, self.queue, one.entry))
        results = send_lanes(lanes.values(), self.executor, forever)
        left = [one for key, one in enumerate(waiting) if not one.is_settled_by(results[key])]
        self._counts.sent += len(waiting) - len(left)
        return left

    def _give_up(self, fault: str, message_group_id: str | None) -> None:
        self._counts.faults[fault] += 1
        if self.is_fifo and message_group_id is not None:
            self._stopped_groups.add(message_group_id)


@dataclass(slots=True)
class _Pending:
    """An entry that SQS has not confirmed yet, and why not."""

    entry: SendEntry
    fault: str = BEHIND
    is_in_doubt: bool = False

    def is_settled_by(self, result: SendResult) -> bool:
        match result:
            case Confirmed():
                return True
            case Refused(code):
                self.fault = code
            case InDoubt(cause):
                self.fault = cause
                self.is_in_doubt = True
        return False


def _chunks(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, CHUNK_ROWS)):
        yield chunk
