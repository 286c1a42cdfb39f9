"""One drain task's loop: receive a chunk, write it durably, only then delete it.

Pure but for what it is given. Wherever it stops, each message is in the queue, in the archive, or
in both; never in neither.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.message import Message
from spark_reprocess.archive.dead_letter_schema import Row, to_row
from spark_reprocess.errors import ArchiveError

CHUNK_MESSAGES = 2000
CHUNK_SECONDS = 10.0
CHUNK_BYTES = 64 * 1024 * 1024
"""What a chunk holds of bodies, roughly; a task's memory is a small multiple of it."""

RECEIVE_MESSAGES = 10
EMPTY_POLLS = 2
"""An empty long poll is not an empty queue; so many in a row are taken for one."""

_NAMED_FAULTS = 10


class ParkedQueue(Protocol):
    """What a drain needs of a queue. ``dlq_replay.sqs.SqsQueue`` is one."""

    @property
    def url(self) -> str:
        """Where it is."""

    def receive(
        self, *, max_messages: int, wait_seconds: int, visibility_timeout_seconds: int | None
    ) -> list[Message | MalformedMessageError]:
        """Receive 1 to 10 messages; raises QueueError."""

    def delete(self, messages: Sequence[Message]) -> list[Message]:
        """Delete messages; return those that were not confirmed."""


@dataclass(frozen=True, slots=True)
class DrainRules:
    """How a task goes about it.

    Attributes:
        wait_seconds: of one long poll, 0 to 20.
        visibility_timeout_seconds: how long a received message stays hidden; must cover a chunk,
            its write and its deletes, or messages are received twice.
        chunk_messages: when a chunk is full.
        limit: messages to take, None for all.
        until_seconds: epoch seconds after which nothing more is received, None for never.
    """

    wait_seconds: int = 2
    visibility_timeout_seconds: int = 300
    chunk_messages: int = CHUNK_MESSAGES
    limit: int | None = None
    until_seconds: float | None = None


@dataclass(slots=True)
class DrainCounts:
    """What a task did.

    Attributes:
        received: messages that could be read, each receive counted.
        archived: rows written durably.
        deleted: messages that SQS confirmed as deleted, all of them archived.
        left: archived, but the deletion was not confirmed: they come again, and a read of the
            archive removes the second row.
        unreadable: messages that are no messages; they stay in the queue.
        faults: what was wrong with those, the first few.
        stopped_by: what ended the task early, None where the queue was empty or a limit reached.
    """

    received: int = 0
    archived: int = 0
    deleted: int = 0
    left: int = 0
    unreadable: int = 0
    faults: list[str] = field(default_factory=list)
    stopped_by: str | None = None


class DrainTask:
    """The loop of one task over one queue."""

    def __init__(
        self,
        queue: ParkedQueue,
        write: Callable[[list[Row]], object],
        rules: DrainRules,
        now_seconds: Callable[[], float],
    ) -> None:
        """Take *write*, which returns only once its rows are durable, and raises ArchiveError."""
        self._queue = queue
        self._write = write
        self._rules = rules
        self._now_seconds = now_seconds
        self._counts = DrainCounts()
        self._taken = 0
        self._empty_polls = 0

    def run(self) -> DrainCounts:
        """Drain until the queue is empty, a limit is reached or something fails; never raises."""
        while not self._is_over():
            chunk = self._receive_chunk()
            if chunk and not self._settle(chunk):
                break
        return self._counts

    def _is_over(self) -> bool:
        return (
            self._counts.stopped_by is not None
            or self._empty_polls >= EMPTY_POLLS
            or self._room() == 0
            or (
                self._rules.until_seconds is not None
                and self._now_seconds() >= self._rules.until_seconds
            )
        )

    def _room(self) -> int:
        if self._rules.limit is None:
            return RECEIVE_MESSAGES
        return min(RECEIVE_MESSAGES, self._rules.limit - self._taken)

    def _receive_chunk(self) -> dict[str, tuple[Message, Row]]:
        """Receive until the chunk is full or old, or nothing more comes.

        Keyed by message id: where a message comes twice, the later receipt handle is the good one.
        """
        chunk: dict[str, tuple[Message, Row]] = {}
        chunk_bytes = 0
        full_at = self._now_seconds() + CHUNK_SECONDS
        while not self._is_over():
            for message, row in self._receive():
                self._taken += message.message_id not in chunk
                chunk[message.message_id] = (message, row)
                chunk_bytes += row["body_bytes"]
            is_full = len(chunk) >= self._rules.chunk_messages or chunk_bytes >= CHUNK_BYTES
            if is_full or self._now_seconds() >= full_at:
                break
        return chunk

    def _receive(self) -> list[tuple[Message, Row]]:
        try:
            received = self._queue.receive(
                max_messages=self._room(),
                wait_seconds=self._rules.wait_seconds,
                visibility_timeout_seconds=self._rules.visibility_timeout_seconds,
            )
        except QueueError as error:
            self._counts.stopped_by = str(error)
            return []
        self._empty_polls = 0 if received else self._empty_polls + 1
        drained_at = datetime.fromtimestamp(self._now_seconds(), UTC)
        return [pair for one in received if (pair := self._read(one, drained_at))]

    def _read(
        self, received: Message | MalformedMessageError, drained_at: datetime
    ) -> tuple[Message, Row] | None:
        try:
            if isinstance(received, MalformedMessageError):
                raise received
            row = to_row(received, self._queue.url, drained_at)
        except MalformedMessageError as error:
            self._counts.unreadable += 1
            if len(self._counts.faults) < _NAMED_FAULTS:
                self._counts.faults.append(str(error))
            return None
        self._counts.received += 1
        return received, row

    def _settle(self, chunk: dict[str, tuple[Message, Row]]) -> bool:
        """Write, then delete. Return False where the write failed: then nothing is deleted."""
        try:
            self._write([row for _, row in chunk.values()])
        except ArchiveError as error:
            self._counts.stopped_by = str(error)
            return False
        self._counts.archived += len(chunk)
        left = self._queue.delete([message for message, _ in chunk.values()])
        self._counts.left += len(left)
        self._counts.deleted += len(chunk) - len(left)
        return True
