"""A redrive keeps to the limit that a circuit breaker set, in a real Spark session."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dlq_replay.breaker import Update
from dlq_replay.sqs import SqsQueue
from spark_reprocess.archive.plan_lock import LOCK
from spark_reprocess.clients import aws_client, breaker_table, queue_counts
from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.redrive.redrive_values import RedriveOptions, RedriveSummary
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
