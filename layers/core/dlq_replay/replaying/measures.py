"""What is counted and measured, under which names, and how it is published.

The template's alarms and dashboard read these names; a test holds them together. The lines have
CloudWatch's embedded metric format (EMF):
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Literal

from dlq_replay.replaying.breaker_worker import BreakerReport
from dlq_replay.replaying.replay import BatchOutcome
from dlq_replay.replaying.trial import trial_id_of
from dlq_replay.rules.decision import Hold, Park, Replay
from dlq_replay.rules.plan import NOT_COUNTED, Failed, Fate, Wait
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE
from dlq_replay.wire.message import Message, SendEntry

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


Measured = dict[str, Sequence[int]]
"""Values by the name of their metric: seconds if the name ends so, else counts."""


def measure_batch(outcome: BatchOutcome, breaker: BreakerReport | None = None) -> Measured:
    """Return what a batch tells of one main queue: counts, and values of each message.

    HeldByBreaker is there only with the *breaker* of that queue.
    """
    fates = [one.fate for one in outcome.outcomes]
    replays = [fate for fate in fates if isinstance(fate, Replay)]
    reasons = Counter([fate.reason for fate in fates if isinstance(fate, Park)])
    holds = [fate for fate in fates if isinstance(fate, Hold)]
    # What stays in the DLQ is counted when it leaves; test messages of ``dlq doctor`` never.
    leaving = [
        (one.record, one.entry)
        for one in outcome.outcomes
        if not one.is_left and isinstance(one.record, Message) and trial_id_of(one.record) is None
    ]
    arrived = sum([is_new_dead_letter(message, copy) for message, copy in leaving])
    waiting = [fate for fate in fates if _stays_to_wait(fate)]
    failed = [fate for fate in fates if isinstance(fate, Failed) and not _stays_to_wait(fate)]
    # Each dead letter counts once for each time it died: one that was held has been counted.
    counts = [one.history.replay_count for one, _ in leaving if one.due_seconds is None]
    return {
        Metric.REPLAYED: [len(replays)],
        Metric.PARKED: [reasons.total()],
        Metric.HELD: [len(holds) + len(waiting)],
        Metric.FAILED: [len(failed)],
        Metric.ARRIVED: [arrived],
        **{f"{Metric.PARKED}_{reason}": [count] for reason, count in reasons.items()},
        **({Metric.HELD_BY_BREAKER: [sum(fate.by_breaker for fate in holds)]} if breaker else {}),
        Metric.REPLAY_COUNT: [count for count in counts if count is not None],
        Metric.DELAY_SECONDS: [replay.delay_seconds for replay in replays],
    }


def is_new_dead_letter(message: Message, copy: SendEntry | None) -> bool:
    """Whether *message*, which leaves the DLQ as *copy*, was not replayed since it was sent.

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


def _stays_to_wait(fate: Fate) -> bool:
    """Whether it stays in the DLQ though no send of it failed."""
    return isinstance(fate, Wait) or (isinstance(fate, Failed) and fate.cause == NOT_COUNTED)


def measure_dlq(
    outcome: BatchOutcome, of_queues: Collection[Measured], now_seconds: int, retention_seconds: int
) -> Measured:
    """Return what a batch tells of the DLQ; *of_queues* is what it tells of each main queue.

    Alarms watch these values, which are published for the stack's main queue. NearestExpirySeconds
    is how long the message that SQS would delete first had left when it was received.
    """
    reports = outcome.breakers.values()
    records = [one.record for one in outcome.outcomes if isinstance(one.record, Message)]
    sent = [int(seconds) for one in records if (seconds := one.sent_seconds) is not None]
    faults = sum(report.fault is not None for report in reports)
    left = [max(0, min(sent) + retention_seconds - now_seconds)] if sent else []
    return {
        Metric.ARRIVED_TOTAL: [sum(one[Metric.ARRIVED][0] for one in of_queues)],
        Metric.FAILED_TOTAL: [sum(one[Metric.FAILED][0] for one in of_queues)],
        Metric.CIRCUIT_BREAKERS_OPEN: _limited(reports),
        Metric.BREAKER_FAULTS: [faults] if faults else [],
        Metric.RETURNS_NOT_COUNTED: [outcome.uncounted_returns] * bool(outcome.uncounted_returns),
        Metric.NEAREST_EXPIRY_SECONDS: left,
    }


def _limited(reports: Collection[BreakerReport]) -> list[int]:
    """The number of queues that are limited to 1 replay a minute, of those that are known.

    Nothing where none of these is limited and others are not known: a 0 would end an alarm.
    """
    limited = sum(report.is_low is True for report in reports)
    is_all = bool(reports) and all(report.is_low is not None for report in reports)
    return [limited] if limited or is_all else []


def unit_of(name: str) -> Literal["Seconds", "Count"]:
    """Return the unit of a metric, as CloudWatch writes it."""
    return "Seconds" if name.endswith("Seconds") else "Count"


def publish(measured: Measured, main_queue: str, now_seconds: float) -> None:
    """Print the values of a main queue; Lambda hands standard output to CloudWatch.

    That is one line of JSON if no metric has more than 100 values.
    """
    dimensions = {MAIN_QUEUE_DIMENSION: main_queue, SERVICE_DIMENSION: SERVICE}
    while measured := {name: values for name, values in measured.items() if values}:
        directive = {
            "Namespace": NAMESPACE,
            "Dimensions": [list(dimensions)],
            "Metrics": [{"Name": name, "Unit": unit_of(name)} for name in measured],
        }
        metadata = {"Timestamp": int(now_seconds * 1000), "CloudWatchMetrics": [directive]}
        values = {name: values[:VALUES_PER_LINE] for name, values in measured.items()}
        print(json.dumps({"_aws": metadata, **dimensions, **values}))  # noqa: T201
        measured = {name: values[VALUES_PER_LINE:] for name, values in measured.items()}
