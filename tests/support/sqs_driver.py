"""Short calls of boto3's SQS client."""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.wire.message import Message

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from local_sqs.model_queue import ModelQueue

Received = dict[str, Any]


def receive_all(queue: SqsQueue) -> list[Message]:
    """Everything that is visible now, deleted so that FIFO groups go on."""
    messages: list[Message] = []
    while received := queue.receive(wait_seconds=0):
        batch = [message for message in received if isinstance(message, Message)]
        queue.delete(batch)
        messages += batch
    return messages


def name_of(queue: SqsQueue) -> str:
    return queue.url.rpartition("/")[2]


def visible_count(queue: SqsQueue) -> int:
    """Return how many messages SQS counts that can be received now."""
    return int(queue.describe()["ApproximateNumberOfMessages"])


def refusal(call: Callable[..., object], *arguments: Any, **fields: Any) -> tuple[str, str]:
    """Return code and text of the error of a call; two empty texts if it succeeds."""
    try:
        call(*arguments, **fields)
    except ClientError as error:
        return error.response["Error"]["Code"], error.response["Error"].get("Message", "")
    return "", ""


def refusal_code(call: Callable[..., object], *arguments: Any, **fields: Any) -> str:
    """Return the error code without ``AWS.SimpleQueueService.``; empty if the call succeeds."""
    return refusal(call, *arguments, **fields)[0].removeprefix("AWS.SimpleQueueService.")


def redrive_policy(target: "QueueDriver | ModelQueue", max_receive_count: int) -> str:
    return json.dumps({"deadLetterTargetArn": target.arn, "maxReceiveCount": max_receive_count})


def string(value: str, data_type: str = "String") -> dict[str, str]:
    return {"DataType": data_type, "StringValue": value}


@dataclass(frozen=True)
class Driver:
    """An SQS endpoint."""

    client: "SQSClient"

    def queue(self, name: str | None = None, **attributes: object) -> "QueueDriver":
        """Create a queue. It is FIFO if the attribute or the suffix of the name is."""
        is_fifo = attributes.get("FifoQueue") == "true" or (name or "").endswith(".fifo")
        if is_fifo:
            attributes["FifoQueue"] = "true"
        name = name or f"q-{uuid.uuid4().hex[:12]}{'.fifo' if is_fifo else ''}"
        texts: Any = {key: str(value) for key, value in attributes.items()}
        fields = {"Attributes": texts} if texts else {}
        return QueueDriver(
            self.client, self.client.create_queue(QueueName=name, **fields)["QueueUrl"]
        )

    def fifo(self, **attributes: Any) -> "QueueDriver":
        return self.queue(FifoQueue="true", **attributes)


@dataclass(frozen=True)
class QueueDriver:
    """One queue."""

    client: "SQSClient"
    url: str

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def arn(self) -> str:
        return self.attribute("QueueArn")

    def attribute(self, name: Any) -> str:
        answer = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=[name])
        return str(answer["Attributes"][name])

    def set(self, **attributes: object) -> None:
        texts: Any = {name: str(value) for name, value in attributes.items()}
        self.client.set_queue_attributes(QueueUrl=self.url, Attributes=texts)

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of visible, in-flight and delayed messages."""
        kind = "ApproximateNumberOfMessages"
        visible = int(self.attribute(kind))
        in_flight = int(self.attribute(f"{kind}NotVisible"))
        delayed = int(self.attribute(f"{kind}Delayed"))
        return visible, in_flight, delayed

    def send(self, body: str = "x", **fields: Any) -> dict[str, Any]:
        return dict(self.client.send_message(QueueUrl=self.url, MessageBody=body, **fields))

    def send_fifo(
        self, body: str, group: str = "g", deduplication: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Send. The body is the default deduplication id."""
        key = deduplication if deduplication is not None else body
        return self.send(body, MessageGroupId=group, MessageDeduplicationId=key, **fields)

    def send_batch(self, *entries: Any) -> tuple[dict[str, str], dict[str, str]]:
        """Send entries, numbered from 0; return message ids and error codes by number."""
        numbered: Any = [{"Id": str(i), **entry} for i, entry in enumerate(entries)]
        answer = self.client.send_message_batch(QueueUrl=self.url, Entries=numbered)
        sent = {entry["Id"]: entry["MessageId"] for entry in answer.get("Successful", [])}
        return sent, {entry["Id"]: entry["Code"] for entry in answer.get("Failed", [])}

    def receive(self, count: int = 10, wait: int = 0, **fields: Any) -> list[Received]:
        answer = self.client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=count,
            WaitTimeSeconds=wait,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
            **fields,
        )
        return [dict(message) for message in answer.get("Messages", [])]

    def receive_one(self, wait: int = 0, **fields: Any) -> Received:
        """Receive the only message."""
        (message,) = self.receive(wait=wait, **fields)
        return message

    def bodies(self, count: int = 10, wait: int = 0, **fields: Any) -> list[str]:
        return [message["Body"] for message in self.receive(count, wait, **fields)]

    def delete(self, message: Received) -> None:
        self.client.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])

    def change(self, message: Received, seconds: int) -> None:
        """Set the visibility timeout of a received message."""
        handle = message["ReceiptHandle"]
        self.client.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=handle, VisibilityTimeout=seconds
        )

    def take(self, count: int = 10, wait: int = 0) -> list[str]:
        """Receive and delete once; return the bodies."""
        messages = self.receive(count, wait)
        for message in messages:
            self.delete(message)
        return [message["Body"] for message in messages]
