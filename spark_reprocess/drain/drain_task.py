"""One drain task's loop: receive a chunk, write it durably, only then delete it.

Pure but for what it is given. Wherever it stops, each message is in the queue, in the archive, or
in both; never in neither.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from datetime import UTC, datetime
from typing import Protocol

from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.message import Message
from dlq_replay.policy import MAX_MESSAGE_BYTES
from dlq_replay.sqs import MAX_RECEIVE
from spark_reprocess.archive.dead_letter_schema import Row, to_row
from spark_reprocess.drain.chunk import Chunk, Receipt
from spark_reprocess.drain.drain_values import CHUNK_SECONDS, DrainCounts, DrainRules
from spark_reprocess.drain.emptiness import Emptiness
from spark_reprocess.errors import ArchiveError

RECEIVE_TRIES = 3
"""A receive that fails so often in a row ends the task; the client has repeated each before."""

_NAMED_FAULTS = 10

Received = list[Message | MalformedMessageError]


class ParkedQueue(Protocol):
    """What a drain needs of a queue, from several threads. ``dlq_replay.sqs.SqsQueue`` is one."""

    @property
    def url(self) -> str:
        """Where it is."""

    def receive(
        self,
        *,
        max_messages: int,
        wait_seconds: int,
        visibility_timeout_seconds: int | None,
        attempt_id: str | None,
    ) -> Received:
        """Receive 1 to 10 messages; raises QueueError."""

    def delete(self, messages: Sequence[Receipt]) -> list[Receipt]:
        """Delete messages; return those that were not confirmed."""


class DrainTask:
    """The loop of one task over one queue."""

    def __init__(
        self,
        queue: ParkedQueue,
        write: Callable[[list[Row]], object],
        rules: DrainRules,
        executor: Executor,
        count_visible: Callable[[], int | None],
        now_seconds: Callable[[], float],
    ) -> None:
        """Take what the loop needs.

        Args:
            queue: what to empty.
            write: returns only once its rows are durable; raises ArchiveError.
            rules: how.
            executor: runs receives and deletes.
            count_visible: see ``Emptiness``.
            now_seconds: the time of day.
        """
        self._queue = queue
        self._write = write
        self._rules = rules
        self._executor = executor
        self._emptiness = Emptiness(count_visible)
        self._now_seconds = now_seconds
        self._counts = DrainCounts()
        self._taken = 0
        self._reserved = 0
        self._largest_answer_bytes: int | None = None
        self._deletions: list[Future[tuple[int, int]]] = []

    def run(self) -> DrainCounts:
        """Drain until the queue is empty, a limit is reached or something fails; never raises."""
        while not self._is_over():
            chunk = self._gather()
            if len(chunk) and not self._settle(chunk):
                break
        self._await_deletions()
        return self._counts

    def _is_over(self) -> bool:
        until = self._rules.until_seconds
        return (
            self._counts.stopped_by is not None
            or self._emptiness.is_empty
            or self._rules.limit == self._taken
            or (until is not None and self._now_seconds() >= until)
        )

    def _gather(self) -> Chunk:
        """Receive until the chunk is full or old, or nothing more comes."""
        chunk = Chunk()
        full_at = self._now_seconds() + CHUNK_SECONDS
        flights: dict[Future[Received | QueueError], int] = {}
        while True:
            while self._wants_more(chunk, len(flights), full_at):
                room = self._room()
                self._reserved += room
                flights[self._executor.submit(self._receive, room, self._wait(chunk))] = room
            if not flights:
                return chunk
            for landed in wait(flights, return_when=FIRST_COMPLETED).done:
                self._reserved -= flights.pop(landed)
                self._take(landed.result(), chunk)

    def _wants_more(self, chunk: Chunk, flights: int, full_at: float) -> bool:
        if flights == self._rules.receives or self._is_over() or self._room() == 0:
            return False
        if chunk and self._rules.is_fifo and self._emptiness.was_empty:
            return False
        answer_bytes = self._largest_answer_bytes
        each = MAX_RECEIVE * MAX_MESSAGE_BYTES if answer_bytes is None else answer_bytes
        expected_bytes = chunk.size_bytes + flights * each
        return (
            len(chunk) < self._rules.chunk_messages
            and expected_bytes < self._rules.chunk_bytes
            and self._now_seconds() < full_at
        )

    def _room(self) -> int:
        limit = self._rules.limit
        return (
            MAX_RECEIVE if limit is None else min(MAX_RECEIVE, limit - self._taken - self._reserved)
        )

    def _wait(self, chunk: Chunk) -> int:
        if len(chunk) and self._rules.is_fifo:
            # What is in the chunk may be all that can be had until it is deleted.
            return 0
        wanted = self._emptiness.wait_seconds(self._rules.wait_seconds)
        until = self._rules.until_seconds
        return wanted if until is None else min(wanted, max(0, int(until - self._now_seconds())))

    def _receive(self, room: int, wait_seconds: int) -> Received | QueueError:
        attempt_id = uuid.uuid4().hex if self._rules.is_fifo else None
        fault = QueueError()
        for _ in range(RECEIVE_TRIES):
            try:
                return self._queue.receive(
                    max_messages=room,
                    wait_seconds=wait_seconds,
                    visibility_timeout_seconds=self._rules.visibility_timeout_seconds,
                    attempt_id=attempt_id,
                )
            except QueueError as error:
                fault = error
        return fault

    def _take(self, received: Received | QueueError, chunk: Chunk) -> None:
        if isinstance(received, QueueError):
            self._counts.stopped_by = str(received)
            return
        self._emptiness.saw(len(received))
        before = chunk.size_bytes
        for message, row in self._readable(received):
            self._counts.received += 1
            self._taken += chunk.add(message, row)
        self._largest_answer_bytes = max(self._largest_answer_bytes or 0, chunk.size_bytes - before)

    def _readable(self, received: Received) -> Iterator[tuple[Message, Row]]:
        drained_at = datetime.fromtimestamp(self._now_seconds(), UTC)
        for one in received:
            try:
                if isinstance(one, MalformedMessageError):
                    raise one
                yield one, to_row(one, self._queue.url, drained_at)
            except MalformedMessageError as error:
                self._counts.unreadable += 1
                if len(self._counts.faults) < _NAMED_FAULTS:
                    self._counts.faults.append(str(error))

    def _settle(self, chunk: Chunk) -> bool:
        """Write, then delete. Return False where the write failed: then nothing is deleted."""
        try:
            self._write(chunk.rows)
        except ArchiveError as error:
            self._counts.stopped_by = str(error)
            return False
        self._counts.archived += len(chunk)
        # Of the chunk before; they went on while this one came in.
        self._await_deletions()
        for batch in chunk.receipts(MAX_RECEIVE):
            self._deletions.append(self._executor.submit(self._delete, batch))
        if self._rules.is_fifo:
            self._await_deletions()
        return True

    def _delete(self, batch: Sequence[Receipt]) -> tuple[int, int]:
        """Delete a batch; return how many are deleted and how many are left."""
        left = self._queue.delete(batch)
        if left:
            left = self._queue.delete(left)
        return len(batch) - len(left), len(left)

    def _await_deletions(self) -> None:
        for deletion in self._deletions:
            deleted, left = deletion.result()
            self._counts.deleted += deleted
            self._counts.left += left
        self._deletions.clear()
