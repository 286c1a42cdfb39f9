"""A redrive keeps to the limit of the circuit breaker, in a real Spark session."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dlq_replay.addresses import QueueAddress
from dlq_replay.breaker import Update
from dlq_replay.breaker_table import DynamoDbBreaker
from spark_reprocess.clients import aws_client, queue_counts
from spark_reprocess.redrive.breaker_gate import WAITING
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


def limited(dynamodb: Any, queue_url: str, per_minute: int) -> DynamoDbBreaker:
    name = QueueAddress.from_url(queue_url).name
    breaker = DynamoDbBreaker(dynamodb, TABLE, name, lambda: int(time.time()))
    breaker.update(Update(put={"limit": per_minute, "since": int(time.time())}))
    return breaker


def test_under_a_limit_of_1_nothing_is_sent_and_the_plan_is_free(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path, dynamodb: Any
) -> None:
    destination = make_queue("main")
    breaker = limited(dynamodb, destination.url, 1)
    archive = archive_of(tmp_path, [parked(n) for n in range(10)])
    plan = planned(archive)

    options = RedriveOptions(archive.root, plan, destination.url, failure_table=TABLE)
    noted = redrive(spark, options)
    summary = executed(spark, archive, plan, destination.url, failure_table=TABLE)

    assert any("limited to 1 replay a minute" in note for note in noted.notes)
    assert summary.stopped_by.startswith(f"{WAITING}: limited to 1 replay a minute")
    assert (summary.count("not_reached"), summary.count("sent")) == (10, 0)

    breaker.update(Update(remove=frozenset({"limit", "since"})))
    again = executed(spark, archive, plan, destination.url, failure_table=TABLE)
    counts = queue_counts(destination)
    assert (again.count("sent"), counts and counts.visible) == (10, 10)


def test_the_limit_of_one_destination_holds_up_no_other(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path, dynamodb: Any
) -> None:
    destination = make_queue("main")
    limited(dynamodb, make_queue("other").url, 1)
    archive = archive_of(tmp_path, [parked(n) for n in range(4)])

    summary = executed(spark, archive, planned(archive), destination.url, failure_table=TABLE)

    assert summary.count("sent") == 4


def test_a_table_that_is_not_there_slows_nothing_down(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path, dynamodb: Any
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(n) for n in range(4)])
    plan = planned(archive)

    summary = executed(spark, archive, plan, destination.url, failure_table="no-such-table")

    assert summary.count("sent") == 4
