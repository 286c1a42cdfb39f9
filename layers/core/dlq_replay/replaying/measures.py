"""The metrics: their values, their names, and their publication.

The template's alarms and dashboard read these names; a test holds them together. The lines have
CloudWatch's embedded metric format (EMF):
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Literal

from dlq_replay.replaying.breaker_worker import BreakerReport
from dlq_replay.replaying.replay import BatchOutcome
from dlq_replay.replaying.trial_message import trial_id_of
from dlq_replay.rules.batch_plan import NOT_COUNTED, Failed, PlannedRecord, RecordDecision, Wait
from dlq_replay.rules.decision import Hold, Park, Replay
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE
from dlq_replay.wire.message import Message, SendEntry

SERVICE = "sqs-dlq-replay"
NAMESPACE = "DlqReplay"
MAIN_QUEUE_DIMENSION = "MainQueue"
QUEUE_TAG_DIMENSION = "QueueTag"
SERVICE_DIMENSION = "service"
"""Every metric has two dimensions: ``service`` is ``sqs-dlq-replay``; the other is the name of the
main queue, or, for all queues of a fleet together, the value of their tag."""

VALUES_PER_LINE = 100
"""EMF's limit for one metric in one line. Further values go into further lines."""


class Metric(StrEnum):
    """The metrics of the replay function, the Spark job, the daily notice, and a fleet's sweep."""

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
    # ---
    STUCK_QUEUES = "StuckQueues"


Measured = dict[str, Sequence[int]]
"""Values by the name of their metric: seconds if the name ends so, else counts."""


def measure_batch(batch: BatchOutcome, breaker: BreakerReport | None = None) -> Measured:
    """Return the values of a batch for one main queue: counts, and values of each message.

    HeldByBreaker is there only with the *breaker* of that queue.
    """
    delays_seconds: list[int] = []
    park_reasons = Counter[str]()
    held = 0
    held_by_breaker = 0
    failed = 0
    for outcome in batch.outcomes:
        decision = outcome.decision
        if isinstance(decision, Replay):
            delays_seconds.append(decision.delay_seconds)
        elif isinstance(decision, Park):
            park_reasons[decision.reason] += 1
        elif isinstance(decision, Hold):
            held += 1
            if decision.by_breaker:
                held_by_breaker += 1
        elif _stays_to_wait(decision):
            held += 1
        else:
            failed += 1

    arrived, replay_counts = _measure_leaving(batch.outcomes)
    measured: Measured = {
        Metric.REPLAYED: [len(delays_seconds)],
        Metric.PARKED: [park_reasons.total()],
        Metric.HELD: [held],
        Metric.FAILED: [failed],
        Metric.ARRIVED: [arrived],
    }
    for reason, count in park_reasons.items():
        measured[f"{Metric.PARKED}_{reason}"] = [count]
    if breaker:
        measured[Metric.HELD_BY_BREAKER] = [held_by_breaker]
    measured[Metric.REPLAY_COUNT] = replay_counts
    measured[Metric.DELAY_SECONDS] = delays_seconds
    return measured


def _measure_leaving(outcomes: Iterable[PlannedRecord]) -> tuple[int, list[int]]:
    """Return the number of new dead letters among messages that leave the DLQ, and the counters.

    Messages that stay in the DLQ count when they leave; test messages of ``dlq doctor`` never.
    """
    arrived = 0
    replay_counts: list[int] = []
    for outcome in outcomes:
        message = outcome.record
        if outcome.is_left or not isinstance(message, Message) or trial_id_of(message) is not None:
            continue

        if is_new_dead_letter(message, outcome.entry):
            arrived += 1
        # Each dead letter counts once for each time it died: one that was held has been counted.
        replay_count = message.history.replay_count
        if message.due_seconds is None and replay_count is not None:
            replay_counts.append(replay_count)
    return arrived, replay_counts


