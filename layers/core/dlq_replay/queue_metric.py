"""How many messages the main queue deleted, as CloudWatch says. An adapter; it never raises."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError


class CloudWatchClient(Protocol):
    """The part of boto3's CloudWatch client that is used here."""

    def get_metric_statistics(self, **request: object) -> Mapping[str, Any]:
        """Read one statistic of one metric, period by period."""


def metric_client_config() -> Config:
    """Timeouts of the client: without an answer there is no breaker, and a minute later a try."""
    return Config(
        connect_timeout=0.3,
        read_timeout=0.3,
        retries={"mode": "standard", "total_max_attempts": 1},
    )


def read_deletions(
    make_client: Callable[[], CloudWatchClient],
    queue: str,
    start_seconds: int,
    end_seconds: int,
    minute_seconds: int = 60,
) -> Mapping[int, int]:
    """Messages that *queue* deleted, by minute; empty where the metric cannot be read.

    So it is, too, where CloudWatch has none of this queue: that of another account. A minute that
    SQS did not publish is left out. *make_client* is called for each read: few environments ever
    need this client.
    """
    try:
        answer = make_client().get_metric_statistics(
            Namespace="AWS/SQS",
            MetricName="NumberOfMessagesDeleted",
            Dimensions=[{"Name": "QueueName", "Value": queue}],
            StartTime=datetime.fromtimestamp(start_seconds, UTC),
            EndTime=datetime.fromtimestamp(end_seconds, UTC),
            Period=minute_seconds,
            Statistics=["Sum"],
        )
    except (BotoCoreError, ClientError, RuntimeError):
        return {}
    return {
        int(point["Timestamp"].timestamp()) // minute_seconds: round(point["Sum"])
        for point in answer["Datapoints"]
    }
