"""The baselines do what they stand for, on the server that measures them."""

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import boto3
import pytest

from benchmarks.replay import event, invoke, public_app
from benchmarks.rig import Rig, running_rig
from benchmarks.transfers import redrive_by_loop

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@pytest.fixture
def rig() -> Iterator[Rig]:
    with running_rig() as rig:
        rig.set_latency(0)
        yield rig


@pytest.fixture
def client(rig: Rig) -> "SQSClient":
    return boto3.client("sqs", endpoint_url=rig.url)


def test_the_public_app_s_way_is_one_send_an_invocation(rig: Rig, client: "SQSClient") -> None:
    url = client.create_queue(QueueName="main")["QueueUrl"]
    app = public_app(client, url, rate=0, cap_seconds=0, log=io.StringIO())
    with rig.watched() as watch:
        for number in (1, 2):
            invoke(app, event(range(number, number + 1)))
    received = client.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )["Messages"]

    assert watch.requests["SendMessage"] == 2
    assert watch.processor_seconds > 0
    counters = [raw["MessageAttributes"]["sqs-dlq-replay-nb"] for raw in received]
    assert [counter["StringValue"] for counter in counters] == ["3", "3"]


def test_the_loop_moves_all_in_three_requests_for_ten(rig: Rig, client: "SQSClient") -> None:
    source, target = (client.create_queue(QueueName=n)["QueueUrl"] for n in ("from", "to"))
    for first in range(0, 40, 10):
        numbers = range(first, first + 10)
        entries = [{"Id": str(n), "MessageBody": f"body {n}"} for n in numbers]
        client.send_message_batch(QueueUrl=source, Entries=entries)  # type: ignore[arg-type]
    with rig.watched() as watch:
        moved = redrive_by_loop(client, source, target, 40)

    assert moved == 40
    requests = {name: count for name, count in watch.requests.items() if count}
    assert requests == {"ReceiveMessage": 4, "SendMessageBatch": 4, "DeleteMessageBatch": 4}
    assert redrive_by_loop(client, source, target, 10) == 0
