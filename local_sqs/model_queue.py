"""A queue of the model that satisfies ``dlq_replay.sending.Queue``.

It has the methods and results of ``dlq_replay.sqs.SqsQueue``, without botocore: for simulations of
many messages.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.message import Message, SendEntry
from dlq_replay.sending import Confirmed, InDoubt, Refused, SendResult
from local_sqs.errors import SqsError
from local_sqs.front import AnswerLostError, Front
from local_sqs.model import SqsModel

MAX_BATCH = 10


class ModelQueue:
    """One queue of a model, created if it does not exist.

    Attributes:
        front: log and faults of its requests.
        url: the queue's URL in the model.
    """

    def __init__(self, source: SqsModel | Front, name: str, **attributes: str) -> None:
        self.front = Front.of(source)
        model = self.front.model
        if name not in model.queues:
            model.create_queue(name, attributes)
        self.queue = model.queues[name]
        self.url = model.url_of(self.queue)

    @property
    def arn(self) -> str:
        return self.queue.arn

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        """Send at most 10 entries; one result each, in order.

        Unlike SqsQueue, it does not send the entries of a refused call one by one.
        """
        requests = [entry.to_api(str(index)) for index, entry in enumerate(entries)]
        try:
            answer = self._call("SendMessageBatch", Entries=requests)
        except SqsError as error:
            result = Refused(error.code, error.message) if error.status < 500 else None
            return [result or InDoubt(str(error))] * len(entries)
        except AnswerLostError as error:
            return [InDoubt(str(error))] * len(entries)
        results: dict[str, SendResult] = {}
        for entry in answer.get("Successful", []):
            results[entry["Id"]] = Confirmed(entry["MessageId"])
        for entry in answer.get("Failed", []):
            results[entry["Id"]] = Refused(entry["Code"])
        return [results[str(index)] for index in range(len(entries))]

    def receive(
        self,
        *,
        max_messages: int = MAX_BATCH,
        wait_seconds: int = 0,
        visibility_timeout_seconds: int | None = None,
    ) -> list[Message | MalformedMessageError]:
        """Receive up to *max_messages*. A wait advances a virtual clock.

        Raises:
            QueueError: the receive was refused, or its answer was lost.
        """
        request: dict[str, Any] = {
            "MaxNumberOfMessages": max_messages,
            "WaitTimeSeconds": wait_seconds,
            "MessageAttributeNames": ["All"],
            "MessageSystemAttributeNames": ["All"],
        }
        if visibility_timeout_seconds is not None:
            request["VisibilityTimeout"] = visibility_timeout_seconds
        try:
            answer = self._call("ReceiveMessage", **request)
        except (SqsError, AnswerLostError) as error:
            raise QueueError(f"receiving from {self.url}: {error}") from error
        return [Message.from_receive(received) for received in answer.get("Messages", [])]

    def delete(self, messages: Sequence[Message]) -> list[Message]:
        """Delete any number of received messages; return those that were not confirmed."""
        left: list[Message] = []
        for start in range(0, len(messages), MAX_BATCH):
            part = messages[start : start + MAX_BATCH]
            entries = [
                {"Id": str(i), "ReceiptHandle": m.receipt_handle} for i, m in enumerate(part)
            ]
            left.extend(self._unconfirmed("DeleteMessageBatch", part, entries))
        return left

    def change_visibility(self, changes: Sequence[tuple[Message, int]]) -> list[Message]:
        """Change the visibility timeouts of messages, in seconds; return those not confirmed."""
        left: list[Message] = []
        for start in range(0, len(changes), MAX_BATCH):
            part = changes[start : start + MAX_BATCH]
            entries = [
                {"Id": str(i), "ReceiptHandle": m.receipt_handle, "VisibilityTimeout": seconds}
                for i, (m, seconds) in enumerate(part)
            ]
            messages = [message for message, _ in part]
            left.extend(self._unconfirmed("ChangeMessageVisibilityBatch", messages, entries))
        return left

    def describe(self) -> Mapping[str, str]:
        """Return the queue's attributes by name, counts included."""
        attributes: Mapping[str, str] = self._call("GetQueueAttributes", AttributeNames=["All"])[
            "Attributes"
        ]
        return attributes

    def _unconfirmed(
        self, operation: str, messages: Sequence[Message], entries: list[dict[str, Any]]
    ) -> list[Message]:
        try:
            answer = self._call(operation, Entries=entries)
        except (SqsError, AnswerLostError):
            return list(messages)
        done = {entry["Id"] for entry in answer.get("Successful", [])}
        return [m for index, m in enumerate(messages) if str(index) not in done]

    def _call(self, operation: str, **request: Any) -> dict[str, Any]:
        return self.front.handle(operation, {"QueueUrl": self.url, **request})
