"""The main queue's metric, as CloudWatch answers, or does not."""

from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from dlq_replay.aws.breaker_table import read_deletions

MINUTE = 29_000_000


@pytest.fixture
def client() -> Any:
    return boto3.client("cloudwatch", region_name="us-east-1")


def at(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)


def test_deletions_are_read_minute_by_minute(client: Any) -> None:
    expected = {
        "Namespace": "AWS/SQS",
        "MetricName": "NumberOfMessagesDeleted",
        "Dimensions": [{"Name": "QueueName", "Value": "orders"}],
        "StartTime": at(MINUTE),
        "EndTime": at(MINUTE + 3),
        "Period": 60,
        "Statistics": ["Sum"],
    }
    points = [{"Timestamp": at(MINUTE + 2), "Sum": 0.0}, {"Timestamp": at(MINUTE), "Sum": 7.0}]
    with Stubber(client) as stub:
        stub.add_response("get_metric_statistics", {"Datapoints": points}, expected)
        found = read_deletions(lambda: client, "orders", MINUTE * 60, (MINUTE + 3) * 60)

    assert found == {MINUTE: 7, MINUTE + 2: 0}


def test_a_metric_that_cannot_be_read_is_unknown(client: Any) -> None:
    with Stubber(client) as stub:
        stub.add_client_error("get_metric_statistics", "AccessDenied")
        assert read_deletions(lambda: client, "orders", 0, 60) == {}
