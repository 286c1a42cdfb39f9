"""What ``status`` says of the circuit breakers of a source queue, and of what waits in the DLQ."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.addresses import QueueAddress
from dlq_replay.breaker import UNKNOWN_ERROR, BreakerRules, BreakerState, Phase
from dlq_replay.breaker_worker import OTHER_ERRORS
from dlq_replay.errors import BreakerTableError
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
    breaker_tables,
    queue_counts,
    region_of,
)

_LOOKED_AT_WITHIN = timedelta(minutes=30)
"""The longest hold is 15 minutes, so the function has looked at each message since."""


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """One circuit breaker that is not closed.

    Attributes:
        queue: the source queue.
        error_type: whose messages it guards; ``unknown`` where none is recorded, ``other`` for
            types without a breaker of their own.
        phase: ``open`` or ``ramp``.
        since: when it opened, or closed.
        sent: first replays for which it opened.
        returned: how many of them had come back.
        per_minute: replays a minute that a ramp allows; None while open.
        next_probe_at: when the next probe may go, while open; in the past if it is due.
    """

    queue: str
    error_type: str
    phase: str
    since: datetime
    sent: int
    returned: int
    per_minute: int | None
    next_probe_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DlqStatus:
    """The dead-letter queue while a breaker is not closed.

    Attributes:
        breakers: those that are not closed.
        waiting: messages that wait in the DLQ, about; None where SQS does not say.
        first_expires_at: when SQS would delete the first of them; None where that is not known.
        fault: why the breakers are not known; empty if they are.
    """

    breakers: tuple[BreakerStatus, ...] = ()
    waiting: int | None = None
    first_expires_at: datetime | None = None
    fault: str = ""


def dlq_status(
    failure_table: str, main_queue_url: str, dlq_url: str | None, make_client: ClientFactory
) -> DlqStatus:
    """Ask for the breakers of a queue, and for what waits. Never raises for what AWS answers."""
    queue = QueueAddress.from_url(main_queue_url).name
    table = breaker_tables(failure_table, [main_queue_url])[main_queue_url]
    try:
        _, states = table.read({UNKNOWN_ERROR, OTHER_ERRORS})
    except BreakerTableError as error:
        return DlqStatus(fault=str(error))
    found = [
        _status(queue, name, state)
        for name, state in sorted(states.items())
        if state.phase is not Phase.CLOSED
    ]
    if not found:
        return DlqStatus()
    return DlqStatus(
        tuple(found),
        _waiting(dlq_url, make_client) if dlq_url else None,
        _first_expires_at(main_queue_url, datetime.now(UTC)),
    )


def _status(queue: str, name: str, state: BreakerState) -> BreakerStatus:
    is_open = state.phase is Phase.OPEN
    since = state.numbers.get("opened_at" if is_open else "closed_at", 0)
    return BreakerStatus(
        queue,
        name,
        state.phase.value,
        datetime.fromtimestamp(since, UTC),
        state.numbers.get("judged_sent", 0),
        state.numbers.get("judged_returned", 0),
        None if is_open else state.numbers.get("ramp"),
        datetime.fromtimestamp(probe_at + BreakerRules().probe_seconds, UTC)
        if is_open and (probe_at := state.numbers.get("probe_at"))
        else None,
    )


def _waiting(dlq_url: str, make_client: ClientFactory) -> int | None:
    counts = queue_counts(SqsQueue(make_client(dlq_url), dlq_url))
    # Held by a delayed re-send, or on FIFO by visibility.
    return counts.delayed + counts.in_flight if counts else None


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
