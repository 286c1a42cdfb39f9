from typing import TYPE_CHECKING, cast

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from moto import mock_aws

from dlq.cli.verbs.run import publish_pending
from dlq.scheduled_run import Pending

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient


class Unreachable:
    def put_metric_data(self, **_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://monitoring.example")


def test_both_metrics_are_published_under_the_queue_s_name_also_where_they_are_0() -> None:
    with mock_aws():
        client = boto3.client("cloudwatch")

        publish_pending(client, "MainQueue", "orders", Pending(0, 0))

        metrics = client.list_metrics(Namespace="DlqReplay")["Metrics"]
        names = {metric["MetricName"] for metric in metrics}
        assert names == {"PendingMessages", "OldestPendingSeconds"}
        for metric in metrics:
            dimensions = {each["Name"]: each["Value"] for each in metric["Dimensions"]}
            assert dimensions == {"service": "sqs-dlq-replay", "MainQueue": "orders"}


def test_a_metric_that_cannot_be_published_is_no_reason_to_fail(
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish_pending(cast("CloudWatchClient", Unreachable()), "QueueTag", "all", Pending(1, 1))

    assert "not published" in capsys.readouterr().err