def is_new_dead_letter(message: Message, copy: SendEntry | None) -> bool:
    """Return whether *message*, which leaves the DLQ as *copy*, was not replayed since it was sent.

    SQS moved it there, or a consumer sent it there itself. One that waited (``due``) has been
    counted. A counter alone says nothing where there is room for a context: every copy of this
    function has both, so somebody else wrote the counter, or passed it on.
    """
    if message.due_seconds is not None:
        return False
    if not message.history.replay_count:
        return True
    had_context = message.history.context.first_id is not None
    has_context = copy is not None and CONTEXT_ATTRIBUTE in copy.attributes
    return has_context and not had_context


def _stays_to_wait(decision: RecordDecision) -> bool:
    """Return whether it stays in the DLQ though no send of it failed."""
    return isinstance(decision, Wait) or (
        isinstance(decision, Failed) and decision.cause == NOT_COUNTED
    )


def measure_dlq(
    batch: BatchOutcome, of_queues: Collection[Measured], now_seconds: int, retention_seconds: int
) -> Measured:
    """Return the values of a batch for the DLQ; *of_queues* are its values for each main queue.

    Alarms watch these values, which are published for the stack's main queue. NearestExpirySeconds
    is the time that the message that SQS would delete first had left when it was received.
    """
    reports = batch.breakers.values()
    faults = sum(report.fault is not None for report in reports)
    uncounted = batch.uncounted_returns

    return {
        Metric.ARRIVED_TOTAL: [sum(measured[Metric.ARRIVED][0] for measured in of_queues)],
        Metric.FAILED_TOTAL: [sum(measured[Metric.FAILED][0] for measured in of_queues)],
        Metric.CIRCUIT_BREAKERS_OPEN: _limited(reports),
        Metric.BREAKER_FAULTS: [faults] if faults else [],
        Metric.RETURNS_NOT_COUNTED: [uncounted] if uncounted else [],
        **measure_expiry(batch, now_seconds, retention_seconds),
    }


def measure_expiry(batch: BatchOutcome, now_seconds: int, retention_seconds: int) -> Measured:
    """Return NearestExpirySeconds of a batch: none where SQS does not say when it was sent."""
    left_seconds: list[int] = []
    for outcome in batch.outcomes:
        sent_seconds = outcome.record.sent_seconds if isinstance(outcome.record, Message) else None
        if sent_seconds is not None:
            left_seconds.append(max(0, int(sent_seconds) + retention_seconds - now_seconds))
    return {Metric.NEAREST_EXPIRY_SECONDS: [min(left_seconds)] if left_seconds else []}


def _limited(reports: Collection[BreakerReport]) -> list[int]:
    """Return the number of queues that are limited to 1 replay a minute, of those that are known.

    Return nothing if none of these is limited and others are not known: a 0 would end an alarm.
    """
    limited = 0
    are_known = bool(reports)
    for report in reports:
        if report.is_low:
            limited += 1
        elif report.is_low is None:
            are_known = False
    return [limited] if limited or are_known else []


def unit_of(name: str) -> Literal["Seconds", "Count"]:
    """Return the unit of a metric, as CloudWatch writes it."""
    return "Seconds" if name.endswith("Seconds") else "Count"


def publish(measured: Measured, dimension: str, value: str, now_seconds: float) -> None:
    """Print the values of one dimension; Lambda hands standard output to CloudWatch.

    That is one line of JSON if no metric has more than 100 values.

    Args:
        measured: the values.
        dimension: ``MAIN_QUEUE_DIMENSION`` or ``QUEUE_TAG_DIMENSION``.
        value: the name of the main queue, or the value of the tag.
        now_seconds: the time of the values.
    """
    dimensions = {dimension: value, SERVICE_DIMENSION: SERVICE}
    most_values = max(map(len, measured.values()), default=0)
    for start in range(0, most_values, VALUES_PER_LINE):
        part: Measured = {}
        for name, values in measured.items():
            if start < len(values):
                part[name] = values[start : start + VALUES_PER_LINE]

        directive = {
            "Namespace": NAMESPACE,
            "Dimensions": [list(dimensions)],
            "Metrics": [{"Name": name, "Unit": unit_of(name)} for name in part],
        }
        metadata = {"Timestamp": int(now_seconds * 1000), "CloudWatchMetrics": [directive]}
        print(json.dumps({"_aws": metadata, **dimensions, **part}))  # noqa: T201
