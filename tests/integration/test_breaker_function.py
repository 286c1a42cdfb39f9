"""The handler with breaker and counters of returns, against servers for SQS and DynamoDB."""

import json
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.config import Config

from dlq_replay.failure_table import FailureTable
from dlq_replay.message import Message
from dlq_replay.outgoing import redriven_entry
from dlq_replay.returns import Returns
from dlq_replay.returns_table import ReturnsTable
from dlq_replay.sqs import SqsQueue
from functions.replay import handler
from local_sqs.server import serve_in_thread
from tests.support.builders import environment, lambda_record, message, queue_arn
from tests.support.failure_table import create_failure_table


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 30_000


@dataclass(frozen=True)
class World:
    main: SqsQueue
    dlq: SqsQueue
    parked: SqsQueue
    failures: FailureTable
    dynamodb: Any

    def item(self) -> dict[str, Any]:
        key = {"message_id": {"S": f"breaker#{self.main.url.rpartition('/')[2]}"}}
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
        main, dlq, parked = (SqsQueue(client, url) for url in urls.values())
        yield World(main, dlq, parked, failures, dynamodb)
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


def test_a_limit_in_the_table_holds_what_comes_next(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is deleted by anybody, and 30 replays come back."""
    silent = dict.fromkeys(range(int(time.time()) // 60 - 9, int(time.time()) // 60), 0)
    monkeypatch.setattr(handler, "read_deletions", lambda *_: silent)
    letters = [moved(f"m-{index}") for index in range(30)]
    invoke(letters)
    returned = receive_all(world.main)
    assert len(returned) == 30
    time.sleep(1)
    invoke([moved(one.body, attributes=one.attributes) for one in returned])

    item = {name: value["N"] for name, value in world.item().items() if "N" in value}
    assert item["limit"] == "1"
    assert {item[name] for name in item if name[0] in "nb" and name[1:].isdigit()} == {"30"}

    receive_all(world.main)
    invoke([moved("one"), moved("two")])
    assert len(receive_all(world.main)) == 1
    emf = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (emf["CircuitBreakersOpen"], emf["HeldByBreaker"]) == ([1.0], [1.0])


def test_what_comes_back_of_a_redrive_is_counted_and_a_canary_goes_no_further(
    world: World,
) -> None:
    table = ReturnsTable(world.dynamodb, world.failures.table_name, lambda: int(time.time()))
    table.begin("plan", ["group"])
    archived = [message(name, name) for name in ("plain", "canary")]
    sent = [
        redriven_entry(one, "plan", to_fifo=False, group_id="group", is_canary=one.body == "canary")
        for one in archived
    ]
    invoke([moved(copy.body, attributes=copy.attributes) for copy in sent])

    [replayed], [parked] = receive_all(world.main), receive_all(world.parked)
    assert (replayed.body, replayed.history.context.is_back) == ("plain", True)
    assert (parked.body, parked.history.context.reason) == ("canary", "redrive_step")
    both, canary = frozenset({"plain", "canary"}), frozenset({"canary"})
    assert table.read("plan", ["group"]) == {"group": Returns(2, 1, both, canary)}


def moved(name: str, **given: Any) -> Message:
    """A dead letter of the main queue."""
    main = queue_arn(os.environ["MAIN_QUEUE_URL"].rpartition("/")[2])
    return message(name, name, DeadLetterQueueSourceArn=main, **given)
