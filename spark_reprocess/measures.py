"""What a scheduled run tells CloudWatch: how much is left for a human to decide."""

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    SERVICE,
    SERVICE_DIMENSION,
    Metric,
)

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient


def publish_undecided(
    client: "CloudWatchClient", main_queue_name: str, messages: int, oldest_seconds: int
) -> str | None:
    """Publish how many messages of the archive nobody has decided about, 0 included.

    An alarm keeps the state that the last value gave it, so a run that leaves nothing undecided
    has to say so. What cannot be published is no reason for a run to fail: nothing depends on it
    but the alarm.

    Args:
        client: of the Region whose alarms are meant.
        main_queue_name: the queue's name, the dimension of all metrics.
        messages: how many, at least 0.
        oldest_seconds: how long the oldest of them has been undecided; 0 where there is none.

    Returns:
        What went wrong, for the log; None where CloudWatch took it.
    """
    dimensions = [
        {"Name": SERVICE_DIMENSION, "Value": SERVICE},
        {"Name": MAIN_QUEUE_DIMENSION, "Value": main_queue_name},
    ]
    values = {
        Metric.UNDECIDED_MESSAGES: messages,
        Metric.OLDEST_UNDECIDED_SECONDS: oldest_seconds,
    }
    try:
        client.put_metric_data(
            Namespace=NAMESPACE,
            MetricData=[
                {
                    "MetricName": metric.value,
                    "Dimensions": dimensions,  # type: ignore[typeddict-item]
                    "Value": value,
                    "Unit": metric.unit.value,
                }
                for metric, value in values.items()
            ],
        )
    except (ClientError, BotoCoreError) as error:
        return f"the metrics of undecided messages were not published: {error}"
    return None
