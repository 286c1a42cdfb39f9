"""The replay function's handler between three queues of a server."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from dlq_replay.message import Message, SendEntry
from dlq_replay.sqs import SqsQueue
from functions.replay import handler
from tests.support.builders import environment, lambda_record

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@dataclass(frozen=True)
class FunctionContext:
    """Lambda's context object."""

    milliseconds: int = 30_000

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


@dataclass(frozen=True)
class FunctionWorld:
    main: SqsQueue
    dlq: SqsQueue
    parked: SqsQueue

    def put_in_dlq(self, *entries: SendEntry) -> list[Message]:
        self.dlq.send(entries)
        return receive_all(self.dlq)


def function_world(
    client: "SQSClient", monkeypatch: pytest.MonkeyPatch, suffix: str = "", **variables: str
) -> FunctionWorld:
    """Make the queues, whose names end with *suffix*, and the function's environment."""
    fields: dict[str, Any] = {"Attributes": {"FifoQueue": "true"}} if ".fifo" in suffix else {}
    urls = {
        role: client.create_queue(QueueName=role + suffix, **fields)["QueueUrl"]
        for role in ("main", "dlq", "parked")
    }
    known = environment(
        MAIN_QUEUE_URL=urls["main"],
        DLQ_URL=urls["dlq"],
        PARKED_QUEUE_URL=urls["parked"],
        BACKOFF_CAP_SECONDS="0",
    )
    for name, value in {**known, **variables}.items():
        monkeypatch.setenv(name, value)
    handler.wiring.cache_clear()
    return FunctionWorld(**{role: SqsQueue(client, url) for role, url in urls.items()})


def receive_all(queue: SqsQueue) -> list[Message]:
    found: list[Message] = []
    while batch := [m for m in queue.receive(wait_seconds=0) if isinstance(m, Message)]:
        found.extend(batch)
        queue.delete(batch)
    return found


def invoke(*letters: Message, context: Any = None) -> set[str]:
    """Call the handler as Lambda does; the ids that it wants to keep."""
    event = {"Records": [lambda_record(letter) for letter in letters]}
    answer = handler.lambda_handler(event, context or FunctionContext())
    return {item["itemIdentifier"] for item in answer["batchItemFailures"]}
