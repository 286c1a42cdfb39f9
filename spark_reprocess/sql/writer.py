"""The writer of the ``sqs`` format: each row of a DataFrame is sent as one message.

``entry_of`` makes an entry of a row, ``RowSender`` sends the entries of one task, and ``SqsWriter``
is what Spark calls, in the tasks and on the driver.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from dlq_replay.attributes import MAX_ATTRIBUTES, MessageAttribute
from dlq_replay.backoff import Backoff
from dlq_replay.message import SendEntry
from dlq_replay.policy import MAX_MESSAGE_BYTES, MESSAGE_TIMER_MAX_SECONDS
from dlq_replay.retry import Retry
from dlq_replay.sending import (
    Confirmed,
    InDoubt,
    Queue,
    Refused,
    SendResult,
    Shipment,
    forever,
    send_groups,
)
from dlq_replay.sqs import SqsQueue
from spark_reprocess.clients import CONCURRENT_CALLS, ClientFactory, sqs_client
from spark_reprocess.errors import InputError, JobError
from spark_reprocess.sql.options import SendOptions

CHUNK_ROWS = 100
"""Rows that a task holds as entries at once: 10 calls."""

BACKOFF = Backoff(rate_seconds=0.2, cap_seconds=60)
"""Before an entry is sent again."""

BEHIND = "behind a row of its message group that was not confirmed"

_NAMED_FAULTS = 10

_TEXT = StringType()
_TYPED_ATTRIBUTE = (
    StructType()
    .add("data_type", _TEXT)
    .add("string_value", _TEXT)
    .add("binary_value", BinaryType())
)
_COLUMNS: dict[str, tuple[DataType, ...]] = {
    "body": (_TEXT,),
    "attributes": (MapType(_TEXT, _TEXT), MapType(_TEXT, _TYPED_ATTRIBUTE)),
    "message_group_id": (_TEXT,),
    "deduplication_id": (_TEXT,),
    "trace_header": (_TEXT,),
    "delay_seconds": (IntegerType(), LongType()),
}

_Row = Mapping[str, Any]


class RowError(ValueError):
    """A row that cannot be sent as a message. The text never holds a part of the row."""


def require_columns(schema: StructType, *, is_fifo: bool) -> None:
    """Check that rows of *schema* can be messages.

    Raises:
        InputError: a column is missing or of another type; all faults are named.
    """
    types = {field.name: field.dataType for field in schema}
    required = ("body", "message_group_id") if is_fifo else ("body",)
    faults = [f"{name}: is missing" for name in required if name not in types]
    faults += [
        f"{name}: is {types[name].simpleString()}; must be "
        + " or ".join(one.simpleString() for one in wanted)
        for name, wanted in _COLUMNS.items()
        # Whether values may be null does not matter.
        if name in types and types[name].simpleString() not in {w.simpleString() for w in wanted}
    ]
    if faults:
        lines = "\n".join(f"  {one}" for one in faults)
        raise InputError(f"format sqs: the columns have faults:\n{lines}")


def entry_of(row: Mapping[str, Any], *, is_fifo: bool) -> SendEntry:
    """Make the entry of a row as Arrow returns it, with maps as lists of pairs.

    Raises:
        RowError: the row breaks a rule of SQS, so that a retry cannot succeed.
    """
    if not row["body"]:
        raise RowError("body: is null or empty; SQS takes 1 character or more")
    if is_fifo and not row.get("message_group_id"):
        raise RowError("message_group_id: is null or empty; a FIFO queue needs one")
    entry = SendEntry(
        body=row["body"],
        attributes={name: _attribute(value) for name, value in row.get("attributes") or ()},
        message_group_id=row.get("message_group_id"),
        deduplication_id=row.get("deduplication_id") if is_fifo else None,
        trace_header=row.get("trace_header"),
        delay_seconds=_delay_seconds(row.get("delay_seconds"), is_fifo=is_fifo),
    )
    if len(entry.attributes) > MAX_ATTRIBUTES:
        raise RowError(f"attributes: are {len(entry.attributes)}; SQS takes {MAX_ATTRIBUTES}")
    if entry.size_bytes > MAX_MESSAGE_BYTES:
        raise RowError(f"message: is {entry.size_bytes:,} bytes; SQS takes {MAX_MESSAGE_BYTES:,}")
    return entry


def _attribute(value: str | Mapping[str, Any] | None) -> MessageAttribute:
    if isinstance(value, str):
        return MessageAttribute("String", value)
    if value is None or not value["data_type"]:
        raise RowError("attributes: one is null or has no data_type")
    content = value["binary_value"] if value["string_value"] is None else value["string_value"]
    if content is None:
        raise RowError("attributes: one has neither string_value nor binary_value")
    return MessageAttribute(value["data_type"], content)


def _delay_seconds(value: int | None, *, is_fifo: bool) -> int | None:
    if value is None:
        return None
    if is_fifo:
        raise RowError("delay_seconds: must be null; a FIFO queue takes no message timer")
    if not 0 <= value <= MESSAGE_TIMER_MAX_SECONDS:
        raise RowError(f"delay_seconds: must be from 0 to {MESSAGE_TIMER_MAX_SECONDS}")
    return value


@dataclass
class SendCounts(WriterCommitMessage):
    """Result of one task.

    Attributes:
        sent: rows that SQS confirmed.
        faults: number of the other rows by cause: a rule that the row breaks, SQS's error code, or
            why no answer came.
        in_doubt: number of the other rows that SQS may have received.
    """

    sent: int = 0
    in_doubt: int = 0
    faults: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class RowSender:
    """Sends the rows of one partition.

    Attributes:
        retry: how often an entry is sent that SQS did not confirm.
    """

    queue: Queue
    executor: Executor
    is_fifo: bool
    retry: Retry
    _counts: SendCounts = field(default_factory=SendCounts)
    _stopped_groups: set[str] = field(default_factory=set)

    def send_all(self, rows: Iterable[_Row]) -> SendCounts:
        """Send every row; never raises for SQS or for a row.

        On a FIFO queue a row that was not confirmed stops its message group: later rows of the
        group would be sent before it.
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
        for _ in self.retry.attempts():
            waiting = self._send(waiting)
            if not waiting:
                return
        for one in waiting:
            self._counts.in_doubt += one.is_in_doubt
            self._give_up(one.fault, one.entry.message_group_id)

    def _send(self, waiting: "list[_Pending]") -> "list[_Pending]":
        """Send each once; return those that were not confirmed, in order."""
        groups: dict[Hashable, list[Shipment[int]]] = {}
        for key, one in enumerate(waiting):
            group = one.entry.message_group_id if self.is_fifo else key
            groups.setdefault(group, []).append(Shipment(key, self.queue, one.entry))
        results = send_groups(groups.values(), self.executor, forever)
        left = [one for key, one in enumerate(waiting) if not one.is_settled_by(results[key])]
        self._counts.sent += len(waiting) - len(left)
        return left

    def _give_up(self, fault: str, message_group_id: str | None) -> None:
        self._counts.faults[fault] += 1
        if self.is_fifo and message_group_id is not None:
            self._stopped_groups.add(message_group_id)


