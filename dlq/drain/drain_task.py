"""One drain task: receive a chunk of messages, write it durably, only then delete it.

No I/O but through the arguments. Wherever a task stops, each message is in the queue, in the
archive, or in both; never in neither. Only test messages of ``dlq doctor`` are deleted and not
archived.
"""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from dlq.archive.messages.dead_letter_schema import Row, to_row
from dlq.archive.messages.message_store import FILE_MESSAGES
from dlq.aws.receiving import Received, receive
from dlq.errors import ArchiveError
from dlq_replay.aws.sqs import MAX_RECEIVE, SqsQueue
from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.replaying.trial_message import trial_id_of
from dlq_replay.retry import Retry
from dlq_replay.rules.policy import MAX_MESSAGE_BYTES
from dlq_replay.wire.attributes import size_bytes
from dlq_replay.wire.message import Message

CHUNK_SECONDS = 10.0
CHUNK_BYTES = 16 * 1024 * 1024
"""Bodies and attributes of one chunk; the memory of a task is a small multiple of it."""

EMPTY_POLLS = 3
"""After this number of empty answers in a row the task asks SQS how many messages it counts."""

LAST_POLL = 12
"""After this number of empty answers in a row the task ends, whatever SQS counts. On a FIFO queue
messages can be visible and still not be received, while others of their group are in flight
elsewhere."""

DELETE_ATTEMPTS = 2

_NAMED_FAULTS = 10


@dataclass(frozen=True, slots=True)
class DrainRules:
    """The limits of a task.

    Attributes:
        is_fifo: one receive at a time, each with an attempt id, and the next chunk only after the
            deletions: SQS returns no more of a message group while a part of it is in flight.
        wait_seconds: of one long poll, 0 to 20.
        visibility_timeout_seconds: how long a received message stays hidden; must cover a chunk,
            its write and its deletes, or messages are received twice.
        chunk_messages: size of a full chunk; receives in progress may add to it.
        chunk_bytes: the same, in bytes of bodies and attributes.
        receives: calls in progress at once.
        limit: messages to take, None for all.
        until_seconds: epoch seconds after which nothing more is received, None for never.
    """

    is_fifo: bool = False
    wait_seconds: int = 2
    visibility_timeout_seconds: int = 300
    chunk_messages: int = FILE_MESSAGES
    chunk_bytes: int = CHUNK_BYTES
    receives: int = 1
    limit: int | None = None
    until_seconds: float | None = None


@dataclass(slots=True)
class DrainCounts:
    """Result of a task.

    Attributes:
        received: messages that could be read, each receive counted.
        archived: rows written durably.
        deleted: messages that SQS confirmed as deleted, all of them archived.
        not_deleted: archived, but the deletion was not confirmed: SQS returns them again, and
            reading the archive removes the second row.
        unreadable: receives of messages that could not be parsed; they stay in the queue.
        faults: the reasons, for the first few of those.
        stopped_by: why the task ended early; None if the queue was empty or a limit was reached.
        tests: test messages of ``dlq doctor`` that were deleted and not archived. No other count
            has them.
    """

    received: int = 0
    archived: int = 0
    deleted: int = 0
    not_deleted: int = 0
    unreadable: int = 0
    faults: list[str] = field(default_factory=list)
    stopped_by: str | None = None
    tests: int = 0


class Receipt(NamedTuple):
    """The ids with which a message is deleted once its row is written."""

    message_id: str
    receipt_handle: str


@dataclass(slots=True)
class Chunk:
    """The messages between two writes, by id. If one is received twice, its later receipt stays."""

    rows: dict[str, Row] = field(default_factory=dict)
    receipts: dict[str, Receipt] = field(default_factory=dict)
    size_bytes: int = 0

    def add(self, message: Message, row: Row) -> bool:
        """Add a message; return whether it is new."""
        is_new = message.message_id not in self.rows
        if is_new:
            self.rows[message.message_id] = row
            self.size_bytes += size_bytes(message.body, message.attributes)
        self.receipts[message.message_id] = Receipt(message.message_id, message.receipt_handle)
        return is_new


