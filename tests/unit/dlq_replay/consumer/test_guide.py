"""The examples of docs/consumer.md, run as they stand."""

import re
from pathlib import Path
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from dlq_replay.wire.message import Message
from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.front import Front
from local_sqs.model import SqsModel
from tests.support.builders import lambda_record, message
from tests.support.failure_table import FakeFailureTable
from tests.support.sqs_driver import Driver

GUIDE = Path(__file__).parents[4] / "docs" / "consumer.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
WHOLE, POLLER, IDEMPOTENCY, REQUEST_ID = EXAMPLES


def run(example: str, **names: Any) -> dict[str, Any]:
    exec(compile(example, str(GUIDE), "exec"), names)  # noqa: S102 - our own text
    return names


def world() -> tuple[Front, Any]:
    front = Front.of(SqsModel(VirtualClock()))
    return front, client_for(front)


def test_whole_kit_stands_around_a_batch_of_powertools(table: FakeFailureTable) -> None:
    front, client = world()
    queue = Driver(client).queue()
    queue.send("good")
    queue.send("bad")
    done: list[str] = []

    def work(record: SQSRecord) -> None:
        if record.body == "bad":
            raise ZeroDivisionError
        done.append(record.body)

    names = run(
        WHOLE,
        sqs=client,
        QUEUE_URL=queue.url,
        work=work,
        BatchProcessor=BatchProcessor,
        EventType=EventType,
        process_partial_response=process_partial_response,
    )
    names["recorder"].write = table.record
    # The table of processed messages is DynamoDB's, which has its tests in tests/integration.
    names["record_handler"] = work
    received = queue.receive()
    records = [lambda_record(Message.from_received(raw), queue=queue.name) for raw in received]

    answer = names["lambda_handler"]({"Records": records}, LambdaContext())

    bad = next(raw["MessageId"] for raw in received if raw["Body"] == "bad")
    assert answer == {"batchItemFailures": [{"itemIdentifier": bad}]}
    assert done == ["good"]
    assert table.ids == [[bad]]
    assert front.log.count("ChangeMessageVisibilityBatch") == 1


def test_poller_deletes_what_it_worked_on() -> None:
    _, client = world()
    queue = Driver(client).queue()
    queue.send("order")
    names = run(POLLER)
    names["sqs"] = client
    bodies = []

    def work(message: Any, check: Any) -> None:
        check()
        bodies.append(message["Body"])

    names["consume"](queue.url, work)

    assert bodies == ["order"]
    assert queue.counts() == (0, 0, 0)


@pytest.mark.parametrize("example", [IDEMPOTENCY, REQUEST_ID])
def test_idempotent_handler_is_made_without_a_client(example: str) -> None:
    assert callable(run(example)["record_handler"])


def test_request_id_is_read_from_a_record() -> None:
    record = lambda_record(message("m", body='{"request_id": "r-1"}'))

    assert run(REQUEST_ID)["request_id"](record) == "r-1"


@pytest.mark.parametrize("example", EXAMPLES)
def test_adoption_takes_few_lines(example: str) -> None:
    assert len([line for line in example.splitlines() if line.strip()]) < 10
