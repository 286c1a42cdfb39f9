"""The ``sqs`` format of Spark SQL: the class to register, and its reader."""

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from dlq_replay.errors import MalformedMessageError
from dlq_replay.message import Message
from dlq_replay.sqs import SqsQueue
from spark_reprocess.archive.dead_letter_schema import (
    ARROW_SCHEMA,
    SPARK_SCHEMA,
    Row,
    to_row,
    to_table,
)
from spark_reprocess.clients import ClientFactory, sqs_client
from spark_reprocess.errors import InputError
from spark_reprocess.sql.look import Look
from spark_reprocess.sql.options import LookOptions, look_options, send_options
from spark_reprocess.sql.outgoing_rows import require_columns
from spark_reprocess.sql.sink import SqsWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter

_LOG = logging.getLogger(__name__)


class SqsDataSource(DataSource):
    """Amazon SQS as a format of Spark SQL; register it once per session.

    ::

        spark.dataSource.register(SqsDataSource)

    **Reading is a look.** Nothing is deleted::

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
    ``source_queue``.

    What a look costs and cannot do:

    - Each evaluation receives again, so ``cache()`` or write what you want to keep. A count after
      a show is two looks at two moments.
    - Messages that were looked at are hidden from everybody else until the look ends, at most for
      ``visibilityTimeoutSeconds``. On a FIFO queue their whole groups are, so a look sees the
      first messages of each group, at most 10.
    - SQS counts the receive: a queue whose redrive policy has a small ``maxReceiveCount`` moves
      messages away that were looked at too often.
    - It is a sample of what SQS gives out, in no order (FIFO: in order within a group), never the
      whole truth about a large queue. For that, drain into an archive and read its Parquet files.
    - A message that cannot be read is no row; it stays in the queue and leaves a line in the
      worker's log.

    ============================  ========  ====================================================
    option                        default   meaning
    ============================  ========  ====================================================
    ``queueUrl``                  required  the queue
    ``limit``                     1000      messages at most, 1 to 1,000,000
    ``waitSeconds``               2         of one long poll, 0 to 20; two empty ones end the look
    ``visibilityTimeoutSeconds``  60        how long messages stay hidden at most, 1 to 43,200
    ``giveBack``                  true      make them visible again when the look ends
    ============================  ========  ====================================================

    **Writing sends** rows to a queue; ``spark_reprocess.sql.sink.SqsWriter`` has the delivery
    guarantee::

        rows.write.format("sqs").option("queueUrl", url).mode("append").save()

    Region, credentials and endpoint are boto3's, on the driver and on every worker.
    """

    @classmethod
    def name(cls) -> str:
        """Return what goes into ``format(...)``."""
        return "sqs"

    def schema(self) -> str:
        """Return the columns of a look.

        Raises:
            InputError: the options have faults; all of them are named.
        """
        look_options(self.options)
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> "SqsReader":
        """Return the reader of a look with all columns, or with those that the user named.

        Raises:
            InputError: the options have faults, or the user's schema names other columns.
        """
        _require_own_columns(schema)
        return SqsReader(look_options(self.options), tuple(schema.names))

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


class SqsReader(DataSourceReader):
    """Looks at one queue in one task: several would be shown each other's messages."""

    def __init__(
        self,
        options: LookOptions,
        columns: tuple[str, ...],
        make_client: ClientFactory = sqs_client,
    ) -> None:
        self._options = options
        self._columns = columns
        self._make_client = make_client

    def partitions(self) -> list[InputPartition]:
        """Return the one task."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - there is one
        """Yield a batch for each receive.

        Raises:
            QueueError: SQS refused or could not be reached.
        """
        url = self._options.queue_url
        look = Look(SqsQueue(self._make_client(url), url), self._options)
        for messages in look.batches():
            seen_at = datetime.fromtimestamp(time.time(), UTC)
            rows = [row for one in messages if (row := _row(one, url, seen_at))]
            yield from to_table(rows).select(list(self._columns)).to_batches()


def _row(message: Message, url: str, seen_at: datetime) -> Row | None:
    try:
        return to_row(message, url, seen_at)
    except MalformedMessageError as error:
        _LOG.warning("left in the queue, unreadable: %s", error)
        return None


def _require_own_columns(schema: StructType) -> None:
    own = {field.name: field.dataType for field in from_arrow_schema(ARROW_SCHEMA)}
    faults = [
        f"  {field.name}: is not a column of a look, or of another type"
        for field in schema
        if own.get(field.name) != field.dataType
    ]
    if faults:
        raise InputError("format sqs: the schema has faults:\n" + "\n".join(faults))
