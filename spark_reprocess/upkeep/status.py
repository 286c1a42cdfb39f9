"""The verb ``status``: what is in the parked queue and in the archive, and what nobody decided."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledger import State, attempt_names
from spark_reprocess.archive.ledger_states import claimed_messages, states_by_plan, strongest_states
from spark_reprocess.archive.message_store import drain_ids
from spark_reprocess.archive.reading import archive_rows
from spark_reprocess.clients import ClientFactory, require_queue, sqs_client
from spark_reprocess.progress import Progress, silent
from spark_reprocess.queue_counts import QueueCounts
from spark_reprocess.spark.conditions import explained

UNDECIDED = "undecided"
EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """What to look at.

    Attributes:
        parked_queue_url: the queue, None for the archive alone.
        claim_ttl_seconds: how long a claim without a result counts as busy.
        as_json: whether the command line answers with JSON.
    """

    archive: str
    parked_queue_url: str | None = None
    claim_ttl_seconds: float = 900
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class DrainCount:
    """A drain and its distinct messages; one that two drains brought counts in the first.

    Attributes:
        undecided: how many of them are.
    """

    drain_id: str
    messages: int
    undecided: int


@dataclass(frozen=True, slots=True)
class PlanCount:
    """A plan that was executed, at least in part: how many of its messages are in which state.

    Attributes:
        counts: by ``State``; what every run failed to send is in none.
    """

    plan_id: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ArchiveStatus:
    """What is where.

    Attributes:
        queue: what SQS counts in the parked queue; None where it was not asked.
        messages: distinct messages in the archive.
        counts: of them, by ``State`` and ``undecided``; they add up to *messages*.
        oldest_undecided_at: when the oldest undecided message was sent to the parked queue.
        examples: the first few ids of those in doubt and busy.
    """

    archive: str
    at: datetime
    queue: QueueCounts | None
    messages: int
    counts: Mapping[str, int]
    oldest_undecided_at: datetime | None
    drains: tuple[DrainCount, ...]
    plans: tuple[PlanCount, ...]
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def count(self, word: str) -> int:
        """How many messages are in a state, or undecided."""
        return self.counts.get(word, 0)


def status(
    spark: SparkSession,
    options: StatusOptions,
    *,
    make_client: ClientFactory = sqs_client,
    progress: Progress = silent,
) -> ArchiveStatus:
    """Count what is where. Writes nothing and receives nothing.

    Raises:
        InputError: the queue or the archive cannot be used as given.
        ArchiveError: the archive cannot be read.
    """
    archive = open_archive(options.archive)
    url = options.parked_queue_url
    queue = QueueCounts.of(require_queue("--parked-queue-url", url, make_client)) if url else None
    now = time.time()
    with progress("counting", str), explained(None):
        claimed = claimed_messages(spark, archive, now, options.claim_ttl_seconds).persist()
        try:
            rows = _rows_by_drain(spark, archive, claimed)
            plans = _plans(archive, claimed)
            examples = _examples(claimed, plans)
        finally:
            claimed.unpersist()
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["state"]] += row["count"]
    undecided = [row["oldest_at"] for row in rows if row["state"] == UNDECIDED]
    return ArchiveStatus(
        archive=archive.root,
        at=datetime.fromtimestamp(now, UTC),
        queue=queue,
        messages=counts.total(),
        counts=dict(counts),
        oldest_undecided_at=min(undecided, default=None),
        drains=_drains(rows),
        plans=plans,
        examples=examples,
    )


def _rows_by_drain(
    spark: SparkSession, archive: Archive, claimed: DataFrame
) -> list[dict[str, Any]]:
    """``drain_id, state, count, oldest_at``: as many rows as there are drains, times states."""
    drains = drain_ids(archive)
    if not drains:
        return []
    messages = (
        archive_rows(spark, archive, drains, ("message_id", "sent_at", "drained_at"))
        .withColumn("at", F.coalesce("sent_at", "drained_at"))
        .groupBy("message_id")
        .agg(F.min(F.struct("drained_at", "drain_id")).alias("first"), F.min("at").alias("at"))
    )
    state = F.coalesce("state", F.lit(UNDECIDED))
    counted = (
        messages.join(strongest_states(claimed), "message_id", "left")
        .groupBy("first.drain_id", state.alias("state"))
        .agg(F.count("*").alias("count"), F.min("at").alias("oldest_at"))
    )
    return [dict(row) for row in counted.toArrow().to_pylist()]


def _drains(rows: Sequence[Mapping[str, Any]]) -> tuple[DrainCount, ...]:
    messages: Counter[str] = Counter()
    undecided: Counter[str] = Counter()
    for row in rows:
        messages[row["drain_id"]] += row["count"]
        undecided[row["drain_id"]] += row["count"] if row["state"] == UNDECIDED else 0
    return tuple(DrainCount(one, messages[one], undecided[one]) for one in sorted(messages))


def _plans(archive: Archive, claimed: DataFrame) -> tuple[PlanCount, ...]:
    counts: dict[str, dict[str, int]] = {
        plan_id: {} for plan_id in sorted({name.plan_id for name in attempt_names(archive)})
    }
    for row in states_by_plan(claimed).collect():
        counts[row["plan_id"]][row["state"]] = row["count"]
    return tuple(PlanCount(plan_id, of_plan) for plan_id, of_plan in counts.items())


def _examples(claimed: DataFrame, plans: Sequence[PlanCount]) -> dict[str, tuple[str, ...]]:
    states = strongest_states(claimed)
    examples = {}
    for state in (State.IN_DOUBT, State.BUSY):
        if any(state in plan.counts for plan in plans):
            rows = states.where(F.col("state") == state).orderBy("message_id").limit(EXAMPLES)
            examples[str(state)] = tuple(row["message_id"] for row in rows.collect())
    return examples