@dataclass(slots=True)
class DrainTask:
    """The loop of one task.

    Attributes:
        write: returns only once its rows are durable; raises ArchiveError.
        count_visible: asks SQS how many messages are visible; None if SQS does not answer.
        now_seconds: the time of day, epoch seconds.
        sleep: waits a number of seconds, before a retry.
        is_stopped: returns whether to receive nothing more.
    """

    queue: SqsQueue
    write: Callable[[list[Row]], object]
    rules: DrainRules
    executor: Executor
    count_visible: Callable[[], int | None]
    now_seconds: Callable[[], float] = time.time
    sleep: Callable[[float], object] = time.sleep
    is_stopped: Callable[[], bool] = lambda: False
    _is_empty: bool = False
    _empty_polls: int = 0
    _counts: DrainCounts = field(default_factory=DrainCounts)
    _taken: int = 0
    _reserved: int = 0
    _largest_answer_bytes: int | None = None
    _deletions: list[Future[tuple[int, int]]] = field(default_factory=list)
    _test_deletions: list[Future[tuple[int, int]]] = field(default_factory=list)

    def run(self) -> DrainCounts:
        """Drain until the queue is empty, a limit is reached or something fails; never raises."""
        while not self._is_over():
            chunk = self._gather()
            if chunk.rows and not self._settle(chunk):
                break
        self._await_deletions()
        return self._counts

    def _is_over(self) -> bool:
        return (
            self._counts.stopped_by is not None
            or self.is_stopped()
            or self._is_empty
            or self.rules.limit == self._taken
            or self._seconds_left() <= 0
        )

    def _gather(self) -> Chunk:
        """Receive until the chunk is full, ``CHUNK_SECONDS`` are over, or the task ends."""
        chunk = Chunk()
        full_at = self.now_seconds() + CHUNK_SECONDS
        calls: dict[Future[Received | QueueError], int] = {}
        while True:
            while self._wants_more(chunk, len(calls), full_at):
                room = self._room()
                self._reserved += room
                call = self.executor.submit(self._receive, room, self._wait_seconds(chunk))
                calls[call] = room
            if not calls:
                return chunk

            for ended in wait(calls, return_when=FIRST_COMPLETED).done:
                self._reserved -= calls.pop(ended)
                self._take(ended.result(), chunk)

    def _wants_more(self, chunk: Chunk, calls: int, full_at: float) -> bool:
        if calls == self.rules.receives or self._is_over() or self._room() == 0:
            return False
        if chunk.rows and self.rules.is_fifo and self._empty_polls:
            return False
        if self._empty_polls and calls >= EMPTY_POLLS - self._empty_polls % EMPTY_POLLS:
            # Those in progress are enough for the next question to SQS.
            return False

        answer_bytes = self._largest_answer_bytes
        if answer_bytes is None:
            answer_bytes = MAX_RECEIVE * MAX_MESSAGE_BYTES
        expected_bytes = chunk.size_bytes + calls * answer_bytes
        return (
            len(chunk.rows) < self.rules.chunk_messages
            and expected_bytes < self.rules.chunk_bytes
            and self.now_seconds() < full_at
        )

    def _room(self) -> int:
        """Return how many messages the next call may receive."""
        if self.rules.limit is None:
            return MAX_RECEIVE
        return min(MAX_RECEIVE, self.rules.limit - self._taken - self._reserved)

    def _wait_seconds(self, chunk: Chunk) -> int:
        if chunk.rows and self.rules.is_fifo:
            # SQS may return nothing more until the messages of this chunk are deleted.
            return 0

        # A poll of 1 s or more asks all of SQS's servers.
        least = 1 if self._empty_polls >= EMPTY_POLLS else 0
        wanted = max(least, self.rules.wait_seconds)
        return int(min(wanted, max(0, self._seconds_left())))

    def _seconds_left(self) -> float:
        until = self.rules.until_seconds
        return math.inf if until is None else until - self.now_seconds()

    def _receive(self, room: int, wait_seconds: int) -> Received | QueueError:
        return receive(
            self.queue,
            max_messages=room,
            wait_seconds=wait_seconds,
            visibility_timeout_seconds=self.rules.visibility_timeout_seconds,
            is_fifo=self.rules.is_fifo,
            sleep=self.sleep,
            seconds_left=self._seconds_left,
        )

    def _take(self, received: Received | QueueError, chunk: Chunk) -> None:
        """Add the messages of an answer to the chunk. Delete test messages."""
        if isinstance(received, QueueError):
            self._counts.stopped_by = str(received)
            return

        self._record_poll(len(received))
        size_before = chunk.size_bytes
        test_receipts: list[Receipt] = []
        drained_at = datetime.fromtimestamp(self.now_seconds(), UTC)
        for message in received:
            try:
                if isinstance(message, MalformedMessageError):
                    raise message
                if trial_id_of(message) is not None:
                    test_receipts.append(Receipt(message.message_id, message.receipt_handle))
                    continue
                row = to_row(message, self.queue.url, drained_at)
            except MalformedMessageError as error:
                self._counts.unreadable += 1
                if len(self._counts.faults) < _NAMED_FAULTS:
                    self._counts.faults.append(str(error))
            else:
                self._counts.received += 1
                self._taken += chunk.add(message, row)

        if test_receipts:
            self._test_deletions.append(self.executor.submit(self._delete, test_receipts))
        answer_bytes = chunk.size_bytes - size_before
        self._largest_answer_bytes = max(self._largest_answer_bytes or 0, answer_bytes)

    def _record_poll(self, messages: int) -> None:
        """Decide by the number of messages in an answer whether the queue is empty.

        An empty answer does not show it: a short poll asks only some of SQS's servers, and messages
        may be delayed. So it takes several in a row, and SQS's own count of visible messages. That
        count is approximate and may lag by a minute
        (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-resources-required-process-messages.html),
        so ``LAST_POLL`` empty answers in a row suffice without it.
        """
        self._empty_polls = 0 if messages else self._empty_polls + 1
        if messages:
            self._is_empty = False
        elif self._empty_polls >= LAST_POLL:
            self._is_empty = True
        elif self._empty_polls % EMPTY_POLLS == 0:
            # Calls that were on their way then answer empty, too: that changes nothing.
            self._is_empty = self._is_empty or self.count_visible() == 0

    def _settle(self, chunk: Chunk) -> bool:
        """Write, then delete. Return False if the write failed; then nothing is deleted."""
        try:
            self.write([*chunk.rows.values()])
        except ArchiveError as error:
            self._counts.stopped_by = str(error)
            return False
        self._counts.archived += len(chunk.rows)

        # Deletions of the chunk before ran while this one was received.
        self._await_deletions()

        receipts = [*chunk.receipts.values()]
        for start in range(0, len(receipts), MAX_RECEIVE):
            batch = receipts[start : start + MAX_RECEIVE]
            self._deletions.append(self.executor.submit(self._delete, batch))
        if self.rules.is_fifo:
            self._await_deletions()
        return True

    def _delete(self, batch: Sequence[Receipt]) -> tuple[int, int]:
        """Delete a batch; return how many are deleted and how many are not."""
        left = Retry(DELETE_ATTEMPTS, sleep=self.sleep).finish(self.queue.delete, batch)
        return len(batch) - len(left), len(left)

    def _await_deletions(self) -> None:
        for deletion in self._deletions:
            deleted, not_deleted = deletion.result()
            self._counts.deleted += deleted
            self._counts.not_deleted += not_deleted
        self._deletions.clear()

        for deletion in self._test_deletions:
            deleted, _ = deletion.result()
            self._counts.tests += deleted
        self._test_deletions.clear()
