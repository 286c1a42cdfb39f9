"""The limit that the circuit breaker of a main queue has set, and what waits in the DLQ for it."""

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.addresses import QueueAddress
from dlq_replay.breaker import BreakerView
from dlq_replay.errors import TableError
from dlq_replay.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    SERVICE,
    SERVICE_DIMENSION,
    Metric,
)
from dlq_replay.sqs import SqsQueue
from spark_reprocess.clients import (
    ClientFactory,
    aws_client,
    breaker_table,
    queue_counts,
    region_of,
)

_LOOKED_AT_WITHIN = timedelta(minutes=30)
"""The longest hold is 15 minutes, so the function has looked at each message since."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What a main queue may get.

    Attributes:
        per_minute: replays; None for no limit.
        sentence: the limit in words; empty without one.
        fault: why the limit is not known; empty if it is.
    """

    per_minute: int | None = None
    sentence: str = ""
    fault: str = ""

    def least_rate(self, max_rate: float | None) -> float | None:
        """The lower one of *max_rate*, messages a second, and the limit; None for neither."""
        return min(filter(None, (max_rate, self.per_minute and self.per_minute / 60)), default=None)


def read_limit(failure_table: str | None, queue_url: str) -> Limit:
    """Read the limit of a queue; there is none without a table. Never raises for what AWS does."""
    if failure_table is None:
        return Limit()
    try:
        numbers = breaker_table(failure_table, queue_url).read()
    except TableError as error:
        return Limit(fault=str(error))
    view = BreakerView(numbers, int(time.time()))
    return Limit(view.limit, view.in_words)


@dataclass(frozen=True, slots=True)
class DlqStatus(Limit):
    """The limit of a main queue, and while there is one, its dead-letter queue.

    Attributes:
        waiting: messages that wait in the DLQ, about; None where SQS does not say.
        first_expires_at: when SQS would delete the first of them; None where that is not known.
    """

    waiting: int | None = None
    first_expires_at: datetime | None = None


def dlq_status(
    failure_table: str, main_queue_url: str, dlq_url: str | None, make_client: ClientFactory
) -> DlqStatus:
    """Ask for the limit of a queue, and for what waits. Never raises for what AWS answers."""
    limit = read_limit(failure_table, main_queue_url)
    if limit.per_minute is None:
        return DlqStatus(fault=limit.fault)
    counts = queue_counts(SqsQueue(make_client(dlq_url), dlq_url)) if dlq_url else None
    return DlqStatus(
        limit.per_minute,
        limit.sentence,
        # Held by a delayed re-send, or on FIFO by visibility.
        waiting=counts.delayed + counts.in_flight if counts else None,
        first_expires_at=_first_expires_at(main_queue_url, datetime.now(UTC)),
    )


def _first_expires_at(main_queue_url: str, now: datetime) -> datetime | None:
    queue = QueueAddress.from_url(main_queue_url).name
    dimensions = {SERVICE_DIMENSION: SERVICE, MAIN_QUEUE_DIMENSION: queue}
    with suppress(ClientError, BotoCoreError):
        client = aws_client("cloudwatch", region=region_of(main_queue_url, "us-east-1"))
        answer = client.get_metric_statistics(
            Namespace=NAMESPACE,
            MetricName=Metric.NEAREST_EXPIRY_SECONDS.value,
            Dimensions=[{"Name": name, "Value": value} for name, value in dimensions.items()],
            StartTime=now - _LOOKED_AT_WITHIN,
            EndTime=now,
            Period=60,
            Statistics=["Minimum"],
        )
        moments = [
            one["Timestamp"] + timedelta(seconds=one["Minimum"]) for one in answer["Datapoints"]
        ]
        return min(moments, default=None)
    return None
