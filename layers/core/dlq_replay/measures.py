"""What is counted and measured, under which names, and the log lines with the values. Pure.

The template's alarms and dashboard read these names; a test holds them together. The lines have
CloudWatch's embedded metric format (EMF):
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from dlq_replay.breaker_worker import BreakerReport
from dlq_replay.decision import Hold, Park, ParkReason, Replay
from dlq_replay.message import Message
from dlq_replay.plan import Passage, Wait
from dlq_replay.replay import BatchOutcome
from dlq_replay.trial import trial_id_of

SERVICE = "dlq-replay"
NAMESPACE = "DlqReplay"
MAIN_QUEUE_DIMENSION = "MainQueue"
SERVICE_DIMENSION = "service"
"""Every metric has both dimensions: the name of the main queue, and ``dlq-replay``."""

VALUES_PER_LINE = 100
"""EMF's limit for one metric in one line. Further values go into further lines."""


class Metric(StrEnum):
    """The metrics of the replay function, then of the Spark job, then of the daily notice."""

    REPLAYED = "Replayed"
    PARKED = "Parked"
    HELD = "Held"
    FAILED = "Failed"
    ARRIVED = "Arrived"
    REPLAY_COUNT = "ReplayCount"
    DELAY_SECONDS = "DelaySeconds"
    NEAREST_EXPIRY_SECONDS = "NearestExpirySeconds"
    HELD_BY_BREAKER = "HeldByBreaker"
    ARRIVED_TOTAL = "ArrivedTotal"
    FAILED_TOTAL = "FailedTotal"
    CIRCUIT_BREAKERS_OPEN = "CircuitBreakersOpen"
    BREAKER_FAULTS = "BreakerFaults"
    RETURNS_NOT_COUNTED = "ReturnsNotCounted"
    # ---
    PENDING_MESSAGES = "PendingMessages"
    OLDEST_PENDING_SECONDS = "OldestPendingSeconds"
    # ---
    LAST_RUN_AGE_SECONDS = "LastRunAgeSeconds"
    OLDEST_PARKED_SECONDS = "OldestParkedSeconds"


def parked_metric(reason: ParkReason) -> str:
    """Name the metric that counts what was parked for *reason*."""
    return f"{Metric.PARKED}_{reason}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """Values of one metric: seconds if its name ends so, else counts."""

    name: str
    values: tuple[int, ...]


def measure_batch(
    outcome: BatchOutcome, breaker: BreakerReport | None = None
) -> Iterator[Measurement]:
    """Yield what a batch tells of one main queue: how often each fate, and each message's values.

    Counts have one value, 0 included; other metrics have one per message, and are left out where
    they have none. HeldByBreaker is there only with a breaker.

    Args:
        outcome: of the messages of that queue.
        breaker: of that queue; None where it has none.
    """
    fates = [one.fate for one in outcome.outcomes]
    replays = [fate for fate in fates if isinstance(fate, Replay)]
    reasons = Counter(fate.reason for fate in fates if isinstance(fate, Park))
    held = sum(isinstance(fate, Hold | Wait) for fate in fates)
    yield _of(Metric.REPLAYED, len(replays))
    yield _of(Metric.PARKED, reasons.total())
    yield _of(Metric.HELD, held)
    yield _of(Metric.FAILED, len(outcome.failed))
    yield _of(Metric.ARRIVED, _arrived(outcome))
    for reason, count in reasons.items():
        yield Measurement(parked_metric(reason), (count,))
    # Each dead letter counts once for each time it died: one that was held has been counted.
    counts = (one.history.replay_count for one in _leaving(outcome) if one.due_seconds is None)
    per_message = (
        _of(Metric.REPLAY_COUNT, *(count for count in counts if count is not None)),
        _of(Metric.DELAY_SECONDS, *(replay.delay_seconds for replay in replays)),
    )
    if breaker:
        turned_away = (one for one in outcome.outcomes if one.passage is Passage.HELD)
        held = sum(isinstance(one.fate, Hold) for one in turned_away)
        yield _of(Metric.HELD_BY_BREAKER, held)
    yield from (measurement for measurement in per_message if measurement.values)


def measure_dlq(
    outcome: BatchOutcome, now_seconds: int, dlq_retention_seconds: int
) -> Iterator[Measurement]:
    """Yield what a batch tells of the DLQ, whichever main queues its messages are of.

    Alarms watch these values, which are published for the stack's main queue. NearestExpirySeconds
    is how long the message that SQS would delete first had left when it was received.
    """
    yield _of(Metric.ARRIVED_TOTAL, _arrived(outcome))
    yield _of(Metric.FAILED_TOTAL, len(outcome.failed))
    if outcome.breakers:
        limited = sum(report.is_low for report in outcome.breakers.values())
        yield _of(Metric.CIRCUIT_BREAKERS_OPEN, limited)
        if faults := sum(report.fault is not None for report in outcome.breakers.values()):
            yield _of(Metric.BREAKER_FAULTS, faults)
    if outcome.uncounted_returns:
        yield _of(Metric.RETURNS_NOT_COUNTED, outcome.uncounted_returns)
    records = (one.record for one in outcome.outcomes)
    times = (record.sent_seconds for record in records if isinstance(record, Message))
    sent = [int(seconds) for seconds in times if seconds is not None]
    if sent:
        left = max(0, min(sent) + dlq_retention_seconds - now_seconds)
        yield _of(Metric.NEAREST_EXPIRY_SECONDS, left)


def _arrived(outcome: BatchOutcome) -> int:
    """Count new dead letters: moved by SQS, and not replayed since.

    Their context does not matter: any producer can write one.
    """
    return sum(
        one.source_arn is not None and one.history.replay_count == 0 for one in _leaving(outcome)
    )


def _leaving(outcome: BatchOutcome) -> Iterator[Message]:
    """Yield the messages to count: one that stays in the DLQ is counted when it leaves.

    Test messages of ``dlq doctor`` are no dead letters.
    """
    for one in outcome.outcomes:
        if isinstance(one.record, Message) and not one.is_left and trial_id_of(one.record) is None:
            yield one.record


def _of(metric: Metric, *values: int) -> Measurement:
    return Measurement(metric.value, values)


def unit_of(name: str) -> Literal["Seconds", "Count"]:
    """Return the unit of a metric, as CloudWatch writes it."""
    return "Seconds" if name.endswith("Seconds") else "Count"


def metric_lines(
    measurements: Iterable[Measurement], dimensions: Mapping[str, str], now_seconds: float
) -> Iterator[str]:
    """Yield *measurements* as lines of JSON; one line if no metric has more than 100 values.

    Args:
        measurements: their names must be distinct.
        dimensions: name and value of each dimension, the same for all measurements.
        now_seconds: the time of the measurements, epoch seconds.
    """
    left = [measurement for measurement in measurements if measurement.values]
    start = 0
    while left:
        values = {one.name: one.values[start : start + VALUES_PER_LINE] for one in left}
        directive = {
            "Namespace": NAMESPACE,
            "Dimensions": [list(dimensions)],
            "Metrics": [{"Name": one.name, "Unit": unit_of(one.name)} for one in left],
        }
        metadata = {"Timestamp": int(now_seconds * 1000), "CloudWatchMetrics": [directive]}
        yield json.dumps({"_aws": metadata, **dimensions, **values})
        start += VALUES_PER_LINE
        left = [measurement for measurement in left if len(measurement.values) > start]
