"""The reader of the ``sqs`` format: it peeks at a queue. Nothing is deleted here."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from dlq_replay.errors import MalformedMessageError
from dlq_replay.message import Message
from dlq_replay.sqs import SqsQueue
from spark_reprocess.archive.dead_letter_schema import Row, to_row, to_table
from spark_reprocess.clients import ClientFactory, sqs_client
from spark_reprocess.sql.options import PeekOptions

EMPTY_POLLS = 2
"""An empty long poll does not show an empty queue; so many in a row end the read."""

RECEIVE_MESSAGES = 10

_LOG = logging.getLogger(__name__)


class PeekedQueue(Protocol):
    """The queue that is read; ``dlq_replay.sqs.SqsQueue``."""

    def receive(
        self, *, max_messages: int, wait_seconds: int, visibility_timeout_seconds: int | None
    ) -> list[Message | MalformedMessageError]:
        """Receive 1 to 10 messages; raises QueueError."""

    def change_visibility(self, changes: Sequence[tuple[Message, int]]) -> list[Message]:
        """Hide messages for so many seconds from now; return those that were not confirmed."""


@dataclass(slots=True)
class Peek:
    """Reads a queue up to a limit.

    A message that is received twice, because its visibility timeout ended, is yielded once. Its
    later receipt handle is used to make it visible again.
    """

    queue: PeekedQueue
    options: PeekOptions
    _held: dict[str, Message] = field(default_factory=dict)

    def batches(self) -> Iterator[list[Message]]:
        """Yield the new messages of each receive.

        If the options say so, all received messages are made visible again, however this ends.
        Messages that cannot be parsed stay in the queue; the log names each.

        Raises:
            QueueError: SQS refused or could not be reached.
        """
        try:
            yield from self._received()
        finally:
            if self.options.gives_back:
                # If SQS does not confirm, the visibility timeout does the same later.
                self.queue.change_visibility([(one, 0) for one in self._held.values()])

    def _received(self) -> Iterator[list[Message]]:
        empty_polls = 0
        while empty_polls < EMPTY_POLLS and (room := self.options.limit - len(self._held)) > 0:
            received = self.queue.receive(
                max_messages=min(RECEIVE_MESSAGES, room),
                wait_seconds=self.options.wait_seconds,
                visibility_timeout_seconds=self.options.visibility_timeout_seconds,
            )
            new = self._new(received)
            # An answer with known messages only counts as empty: nothing new is left to receive.
            empty_polls = 0 if new else empty_polls + 1
            if new:
                yield new

    def _new(self, received: Sequence[Message | MalformedMessageError]) -> list[Message]:
        new: list[Message] = []
        for one in received:
            if isinstance(one, MalformedMessageError):
                _LOG.warning("left in the queue, unreadable: %s", one)
                continue
            if one.message_id not in self._held:
                new.append(one)
            # Bodies may be 1 MiB each; only the receipt handle is needed later.
            self._held[one.message_id] = replace(one, body="", attributes={}, system={})
        return new


class SqsReader(DataSourceReader):
    """Reads one queue in one task; several tasks would hide messages from each other."""

    def __init__(
        self,
        options: PeekOptions,
        columns: tuple[str, ...],
        make_client: ClientFactory = sqs_client,
    ) -> None:
        self._options = options
        self._columns = columns
        self._make_client = make_client

    def partitions(self) -> list[InputPartition]:
        """Return the only task."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - there is one
        """Yield a batch for each receive.

        Raises:
            QueueError: SQS refused or could not be reached.
        """
        url = self._options.queue_url
        peek = Peek(SqsQueue(self._make_client(url), url), self._options)
        for messages in peek.batches():
            received_at = datetime.fromtimestamp(time.time(), UTC)
            rows = [row for one in messages if (row := _row(one, url, received_at))]
            yield from to_table(rows).select(list(self._columns)).to_batches()


def _row(message: Message, url: str, received_at: datetime) -> Row | None:
    try:
        return to_row(message, url, received_at)
    except MalformedMessageError as error:
        _LOG.warning("left in the queue, unreadable: %s", error)
        return None
