"""What a write of the ``sqs`` format promises when SQS does not cooperate; tasks without Spark."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import boto3
import pyarrow as pa
import pytest

from dlq_replay.sqs import SqsQueue
from local_sqs.faults import Effect, Fault
from local_sqs.server import RunningServer, serve_in_thread
from spark_reprocess.clients import sqs_client
from spark_reprocess.sql.options import SendOptions
from spark_reprocess.sql.writer import SinkError, SqsWriter
from tests.integration.spark_world import bodies, receive_all

pytestmark = pytest.mark.usefixtures("quick_retries")

SEND = "SendMessageBatch"
ROWS = [f"body {number}" for number in range(60)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:
    with serve_in_thread() as world:
        monkeypatch.setenv("AWS_ENDPOINT_URL", world.url)
        yield world


@pytest.fixture
def queue(world: RunningServer) -> SqsQueue:
    client = boto3.client("sqs", endpoint_url=world.url)
    return SqsQueue(client, client.create_queue(QueueName="main")["QueueUrl"])


def write(url: str, *tasks: list[str]) -> None:
    """As Spark does: each task writes its partition, then the driver commits."""
    writer = SqsWriter(SendOptions(url), sqs_client)
    parts = [pa.RecordBatch.from_pydict({"body": bodies}) for bodies in tasks]
    writer.commit([writer.write(iter([part])) for part in parts])


def test_throttling_and_partial_failures_delay_and_lose_nothing(
    world: RunningServer, queue: SqsQueue
) -> None:
    world.front.faults.add(
        Fault(Effect.THROTTLE, SEND, every=3),
        Fault(Effect.FAIL_ENTRIES, SEND, nth=2, entries=(0, 3)),
    )

    write(queue.url, ROWS[:30], ROWS[30:])

    assert Counter(bodies(receive_all(queue))) == Counter(ROWS)


def test_lost_answer_may_bring_rows_twice_and_never_loses_one(
    world: RunningServer, queue: SqsQueue
) -> None:
    world.front.faults.add(Fault(Effect.LOSE, SEND, nth=2))

    write(queue.url, ROWS)

    arrived = Counter(bodies(receive_all(queue)))
    assert set(arrived) == set(ROWS)
    assert (arrived - Counter(ROWS)).total() == 10


def test_rows_that_stay_refused_are_counted_with_the_reason(
    world: RunningServer, queue: SqsQueue
) -> None:
    world.front.faults.add(Fault(Effect.FAIL_ENTRIES, SEND, entries=(0,), code="InvalidThing"))

    with pytest.raises(SinkError) as caught:
        write(queue.url, ROWS[:10], ["", *ROWS[10:19]])

    assert str(caught.value).splitlines() == [
        f"{queue.url}: 3 rows were not sent, 17 were; send only what failed again:",
        "  2 rows: InvalidThing",
        "  1 rows: body: is null or empty; SQS takes 1 character or more",
    ]
    assert len(receive_all(queue)) == 17


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ({"effect": Effect.THROTTLE}, "RequestThrottled"),
        ({"effect": Effect.REFUSE, "code": "AccessDenied"}, "AccessDenied"),
        ({"effect": Effect.REFUSE, "code": "ExpiredToken"}, "ExpiredToken"),
    ],
)
def test_call_that_stays_refused_is_named(
    world: RunningServer, queue: SqsQueue, fault: dict[str, Any], name: str
) -> None:
    world.front.faults.add(Fault(operation=SEND, **fault))

    with pytest.raises(SinkError, match=rf"10 rows were not sent.*, 0 were(.|\n)*{name}"):
        write(queue.url, ROWS[:10])
    assert receive_all(queue) == []


def test_rows_without_an_answer_are_said_to_be_in_doubt(
    world: RunningServer, queue: SqsQueue
) -> None:
    world.front.faults.add(Fault(Effect.LOSE, SEND))

    with pytest.raises(SinkError) as caught:
        write(queue.url, ROWS[:10])

    head, reason = str(caught.value).splitlines()
    assert "10 rows were not sent (10 of them may have arrived: no answer came), 0 were" in head
    assert "ConnectionClosedError" in reason
    assert set(bodies(receive_all(queue))) == set(ROWS[:10])