@dataclass(slots=True)
class _Pending:
    """An entry that SQS has not confirmed, and why not."""

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


class SinkError(JobError):
    """Some rows were not sent; the others were."""


class SqsWriter(DataSourceArrowWriter):
    """Sends each row as one message, at least once.

    When a write returns, SQS has confirmed every row. When it raises, some rows were sent and
    others were not; the error says how many and why:

    - A row that breaks a rule of SQS (no body, above 1 MiB, more than 10 attributes, a FIFO row
      without a group) is not sent. The others are.
    - A row that SQS refused, or did not answer, is sent again within the task, ``attempts`` times
      in total (3 by default), after pauses with full jitter.
    - Duplicates come from lost answers, from a task that died and that Spark ran again (all of its
      rows are sent again), and from speculation: set ``spark.speculation`` to false. On a FIFO
      queue rows with a ``deduplication_id`` have no duplicates for 5 minutes.
    - On a FIFO queue the rows of a message group arrive in the order of their partition. Keep a
      group in one partition (``repartition("message_group_id").sortWithinPartitions(...)``). After
      a row that was not confirmed, the rest of its group is not sent.

    No record of the sent rows is kept. To send archived messages back once each, with a ledger, use
    ``python -m spark_reprocess redrive``.

    =====================  =====================================================================
    column                 meaning
    =====================  =====================================================================
    ``body``               the message's text; required
    ``attributes``         ``map<string, string>``, or with types, as a read or the archive has
                           them: a copy of an archived row keeps its replay counter and context
                           unless ``map_filter`` removes the names with ``sqs-dlq-``
    ``message_group_id``   required on a FIFO queue, the tenant on a fair queue
    ``deduplication_id``   FIFO only; if it is null the queue must deduplicate by content
    ``trace_header``       of AWS X-Ray
    ``delay_seconds``      the message timer, 0 to 900; not on a FIFO queue
    =====================  =====================================================================

    Other columns are not sent.
    """

    def __init__(self, options: SendOptions, make_client: ClientFactory = sqs_client) -> None:
        self._options = options
        self._make_client = make_client

    def write(  # type: ignore[override]  # pyspark's own hints contradict each other
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Send one partition. Never raises for SQS or for a row: Spark would send it again."""
        url = self._options.queue_url
        with ThreadPoolExecutor(CONCURRENT_CALLS, thread_name_prefix="send") as executor:
            sender = RowSender(
                queue=SqsQueue(self._make_client(url), url),
                executor=executor,
                is_fifo=self._options.is_fifo,
                retry=Retry(self._options.attempts, BACKOFF),
            )
            return sender.send_all(row for batch in iterator for row in batch.to_pylist())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Check that every row was sent.

        Raises:
            SinkError: some were not.
        """
        tasks = [one for one in messages if isinstance(one, SendCounts)]
        faults = sum((one.faults for one in tasks), Counter[str]())
        if faults:
            sent = sum(one.sent for one in tasks)
            raise SinkError(_sentence(self._options.queue_url, sent, faults, tasks))


def _sentence(url: str, sent: int, faults: Counter[str], tasks: Sequence[SendCounts]) -> str:
    in_doubt = sum(one.in_doubt for one in tasks)
    lines = [f"  {count:,} rows: {fault}" for fault, count in faults.most_common(_NAMED_FAULTS)]
    doubt = f" ({in_doubt:,} of them may have arrived: no answer came)" if in_doubt else ""
    head = f"{url}: {faults.total():,} rows were not sent{doubt}, {sent:,} were; "
    return head + "send only what failed again:\n" + "\n".join(lines)
