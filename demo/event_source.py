"""Simulates Lambda's event source mapping: polls a queue, invokes a function, deletes messages.

Behaves as with ``ReportBatchItemFailures``: failed messages are visible again after their timeout.
On FIFO queues a batch has at most ten messages, and none of a group with a message in flight.
"""

import base64
import hashlib
import json
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from demo.environment import REGION, Queue

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

FUNCTION_TIMEOUT_SECONDS = 30
_RECEIVE_MAX = 10
_LONG_POLL_SECONDS = 1
_PAUSE_AFTER_ERROR_SECONDS = 0.5

Handler = Callable[[Mapping[str, Any], Any], object]
"""A Lambda function: takes event and context, returns an answer."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch.

    Attributes:
        failed: message ids that stay in the queue. Lambda deletes all others.
        fault: why the complete batch failed; None if the answer is valid.
    """

    failed: frozenset[str]
    fault: str | None = None


def to_event(messages: Sequence[Mapping[str, Any]], queue_arn: str) -> dict[str, Any]:
    """Return the event for messages of a ReceiveMessage answer."""
    return {"Records": [to_record(message, queue_arn) for message in messages]}


def to_record(message: Mapping[str, Any], queue_arn: str) -> dict[str, Any]:
    """Return one record of an event."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message.get("Attributes", {})),
        "messageAttributes": {
            name: _attribute(raw) for name, raw in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": hashlib.md5(message["Body"].encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    }


def _attribute(raw: Mapping[str, Any]) -> dict[str, Any]:
    shared = {"stringListValues": [], "binaryListValues": [], "dataType": raw["DataType"]}
    if "BinaryValue" in raw:
        return {"binaryValue": base64.b64encode(raw["BinaryValue"]).decode(), **shared}
    return {"stringValue": raw["StringValue"], **shared}


def interpret(answer: object, message_ids: Collection[str]) -> BatchResult:
    """Read a partial batch response as Lambda does.

    All succeeded: no answer, an empty object, an empty or null list. All failed: an answer that is
    not JSON or has another form, or that has an empty or unknown message id. See
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
    """
    try:
        return BatchResult(_failures(_as_json(answer), message_ids))
    except ValueError as error:
        return BatchResult(frozenset(message_ids), str(error))


def _as_json(answer: object) -> object:
    try:
        return json.loads(json.dumps(answer, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the answer is no JSON: {error}") from None


def _failures(answer: object, message_ids: Collection[str]) -> frozenset[str]:
    if answer is None or answer == "":
        return frozenset()
    if not isinstance(answer, dict):
        raise ValueError("the answer is no object")  # noqa: TRY004 - one error type for the caller
    items = answer.get("batchItemFailures")
    if items is None:
        return frozenset()
    if not isinstance(items, list):
        raise ValueError("batchItemFailures is no list")  # noqa: TRY004 - as above
    return frozenset(_identifier(item, message_ids) for item in items)


def _identifier(item: object, message_ids: Collection[str]) -> str:
    identifier = item.get("itemIdentifier") if isinstance(item, dict) else None
    if not isinstance(identifier, str) or not identifier:
        raise ValueError("an item has no itemIdentifier")
    if identifier not in message_ids:
        raise ValueError(f"itemIdentifier {identifier} is not in the batch")
    return identifier


@dataclass(frozen=True, slots=True)
class InvocationContext:
    """The part of Lambda's context object that functions here use."""

    function_name: str
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    deadline_seconds: float = field(
        default_factory=lambda: time.monotonic() + FUNCTION_TIMEOUT_SECONDS
    )
    memory_limit_in_mb: int = 256

    @property
    def invoked_function_arn(self) -> str:
        """An ARN in an account that does not exist."""
        return f"arn:aws:lambda:us-east-1:123456789012:function:{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function's time-out."""
        return max(0, round((self.deadline_seconds - time.monotonic()) * 1000))


@dataclass(frozen=True, slots=True)
class EventSource:
    """Settings of an event source mapping.

    Attributes:
        window_seconds: how long a batch that is not full waits for more.
    """

    queue: Queue
    function_name: str
    batch_size: int = 10
    window_seconds: float = 0

    def __post_init__(self) -> None:
        """Raise ValueError for settings that Lambda refuses."""
        if self.queue.is_fifo and (self.batch_size > _RECEIVE_MAX or self.window_seconds):
            raise ValueError(f"{self.queue.name}: FIFO allows batches of 10 and no window")


class Poller:
    """Invokes one function with messages of one queue, one batch at a time, until stopped."""

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
        """Start to poll in a new thread."""
        self._thread.start()

    def stop(self) -> None:
        """Request the end after the current batch; ``join`` waits for it."""
        self._stopping.set()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the end of the thread; return whether it has ended."""
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def run(self) -> None:
        """Poll and invoke. Report an error of the queue and continue."""
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

    def _invoke(self, batch: Sequence[Mapping[str, Any]]) -> BatchResult:
        source = self._source
        event = to_event(batch, source.queue.arn)
        ids = [message["MessageId"] for message in batch]
        try:
            answer = self._handler(event, InvocationContext(source.function_name))
        except Exception as error:  # noqa: BLE001 - a function may raise anything; Lambda continues
            traceback.print_exc()
            result = BatchResult(frozenset(ids), f"{type(error).__name__}: {error}")
        else:
            result = interpret(answer, ids)
        if result.fault:
            self._on_fault(f"{source.function_name} failed a whole batch: {result.fault}")
        return result

    def _delete(self, batch: Sequence[Mapping[str, Any]], result: BatchResult) -> None:
        handles = [m["ReceiptHandle"] for m in batch if m["MessageId"] not in result.failed]
        for start in range(0, len(handles), _RECEIVE_MAX):
            entries: Any = [
                {"Id": str(index), "ReceiptHandle": handle}
                for index, handle in enumerate(handles[start : start + _RECEIVE_MAX])
            ]
            # A message that is not deleted comes back, as with SQS.
            self._client.delete_message_batch(QueueUrl=self._source.queue.url, Entries=entries)
