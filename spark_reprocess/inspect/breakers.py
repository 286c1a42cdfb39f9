"""What ``status`` says of the circuit breaker of a main queue, and of what waits in the DLQ."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.addresses import QueueAddress
from dlq_replay.breaker import BreakerRules
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
from spark_reprocess.figures import limit_sentence

_LOOKED_AT_WITHIN = timedelta(minutes=30)
"""The longest hold is 15 minutes, so the function has looked at each message since."""


@dataclass(frozen=True, slots=True)
class DlqStatus:
    """The dead-letter queue while replays to the main queue are limited.

    Attributes:
        limit: replays a minute; None for no limit.
        limited_since: since when it is so.
        silent_since: since when the consumer has deleted nothing; None where it deletes some.
        sentence: the same in words; empty without a limit.
        waiting: messages that wait in the DLQ, about; None where SQS does not say.
        first_expires_at: when SQS would delete the first of them; None where that is not known.
        fault: why the limit is not known; empty if it is.
    """

    limit: int | None = None
    limited_since: datetime | None = None
    silent_since: datetime | None = None
    sentence: str = ""
    waiting: int | None = None
    first_expires_at: datetime | None = None
    fault: str = ""


def dlq_status(
    failure_table: str, main_queue_url: str, dlq_url: str | None, make_client: ClientFactory
) -> DlqStatus:
    """Ask for the limit of a queue, and for what waits. Never raises for what AWS answers."""
    try:
        state = breaker_table(failure_table, main_queue_url).read()
    except TableError as error:
        return DlqStatus(fault=str(error))
    now = datetime.now(UTC)
    limit = state.limit_at(int(now.timestamp()), BreakerRules())
    if limit is None:
        return DlqStatus()
    silent = state.numbers.get("silent_since") if limit == 1 else None
    counts = queue_counts(SqsQueue(make_client(dlq_url), dlq_url)) if dlq_url else None
    return DlqStatus(
        limit=limit,
        limited_since=datetime.fromtimestamp(state.numbers["since"], UTC),
        silent_since=None if silent is None else datetime.fromtimestamp(silent, UTC),
        sentence=limit_sentence(state, now),
        # Held by a delayed re-send, or on FIFO by visibility.
        waiting=counts.delayed + counts.in_flight if counts else None,
        first_expires_at=_first_expires_at(main_queue_url, now),
    )


def _first_expires_at(main_queue_url: str, now: datetime) -> datetime | None:
    with suppress(ClientError, BotoCoreError):
        client = aws_client("cloudwatch", region=region_of(main_queue_url, "us-east-1"))
        answer = client.get_metric_statistics(
            Namespace=NAMESPACE,
            MetricName=Metric.NEAREST_EXPIRY_SECONDS.value,
            Dimensions=[
                {"Name": SERVICE_DIMENSION, "Value": SERVICE},
                {
                    "Name": MAIN_QUEUE_DIMENSION,
                    "Value": QueueAddress.from_url(main_queue_url).name,
                },
            ],
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
