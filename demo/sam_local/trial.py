"""Invokes the function with one event, and reads from the queues what it sent."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import boto3

from demo import ROOT
from demo.sam_local.engines import FUNCTION, Answer, Engine

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

QUEUE_VARIABLES = ("MAIN_QUEUE_URL", "DLQ_URL", "PARKED_QUEUE_URL")
_REGION = "us-east-1"

EVENTS = ROOT / "events"


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
        """Receive, delete and return the visible messages of the queues."""
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an event: the function's answer, and the messages that it sent."""

    event: str
    answer: Answer
    arrivals: tuple[Arrival, ...]

    def arrived_in(self, queue: str) -> list[Arrival]:
        """Return the messages in ``main``, ``dlq`` or ``parked``."""
        return [one for one in self.arrivals if one.queue == queue]


def event_names() -> list[str]:
    """Return the names of the events: the files without ``.json``."""
    return sorted(path.stem for path in EVENTS.glob("*.json") if not path.stem.startswith("env"))


def try_event(name: str, engine: Engine, server: str) -> Outcome:
    """Invoke the function with an event, on empty queues of the server at the URL *server*.

    A cap of 0 s makes every replay arrive at once.

    Raises:
        DemoError: the function did not answer, or with an error.
    """
    environment = _environment(name)
    queues = LocalQueues(server, environment)
    queues.take()
    endpoint = {"AWS_ENDPOINT_URL": server.replace(engine.server_host, engine.host_seen)}
    variables = {**environment, **endpoint, "BACKOFF_CAP_SECONDS": "0"}
    answer = engine.invoke(EVENTS / f"{name}.json", variables)
    return Outcome(name, answer, tuple(queues.take()))


def _environment(name: str) -> Mapping[str, str]:
    is_fifo = name.startswith("fifo")
    text = (EVENTS / ("env-fifo.json" if is_fifo else "env.json")).read_text(encoding="utf-8")
    variables: Mapping[str, str] = json.loads(text)[FUNCTION]
    return variables
