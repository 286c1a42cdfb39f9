"""The log and the metrics of a batch. No line holds a body, at any level."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from dlq_replay.replaying.measures import (
    MAIN_QUEUE_DIMENSION,
    QUEUE_TAG_DIMENSION,
    SERVICE,
    Measured,
    measure_batch,
    measure_dlq,
    measure_expiry,
    publish,
)
from dlq_replay.replaying.replay import BatchOutcome
from dlq_replay.rules.batch_plan import Failed, PlannedRecord
from dlq_replay.rules.decision import Park, Replay
from dlq_replay.rules.policy import ReplayPolicy

if TYPE_CHECKING:
    from dlq_replay.wire.addresses import QueueAddress

IDS_PER_LOG_LINE = 100

logger = logging.getLogger(SERVICE)
"""The handlers give it its form: one line of JSON each."""

Write = Callable[..., None]
"""Writes a line of the log at some level."""


def log_batch(batch: BatchOutcome, dlq: str | None = None) -> None:
    """Write one line per cause and 100 ids: a batch of 10,000 that fails alike stays readable.

    *dlq* is the name of the queue that it came from; None where there is only one.
    """
    where = {} if dlq is None else {"dlq": dlq}
    counts = Counter([type(outcome.decision).__name__.lower() for outcome in batch.outcomes])
    is_debug = logger.isEnabledFor(logging.DEBUG)

    groups: dict[tuple[Write, str, tuple[tuple[str, str], ...]], list[str]] = defaultdict(list)
    for outcome in batch.outcomes:
        match outcome.decision:
            case Park(reason):
                fields: tuple[tuple[str, str], ...] = (("reason", reason),)
                groups[logger.warning, "parked", fields].append(outcome.message_id)
            case Failed(cause, detail):
                fields = (("cause", cause), ("detail", detail))
                groups[logger.error, "left in the DLQ", fields].append(outcome.message_id)
            case Replay(number, delay_seconds) if is_debug:
                extra = {"number": number, "delay_seconds": delay_seconds}
                logger.debug("replayed", extra={"id": outcome.message_id, **extra, **where})
        if outcome.fault:
            fields = (("fault", outcome.fault),)
            groups[logger.warning, "context ignored", fields].append(outcome.message_id)

    for (write, text, fields), ids in groups.items():
        for start in range(0, len(ids), IDS_PER_LOG_LINE):
            some = ids[start : start + IDS_PER_LOG_LINE]
            write(text, extra={**dict(fields), "ids": some, "count": len(some), **where})

    _log_tables(batch)
    logger.info("batch done", extra={"messages": len(batch.outcomes), **counts, **where})


def _log_tables(batch: BatchOutcome) -> None:
    for queue, report in batch.breakers.items():
        if report.event:
            logger.warning(report.event, extra={"main_queue": queue.name})
        if report.fault:
            extra = {"main_queue": queue.name, "reason": report.fault}
            logger.warning("circuit breaker: no limit is known", extra=extra)

    if batch.failures_fault:
        logger.warning("failure reasons are missing", extra={"reason": batch.failures_fault})
    if batch.returns_fault:
        extra = {"reason": batch.returns_fault}
        logger.warning("returns of a redrive are not counted", extra=extra)


def count_batch(
    batch: BatchOutcome, policy: ReplayPolicy, now_seconds: int, queue_tag: str | None = None
) -> None:
    """Publish the metrics of a batch: of each main queue that has messages, and of the DLQ.

    Those of the DLQ are published for the main queue; with *queue_tag*, for all members together,
    and the nearest expiry for each queue, too.
    """
    outcomes: dict[QueueAddress, list[PlannedRecord]] = {}
    for outcome in batch.outcomes:
        outcomes.setdefault(outcome.main_queue, []).append(outcome)
    if queue_tag is None:
        outcomes.setdefault(policy.main_queue, [])

    retention_seconds = policy.limits.dlq_retention_seconds
    measures: dict[QueueAddress, Measured] = {}
    for queue in sorted(outcomes):
        own_batch = BatchOutcome(tuple(outcomes[queue]))
        measures[queue] = measure_batch(own_batch, batch.breakers.get(queue))
        if queue_tag is not None:
            measures[queue] |= measure_expiry(own_batch, now_seconds, retention_seconds)

    of_dlq = measure_dlq(batch, measures.values(), now_seconds, retention_seconds)
    if queue_tag is None:
        measures[policy.main_queue] |= of_dlq
    else:
        # It stands for no queue: its messages stayed, or had no source.
        measures.pop(policy.main_queue, None)
        publish(of_dlq, QUEUE_TAG_DIMENSION, queue_tag, now_seconds)
    for queue, measured in measures.items():
        publish(measured, MAIN_QUEUE_DIMENSION, queue.name, now_seconds)
