"""A redrive observes the circuit breakers, in a real Spark session."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dlq_replay.addresses import QueueAddress
from dlq_replay.breaker import Update
from dlq_replay.breaker_table import DynamoDbBreakers
from spark_reprocess.clients import aws_client, queue_counts
from spark_reprocess.redrive import pace
from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.redrive.redrive_values import RedriveOptions
from tests.approved_plan import planned
from tests.failure_table import create_failure_table
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import archive_of, executed, parked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "failures-of-a-redrive"


@pytest.fixture
def dynamodb(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto_endpoint)
    client = aws_client("dynamodb")
    create_failure_table(client, TABLE)
    yield client
    client.delete_table(TableName=TABLE)


def test_messages_of_an_open_breaker_wait_for_it_and_the_others_do_not(
    spark: "SparkSession",
    make_queue: MakeQueue,
    tmp_path: Path,
    dynamodb: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pace, "READ_SECONDS", 0.2)
    destination = make_queue("main")
    name = QueueAddress.from_url(destination.url).name
    breakers = DynamoDbBreakers(dynamodb, TABLE, name, lambda: int(time.time()))
    breakers.register(["TimeoutError"], 7)
    now = int(time.time())
    breakers.update("TimeoutError", Update(put={"opened_at": now, "probe_at": now}))
    # The odd ones failed with a TimeoutError.
    archive = archive_of(tmp_path, [parked(n) for n in range(10)])
    plan = planned(archive)
    arrived_before: list[int] = []

    def arrived() -> int:
        counts = queue_counts(destination)
        return counts.visible if counts else 0

    def close_when_the_others_have_arrived() -> None:
        while arrived() < 5 and not is_over.wait(0.1):
            pass
        time.sleep(1)
        arrived_before.append(arrived())
        breakers.update("TimeoutError", Update(remove=frozenset({"opened_at"})))

    options = RedriveOptions(archive.root, plan, destination.url, failure_table=TABLE)
    noted = redrive(spark, options)
    is_over = threading.Event()
    closing = threading.Thread(target=close_when_the_others_have_arrived)
    closing.start()
    try:
        summary = executed(spark, archive, plan, destination.url, failure_table=TABLE)
    finally:
        is_over.set()
        closing.join()

    assert [note for note in noted.notes if "its circuit breaker is open since" in note]
    assert arrived_before == [5]
    assert (summary.count("sent"), arrived()) == (10, 10)


def test_a_table_that_is_not_there_slows_nothing_down(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path, dynamodb: Any
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(n) for n in range(4)])
    plan = planned(archive)

    summary = executed(spark, archive, plan, destination.url, failure_table="no-such-table")

    assert summary.count("sent") == 4
