"""Three queues on a server of this machine, named as the events' environments name them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import boto3

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

QUEUE_VARIABLES = ("MAIN_QUEUE_URL", "DLQ_URL", "PARKED_QUEUE_URL")
_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message that the function sent; *queue* is main, dlq or parked, without ``.fifo``."""

    queue: str
    body: str
    attributes: Mapping[str, Mapping[str, Any]]
    message_group_id: str | None


class LocalQueues:
    """The queues of one environment."""

    def __init__(self, endpoint_url: str, environment: Mapping[str, str]) -> None:
        self._client: SQSClient = boto3.client(
            "sqs",
            endpoint_url=endpoint_url,
            region_name=_REGION,
            aws_access_key_id="local",
            aws_secret_access_key="local",  # noqa: S106 - the server asks for none
        )
        self._urls = {
            _name(environment[variable]): self._create(_name(environment[variable]))
            for variable in QUEUE_VARIABLES
        }

    def take(self) -> list[Arrival]:
        """Return what is visible in the queues and delete it."""
        return [
            _arrival(name, message)
            for name, url in self._urls.items()
            for message in self._take_from(url)
        ]

    def _create(self, name: str) -> str:
        attributes = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        answer = self._client.create_queue(QueueName=name, Attributes=attributes)  # type: ignore[arg-type]
        return answer["QueueUrl"]

    def _take_from(self, url: str) -> list[Mapping[str, Any]]:
        taken: list[Mapping[str, Any]] = []
        while messages := self._receive(url):
            taken += messages
            for message in messages:
                self._client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return taken

    def _receive(self, url: str) -> list[Mapping[str, Any]]:
        answer = self._client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        return list(answer.get("Messages", []))


def _name(queue_url: str) -> str:
    return PurePosixPath(queue_url).name


def _arrival(queue: str, message: Mapping[str, Any]) -> Arrival:
    return Arrival(
        queue=queue.removesuffix(".fifo"),
        body=message["Body"],
        attributes=message.get("MessageAttributes", {}),
        message_group_id=message.get("Attributes", {}).get("MessageGroupId"),
    )
