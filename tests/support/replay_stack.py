"""The replay function between three queues of a served SQS."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.aws.wiring import wiring
from dlq_replay.wire.message import Message, SendEntry
from functions.replay import handler
from tests.support.builders import environment, lambda_record, message, queue_arn
from tests.support.sqs_driver import receive_all


@dataclass(frozen=True)
class Invocation:
    """Lambda's context object."""

    milliseconds: int = 30_000

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


@dataclass(frozen=True)
class ReplayStack:
    """Queues that no other test knows, and the environment of a function between them."""

    main: SqsQueue
    dlq: SqsQueue
    parked: SqsQueue
    environment: dict[str, str]

    @classmethod
    def at(cls, url: str, suffix: str = "", **variables: str) -> "ReplayStack":
        """Create the queues on the server at *url*; FIFO queues with the suffix ``.fifo``."""
        client = boto3.client("sqs", endpoint_url=url)
        unique = uuid.uuid4().hex[:8]
        fields: dict[str, Any] = {"Attributes": {"FifoQueue": "true"}} if suffix else {}

        def create(role: str) -> SqsQueue:
            queue = client.create_queue(QueueName=f"{role}-{unique}{suffix}", **fields)
            return SqsQueue(client, queue["QueueUrl"])

        main = create("main")
        dlq = create("dlq")
        parked = create("parked")
        urls = {"MAIN_QUEUE_URL": main.url, "DLQ_URL": dlq.url, "PARKED_QUEUE_URL": parked.url}
        given = {"BACKOFF_CAP_SECONDS": "0", "AWS_ENDPOINT_URL": url, **urls, **variables}
        return cls(main, dlq, parked, environment(**given))

    @contextmanager
    def wired(self) -> Iterator["ReplayStack"]:
        """Give the handler of this process the environment, until the block ends."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            wiring.cache_clear()
            yield self
            wiring.cache_clear()

    def put_in_dlq(self, *entries: SendEntry) -> list[Message]:
        """Send to the DLQ and receive: the copies are no longer there."""
        self.dlq.send(entries)
        return receive_all(self.dlq)


def invoke(*letters: Message, context: Any = Invocation()) -> set[str]:
    """Call the handler as Lambda does; the ids that it wants to keep."""
    event = {"Records": [lambda_record(letter) for letter in letters]}
    answer = handler.lambda_handler(event, context)
    return {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}


def moved(name: str, **given: Any) -> Message:
    """A dead letter of the main queue of the handler's environment."""
    main = queue_arn(os.environ["MAIN_QUEUE_URL"].rpartition("/")[2])
    return message(name, name, DeadLetterQueueSourceArn=main, **given)
