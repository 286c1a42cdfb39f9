"""The writer of the ``sqs`` format: tasks send, the driver says whether all went well."""

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from dlq_replay.sqs import SqsQueue
from spark_reprocess.clients import CONCURRENT_CALLS, ClientFactory, sqs_client
from spark_reprocess.errors import JobError
from spark_reprocess.sql.options import SendOptions
from spark_reprocess.sql.row_sender import RowSender

_NAMED_FAULTS = 10


class SinkError(JobError):
    """Some rows were not sent. The others were, and stay sent."""


@dataclass(frozen=True, slots=True)
class _TaskCounts(WriterCommitMessage):
    """What one task did; see ``SendCounts``."""

    sent: int
    in_doubt: int
    faults: dict[str, int]


class SqsWriter(DataSourceArrowWriter):
    """Sends each row as one message, at least once.

    A write that returns has had every row confirmed by SQS. A write that raises has sent some rows
    and not others, and says how many and why:

    - A row that breaks a rule of SQS (no body, above 1 MiB, more than 10 attributes, a FIFO row
      without a group) is not sent. The others are.
    - What SQS refused, or left without an answer, is sent again within the task, ``attempts``
      times in all (3 unless given), after pauses with full jitter.
    - Duplicates come from answers that were lost, from a task that died and was run again by Spark
      (everything it had sent is sent again) and from speculation: set ``spark.speculation`` to
      false. On a FIFO queue rows with a ``deduplication_id`` are free of them for 5 minutes.
    - On a FIFO queue the rows of a message group arrive in the order of their partition, so keep
      a group in one (``repartition("message_group_id").sortWithinPartitions(...)``); behind a row
      that was not confirmed, the rest of its group is not sent.

    Nothing remembers what was sent. To put archived messages back, once each and with a ledger,
    there is ``python -m spark_reprocess redrive``.

    =====================  =====================================================================
    column                 what becomes of it
    =====================  =====================================================================
    ``body``               the message's text; required
    ``attributes``         ``map<string, string>``, or with types as a look or the archive has
                           them: a copy of an archived row carries its replay counter and context
                           along unless ``map_filter`` takes out the names with ``sqs-dlq-``
    ``message_group_id``   required on a FIFO queue, the tenant on a fair queue
    ``deduplication_id``   FIFO only; where it is null the queue must deduplicate by content
    ``trace_header``       X-Ray's
    ``delay_seconds``      the message timer, 0 to 900; not on a FIFO queue
    =====================  =====================================================================

    Other columns are not sent.
    """

    def __init__(self, options: SendOptions, make_client: ClientFactory = sqs_client) -> None:
        self._options = options
        self._make_client = make_client

    def write(  # type: ignore[override]  # pyspark contradicts itself
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Send one partition; never raises for SQS or for a row, or Spark would send it again."""
        url = self._options.queue_url
        with ThreadPoolExecutor(CONCURRENT_CALLS, thread_name_prefix="send") as executor:
            sender = RowSender(
                queue=SqsQueue(self._make_client(url), url),
                executor=executor,
                is_fifo=self._options.is_fifo,
                attempts=self._options.attempts,
                sleep=time.sleep,
                draw=random.random,
            )
            counts = sender.send_all(row for batch in iterator for row in batch.to_pylist())
        return _TaskCounts(counts.sent, counts.in_doubt, dict(counts.faults))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Check that every row was sent.

        Raises:
            SinkError: some were not.
        """
        tasks = [one for one in messages if isinstance(one, _TaskCounts)]
        faults = sum((Counter(one.faults) for one in tasks), Counter[str]())
        if faults:
            sent = sum(one.sent for one in tasks)
            raise SinkError(_sentence(self._options.queue_url, sent, faults, tasks))


def _sentence(url: str, sent: int, faults: Counter[str], tasks: Sequence[_TaskCounts]) -> str:
    in_doubt = sum(one.in_doubt for one in tasks)
    lines = [f"  {count:,} rows: {fault}" for fault, count in faults.most_common(_NAMED_FAULTS)]
    doubt = f" ({in_doubt:,} of them may have arrived: no answer came)" if in_doubt else ""
    head = f"{url}: {faults.total():,} rows were not sent{doubt}, {sent:,} were; "
    return head + "send only what failed again:\n" + "\n".join(lines)
