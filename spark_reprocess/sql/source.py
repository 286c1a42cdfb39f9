"""The ``sqs`` format of Spark SQL: the class to register, and the reader, which peeks."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from dlq_replay.errors import MalformedMessageError
from dlq_replay.message import Message
from dlq_replay.sqs import SqsQueue
from spark_reprocess.archive.dead_letter_schema import ARROW_SCHEMA, Row, to_row, to_table
from spark_reprocess.archive.frames import SPARK_SCHEMA
from spark_reprocess.clients import ClientFactory, sqs_client
from spark_reprocess.errors import InputError
from spark_reprocess.sql.options import PeekOptions, peek_options, send_options
from spark_reprocess.sql.writer import SqsWriter, require_columns

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter


class SqsDataSource(DataSource):
    """Amazon SQS as a format of Spark SQL. Register it once per session.

    ::

        spark.dataSource.register(SqsDataSource)

    **Reading peeks.** Nothing is deleted::

        parked = (
            spark.read.format("sqs")
            .option("queueUrl", "https://sqs.eu-west-1.amazonaws.com/123456789012/orders-parked")
            .option("limit", 500)
            .load()
            .cache()
        )
        parked.groupBy("parked_reason", "error_type").count().show()
        parked.select("message_id", "attributes['tenant'].string_value").show()

    The columns are those of the archive: the message id, body, ``attributes`` (name to
    ``data_type``, ``string_value``, ``binary_value``), SQS's own attributes, typed, and what the
    replay function wrote: ``replay_count``, ``parked_reason``, ``error_type``, ``error_message``,
    ``error_version``, ``source_queue``.

    Limits and side effects:

    - Each evaluation receives again. ``cache()`` or write what you want to keep: a ``show()`` and a
      ``count()`` are two reads at two times.
    - The messages are hidden from other consumers until the read ends, at most for
      ``visibilityTimeoutSeconds``. On a FIFO queue their whole groups are hidden, so a read returns
      the first messages of each group, at most 10.
    - SQS counts the receive. A queue whose redrive policy has a small ``maxReceiveCount`` moves
      messages to its DLQ that were read too often.
    - You get the sample that SQS returns, in no order (FIFO: in order within a group), and never
      all messages of a large queue. To get all, drain into an archive and read its Parquet files.
    - A message that cannot be parsed gives no row. It stays in the queue, and the worker's log
      names it.

    ============================  ========  ====================================================
    option                        default   meaning
    ============================  ========  ====================================================
    ``queueUrl``                  required  the queue
    ``limit``                     1000      messages at most, 1 to 1,000,000
    ``waitSeconds``               2         of one long poll, 0 to 20; two empty ones end it
    ``visibilityTimeoutSeconds``  60        how long messages stay hidden at most, 1 to 43,200
    ``giveBack``                  true      make them visible again when the read ends
    ============================  ========  ====================================================

    **Writing sends** rows to a queue; ``spark_reprocess.sql.writer.SqsWriter`` has the
    delivery guarantee::

        rows.write.format("sqs").option("queueUrl", url).mode("append").save()

    Region, credentials and endpoint are boto3's, on the driver and on every worker.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "sqs"

    def schema(self) -> str:
        """Return the columns that a read gives.

        Raises:
            InputError: the options have faults; all of them are named.
        """
        peek_options(self.options)
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> "SqsReader":
        """Return the reader, with all columns or with those that the user named.

        Raises:
            InputError: the options have faults, or the user's schema names other columns.
        """
        _require_own_columns(schema)
        return SqsReader(peek_options(self.options), tuple(schema.names))

    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceArrowWriter":
        """Return the writer.

        Raises:
            InputError: the options have faults, the mode is not append, or columns do not fit.
        """
        if overwrite:
            raise InputError('format sqs: a queue cannot be overwritten; use mode("append")')
        options = send_options(self.options)
        require_columns(schema, is_fifo=options.is_fifo)
        return SqsWriter(options)


def _require_own_columns(schema: StructType) -> None:
    own = {field.name: field.dataType for field in from_arrow_schema(ARROW_SCHEMA)}
    faults = [
        f"  {field.name}: is not a column of this format, or of another type"
        for field in schema
        if own.get(field.name) != field.dataType
    ]
    if faults:
        raise InputError("format sqs: the schema has faults:\n" + "\n".join(faults))


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
