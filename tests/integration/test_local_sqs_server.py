"""The server: what only a socket and another process can show."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError

from dlq_replay.aws.breaker_table import read_deletions
from dlq_replay.aws.tagged_queues import list_tagged_queues
from local_sqs.server import RunningServer, serve_in_thread
from tests.support.sqs_driver import Driver


@pytest.fixture
def served() -> Iterator[RunningServer]:
    with serve_in_thread() as server:
        yield server


def driver_for(url: str, **config: Any) -> Driver:
    options = {"retries": {"total_max_attempts": 1}, **config}
    return Driver(boto3.client("sqs", endpoint_url=url, config=Config(**options)))


def test_poll_of_a_vanished_client_takes_nothing(served: RunningServer) -> None:
    impatient = driver_for(served.url, read_timeout=0.2)
    queue = impatient.queue()
    with pytest.raises(ReadTimeoutError):
        queue.receive(wait=20)
    impatient.client.close()
    served.wait_for_disconnects()
    sqs = driver_for(served.url)
    sqs.client.send_message(QueueUrl=queue.url, MessageBody="x")

    assert len(sqs.queue(queue.name).receive()) == 1


def test_the_server_says_for_cloudwatch_how_many_messages_were_deleted(
    served: RunningServer,
) -> None:
    queue = driver_for(served.url).queue()
    for _ in range(3):
        queue.send()
    for received in queue.receive(count=3):
        queue.delete(received)
    now = int(time.time())

    def deletions(name: str) -> Mapping[int, int]:
        return read_deletions(metric_client, name, now - 600, now + 60)

    def metric_client() -> Any:
        return boto3.client("cloudwatch", endpoint_url=served.url)

    counts = deletions(queue.name)
    assert sum(counts.values()) == 3
    assert set(counts) <= {now // 60 - 1, now // 60}
    assert deletions("of-another-account") == {}


def test_the_server_answers_which_queues_carry_a_tag(served: RunningServer) -> None:
    """Page by page, for the Resource Groups Tagging API."""
    sqs = driver_for(served.url)
    tagged = [sqs.queue(f"orders-{number:03d}") for number in range(150)]
    for queue in tagged:
        sqs.client.tag_queue(QueueUrl=queue.url, Tags={"dlq-replay": "all", "team": "shop"})
    other = sqs.queue("invoices")
    sqs.client.tag_queue(QueueUrl=other.url, Tags={"dlq-replay": "others"})
    sqs.client.untag_queue(QueueUrl=tagged[7].url, TagKeys=["dlq-replay"])
    tagging = boto3.client("resourcegroupstaggingapi", endpoint_url=served.url)

    names = {queue.name for queue in list_tagged_queues(tagging, "all")}

    assert names == {queue.name for queue in tagged} - {tagged[7].name}
    assert sqs.client.list_queue_tags(QueueUrl=tagged[7].url)["Tags"] == {"team": "shop"}
