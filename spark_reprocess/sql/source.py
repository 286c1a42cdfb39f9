"""The ``sqs`` format of Spark SQL: the class to register."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_reprocess.archive.dead_letter_schema import ARROW_SCHEMA
from spark_reprocess.archive.frames import SPARK_SCHEMA
from spark_reprocess.errors import InputError
from spark_reprocess.sql.options import peek_options, send_options
from spark_reprocess.sql.reader import SqsReader
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
