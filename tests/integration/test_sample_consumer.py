"""The example that consumers copy, whole: SQS and DynamoDB over HTTP, deliveries as Lambda's."""

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from aws_lambda_powertools.utilities.typing import LambdaContext

from demo.functions import cold_start
from dlq_replay.aws.failure_table import FailureTable, table_client_config
from dlq_replay.rules.failures import Failure
from dlq_replay.wire.message import Message
from local_sqs.server import RunningServer, serve_in_thread
from tests.support.builders import lambda_record
from tests.support.failure_table import create_table
from tests.support.sqs_driver import Driver, QueueDriver, Received

_numbers = itertools.count(1)
EXTEND = "ChangeMessageVisibilityBatch"


@dataclass
class Consumer:
    """The function behind its queue, with work that fails where it is told to.

    Attributes:
        trouble: what the work raises, by body; once each where it is a list.
        worked: bodies whose work was finished, in order.
    """

    handler: Any
    queue: QueueDriver
    dynamodb: Any
    trouble: dict[str, BaseException] = field(default_factory=dict)
    worked: list[str] = field(default_factory=list)

    def work(self, record: Any) -> None:
        if error := self.trouble.get(record.body):
            raise error
        self.worked.append(record.body)

    def poll(self) -> list[str]:
        """Deliver what is there, as Lambda does; the bodies of what failed."""
        return self.deliver(self.queue.receive())

    def deliver(self, received: list[Received]) -> list[str]:
        failed = self.invoke(received)
        for raw in received:
            if raw["MessageId"] not in failed:
                self.queue.delete(raw)
        return [raw["Body"] for raw in received if raw["MessageId"] in failed]

    def invoke(self, received: list[Received]) -> set[str]:
        """Call the function and delete nothing; the ids of what failed."""
        records = [lambda_record(Message.from_received(raw), self.queue.name) for raw in received]
        answer = self.handler.lambda_handler({"Records": records}, LambdaContext())
        return {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}

    def reason(self, message_id: str) -> Failure:
        """Why a message failed, as it was recorded."""
        table = FailureTable(self.dynamodb, os.environ["FAILURE_TABLE"])
        return table.find([message_id])[0][message_id]


@pytest.fixture
def world() -> Iterator[RunningServer]:
    with serve_in_thread() as served:
        yield served


@pytest.fixture
def make_consumer(
    world: RunningServer, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Consumer]:
    dynamodb: Any = boto3.client(
        "dynamodb", endpoint_url=moto_endpoint, config=table_client_config()
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", world.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto_endpoint)

    def make(name: str = "orders", **attributes: object) -> Consumer:
        queue = Driver(boto3.client("sqs")).queue(name, **attributes)
        unique = f"{queue.name.removesuffix('.fifo')}-{next(_numbers)}"
        tables = {"PROCESSED_TABLE": "id", "FAILURE_TABLE": "message_id"}
        for variable, key in tables.items():
            table = f"{unique}-{variable}"
            create_table(dynamodb, table, key)
            monkeypatch.setenv(variable, table)
        monkeypatch.setenv("QUEUE_URL", queue.url)
        consumer = Consumer(cold_start("sample_consumer"), queue, dynamodb)
        consumer.handler.work = consumer.work
        return consumer

    return make


MakeConsumer = Callable[..., Consumer]


def test_batch_is_hidden_by_one_call_and_released_by_none_when_all_goes_well(
    make_consumer: MakeConsumer, world: RunningServer
) -> None:
    consumer = make_consumer()
    for number in range(10):
        consumer.queue.send(str(number))

    assert consumer.poll() == []
    assert [record.entry_count for record in world.front.log.records(EXTEND)] == [10]


def test_failure_is_recorded_and_its_message_comes_again_at_once(
    make_consumer: MakeConsumer,
) -> None:
    consumer = make_consumer()
    consumer.trouble["bad"] = TimeoutError("payments did not answer in 2000 ms")
    message_id = consumer.queue.send("bad")["MessageId"]
    consumer.queue.send("good")

    assert consumer.poll() == ["bad"]
    assert consumer.worked == ["good"]
    failure = consumer.reason(message_id)
    assert (failure.error_type, failure.error_message) == (
        "TimeoutError",
        "payments did not answer in <n>",
    )
    consumer.trouble.clear()
    assert consumer.poll() == []
    assert consumer.worked == ["good", "bad"]


def test_reasons_are_written_before_anyone_can_receive_what_failed(
    make_consumer: MakeConsumer,
) -> None:
    consumer = make_consumer()
    counts: list[int] = []

    consumer.handler.recorder.write = lambda _: counts.append(len(consumer.queue.receive()))
    consumer.trouble["bad"] = ZeroDivisionError()
    consumer.queue.send("bad")

    assert consumer.poll() == ["bad"]
    assert counts == [0]
    assert len(consumer.queue.receive()) == 1


def test_fifo_group_stops_at_its_failure_and_comes_again_in_its_order(
    make_consumer: MakeConsumer,
) -> None:
    consumer = make_consumer("orders.fifo")
    consumer.trouble["a2"] = ZeroDivisionError()
    for body in ("a1", "a2", "a3", "b1"):
        consumer.queue.send_fifo(body, group=body[0])

    received = consumer.queue.receive()
    assert consumer.deliver(received) == ["a2", "a3"]
    assert consumer.worked == ["a1", "b1"]
    reasons = {raw["Body"]: consumer.reason(raw["MessageId"]).error_type for raw in received[1:3]}
    assert reasons["a2"] == "ZeroDivisionError"
    assert reasons["a3"].endswith("BehindFailureError")

    consumer.trouble.clear()
    assert consumer.poll() == []
    assert consumer.worked == ["a1", "b1", "a2", "a3"]


def test_missing_table_of_processed_messages_fails_each_before_its_work_and_is_recorded(
    make_consumer: MakeConsumer,
) -> None:
    consumer = make_consumer()
    consumer.dynamodb.delete_table(TableName=os.environ["PROCESSED_TABLE"])
    message_id = consumer.queue.send("order")["MessageId"]

    assert consumer.poll() == ["order"]
    assert consumer.worked == []
    assert consumer.reason(message_id).matches(["IdempotencyPersistenceLayerError"])
