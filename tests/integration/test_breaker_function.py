"""The handler with its circuit breaker, against servers for SQS and DynamoDB."""

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.config import Config

from dlq_replay.failure_table import FailureTable
from dlq_replay.failures import Failure
from dlq_replay.message import Message
from dlq_replay.sqs import SqsQueue
from functions.replay import handler
from local_sqs.server import serve_in_thread
from tests.builders import environment, lambda_record, message
from tests.failure_table import create_failure_table

ERROR = "orders.TimeoutError"


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 30_000


@dataclass(frozen=True)
class World:
    main: SqsQueue
    dlq: SqsQueue
    failures: FailureTable
    dynamodb: Any

    def item(self, name: str) -> dict[str, Any]:
        key = {"message_id": {"S": f"breaker#{self.main.url.rpartition('/')[2]}{name}"}}
        answer = self.dynamodb.get_item(TableName=self.failures.table_name, Key=key)
        return dict(answer.get("Item", {}))


@pytest.fixture
def world(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    unique = uuid.uuid4().hex[:8]
    dynamodb = boto3.client("dynamodb", endpoint_url=moto_endpoint)
    create_failure_table(dynamodb, f"failures-{unique}")
    with serve_in_thread() as served:
        client = boto3.client("sqs", endpoint_url=served.url)
        urls = {
            role: client.create_queue(QueueName=f"{role}-{unique}")["QueueUrl"]
            for role in ("main", "dlq", "parked")
        }
        variables = environment(
            MAIN_QUEUE_URL=urls["main"],
            DLQ_URL=urls["dlq"],
            PARKED_QUEUE_URL=urls["parked"],
            BACKOFF_CAP_SECONDS="0",
            AWS_ENDPOINT_URL_SQS=served.url,
            AWS_ENDPOINT_URL=moto_endpoint,
            FAILURE_TABLE=f"failures-{unique}",
        )
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        # The servers of the tests are slower than AWS's.
        monkeypatch.setattr(handler, "breaker_client_config", lambda: Config(read_timeout=20))
        handler.wiring.cache_clear()
        failures = FailureTable(dynamodb, f"failures-{unique}")
        main, dlq = (SqsQueue(client, urls[role]) for role in ("main", "dlq"))
        yield World(main, dlq, failures, dynamodb)
        handler.wiring.cache_clear()


def invoke(letters: list[Message]) -> None:
    event = {"Records": [lambda_record(letter) for letter in letters]}
    assert handler.lambda_handler(event, Context()) == {"batchItemFailures": []}


def receive_all(queue: SqsQueue) -> list[Message]:
    found: list[Message] = []
    while batch := [m for m in queue.receive(wait_seconds=0) if isinstance(m, Message)]:
        found.extend(batch)
        queue.delete(batch)
    return found


def test_breaker_opens_in_the_table_and_holds_what_comes_next(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = [message(f"m-{index}", f"body-{index}") for index in range(30)]
    world.failures.record([Failure(one.message_id, ERROR) for one in letters])
    invoke(letters)
    returned = receive_all(world.main)
    assert len(returned) == 30
    world.failures.record([Failure(one.message_id, ERROR) for one in returned])
    time.sleep(1)
    invoke(returned)

    item = world.item(f"#{ERROR}")
    assert item["v"] == {"N": "1"}
    assert "opened_at" in item
    assert world.item("")["types"] == {"SS": [ERROR]}

    receive_all(world.main)
    world.failures.record([Failure("probe", ERROR), Failure("late", ERROR)])
    invoke([message("probe", "probe"), message("late", "late"), message("healthy", "healthy")])
    assert {one.body for one in receive_all(world.main)} == {"probe", "healthy"}
    (probe,) = [name for name in world.item(f"#{ERROR}") if name[0] == "p" and name[1:].isdigit()]
    assert int(probe[1:]) <= time.time() + 1
    emf = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (emf["CircuitBreakersOpen"], emf["HeldByBreaker"]) == ([1.0], [1.0])
