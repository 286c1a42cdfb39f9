"""What stands between a queue and a function: polls, invokes, deletes what succeeded.

Behaves like Lambda's event source mapping with ``ReportBatchItemFailures``: what failed is left to
the visibility timeout. On FIFO queues a batch holds ten messages at most, none of a group of which
another is in flight.
"""

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from demo.lambda_events import Verdict, interpret, new_request_id, to_event
from demo.world import Queue

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

FUNCTION_TIMEOUT_SECONDS = 30
_RECEIVE_MAX = 10
_LONG_POLL_SECONDS = 1
_PAUSE_AFTER_ERROR_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class InvocationContext:
    """The part of Lambda's context object that functions here use."""

    function_name: str
    aws_request_id: str = field(default_factory=new_request_id)
    deadline_seconds: float = field(
        default_factory=lambda: time.monotonic() + FUNCTION_TIMEOUT_SECONDS
    )
    memory_limit_in_mb: int = 256

    @property
    def invoked_function_arn(self) -> str:
        """Of an account that does not exist."""
        return f"arn:aws:lambda:us-east-1:123456789012:function:{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function's time-out."""
        return max(0, round((self.deadline_seconds - time.monotonic()) * 1000))


Handler = Callable[[Mapping[str, Any], Any], object]
"""A Lambda function: event and context in, answer out."""


@dataclass(frozen=True, slots=True)
class EventSource:
    """Settings of an event source mapping.

    Attributes:
        window_seconds: how long a batch that is not full waits for more.
        dead_letter_source_arn: of a DLQ, the queue whose redrive policy fills it.
    """

    queue: Queue
    function_name: str
    batch_size: int = 10
    window_seconds: float = 0
    dead_letter_source_arn: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for what Lambda refuses."""
        if self.queue.is_fifo and (self.batch_size > _RECEIVE_MAX or self.window_seconds):
            raise ValueError(f"{self.queue.name}: FIFO allows batches of 10 and no window")


class Poller:
    """Drives one function from one queue until it is stopped. One batch at a time."""

    def __init__(
        self,
        client: "SQSClient",
        source: EventSource,
        handler: Handler,
        on_fault: Callable[[str], object],
    ) -> None:
        self._client = client
        self._source = source
        self._handler = handler
        self._on_fault = on_fault
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name=source.function_name, daemon=True)

    def start(self) -> None:
        """Poll in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end after the batch at hand; ``join`` waits for that."""
        self._stopping.set()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the end of its thread; return whether it came."""
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def run(self) -> None:
        """Poll and invoke. An error of the queue is told, and polling goes on."""
        while not self._stopping.is_set():
            try:
                if batch := self._gather():
                    self._delete(batch, self._invoke(batch))
            except (ClientError, BotoCoreError) as error:
                if not self._stopping.is_set():
                    self._on_fault(f"{self._source.queue.name} could not be polled: {error}")
                self._stopping.wait(_PAUSE_AFTER_ERROR_SECONDS)

    def _gather(self) -> list[Mapping[str, Any]]:
        batch: list[Mapping[str, Any]] = self._receive(_LONG_POLL_SECONDS)
        window_ends = time.monotonic() + self._source.window_seconds
        while batch and len(batch) < self._source.batch_size and time.monotonic() < window_ends:
            batch += self._receive(0, self._source.batch_size - len(batch))
            self._stopping.wait(0.05)
        return batch

    def _receive(self, wait_seconds: int, room: int = _RECEIVE_MAX) -> list[Mapping[str, Any]]:
        answer = self._client.receive_message(
            QueueUrl=self._source.queue.url,
            MaxNumberOfMessages=min(room, self._source.batch_size, _RECEIVE_MAX),
            WaitTimeSeconds=wait_seconds,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        return list(answer.get("Messages", []))

    def _invoke(self, batch: Sequence[Mapping[str, Any]]) -> Verdict:
        source = self._source
        event = to_event(batch, source.queue.arn, source.dead_letter_source_arn)
        ids = [message["MessageId"] for message in batch]
        try:
            answer = self._handler(event, InvocationContext(source.function_name))
        except Exception as error:  # noqa: BLE001 - a function may raise anything; Lambda goes on
            traceback.print_exc()
            verdict = Verdict(frozenset(ids), f"{type(error).__name__}: {error}")
        else:
            verdict = interpret(answer, ids)
        if verdict.fault:
            self._on_fault(f"{source.function_name} failed a whole batch: {verdict.fault}")
        return verdict

    def _delete(self, batch: Sequence[Mapping[str, Any]], verdict: Verdict) -> None:
        handles = [m["ReceiptHandle"] for m in batch if m["MessageId"] not in verdict.failed]
        for start in range(0, len(handles), _RECEIVE_MAX):
            entries: Any = [
                {"Id": str(index), "ReceiptHandle": handle}
                for index, handle in enumerate(handles[start : start + _RECEIVE_MAX])
            ]
            # One that is not deleted comes back, as it would from SQS.
            self._client.delete_message_batch(QueueUrl=self._source.queue.url, Entries=entries)
