"""The verb ``status``: counts of messages in the parked queue and in the archive."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.disposition import DECIDED, Disposition
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledger import attempt_names
from spark_reprocess.archive.ledger_states import claimed_messages, states_by_plan, strongest_states
from spark_reprocess.archive.message_store import archive_rows, arrival_order, drain_ids
from spark_reprocess.clients import ClientFactory, QueueCounts, require_queue, sqs_client
from spark_reprocess.inspect import UNDECIDED
from spark_reprocess.progress import Progress, silent
from spark_reprocess.spark.conditions import explained

EXAMPLES = 5
"""Message ids that are named for a state, at most."""


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """What to count.

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
    """A drain and its distinct messages. A message of two drains counts in the first.

    Attributes:
        undecided: number of them that are undecided.
    """

    drain_id: str
    messages: int
    undecided: int


@dataclass(frozen=True, slots=True)
class PlanCount:
    """A plan that was executed, at least in part, and the states of its messages.

    Attributes:
        counts: by ``Disposition``; a message that every run failed to send has no state.
    """

    plan_id: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Blocker:
    """An undecided message of a FIFO queue, and the number of its group that wait behind it."""

    message_id: str
    waiting: int


@dataclass(frozen=True, slots=True)
class ArchiveStatus:
    """All counts.

    Attributes:
        queue: SQS's counts of the parked queue; None without a queue.
        messages: distinct messages in the archive, decided and undecided.
        counts: of them, by ``Disposition`` and ``undecided``; in doubt and busy are undecided, too.
        oldest_undecided_at: when the oldest undecided message was sent to the parked queue.
        examples: the first ids of those in doubt and busy, at most ``EXAMPLES`` of each.
        waiting: undecided messages of FIFO queues behind another one of their message group: they
            cannot be sent before that one is decided.
        blockers: the messages that most others wait for, at most ``EXAMPLES``.
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
    waiting: int = 0
    blockers: tuple[Blocker, ...] = ()

    def count(self, word: str) -> int:
        """Return the number of messages in a state, or undecided."""
        return self.counts.get(word, 0)


def status(
    spark: SparkSession,
    options: StatusOptions,
    *,
    make_client: ClientFactory = sqs_client,
    progress: Progress = silent,
) -> ArchiveStatus:
    """Count messages. Writes nothing and receives nothing.

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
            tallies, waiting, blockers = _counted(spark, archive, claimed)
            plans = _plans(archive, claimed)
            examples = _examples(claimed, plans)
        finally:
            claimed.unpersist()
    undecided = [one for one in tallies if one.state not in DECIDED]
    counts = Counter({UNDECIDED: sum(one.count for one in undecided)})
    for one in tallies:
        if one.state is not None:
            counts[one.state] += one.count
    return ArchiveStatus(
        archive=archive.root,
        at=datetime.fromtimestamp(now, UTC),
        queue=queue,
        messages=sum(one.count for one in tallies),
        counts=dict(counts),
        oldest_undecided_at=min((one.oldest_at for one in undecided), default=None),
        drains=_drains(tallies),
        plans=plans,
        examples=examples,
        waiting=waiting,
        blockers=blockers,
    )


@dataclass(frozen=True, slots=True)
class _Tally:
    """Messages of one drain in one state, None for no state."""

    drain_id: str
    state: str | None
    count: int
    oldest_at: datetime


def _counted(
    spark: SparkSession, archive: Archive, claimed: DataFrame
) -> tuple[list[_Tally], int, tuple[Blocker, ...]]:
    """Count by drain and state, and count the waiting messages."""
    drains = drain_ids(archive)
    if not drains:
        return [], 0, ()
    columns = ("message_id", "drained_at", "message_group_id", "sequence_number", "sent_at")
    rows = archive_rows(spark, archive, drains, (*columns, "queue_url"))
    others = ("drained_at", "drain_id", *columns[2:], "queue_url")
    messages = (
        rows.groupBy("message_id")
        .agg(F.min(F.struct(*others)).alias("first"))
        .select(
            "message_id", "first.*", F.coalesce("first.sent_at", "first.drained_at").alias("at")
        )
        .join(strongest_states(claimed), "message_id", "left")
        .persist()
    )
    try:
        tallies = messages.groupBy("drain_id", "state").agg(
            F.count("*").alias("count"), F.min("at").alias("oldest_at")
        )
        found = [_Tally(**row) for row in tallies.toArrow().to_pylist()]
        return found, *_waiting(messages)
    finally:
        messages.unpersist()


def _waiting(messages: DataFrame) -> tuple[int, tuple[Blocker, ...]]:
    """Count what waits in the message groups of each parked queue, and find the first of each."""
    is_open = F.col("state").isNull() | ~F.col("state").isin(*DECIDED)
    groups = (
        messages.where(is_open & F.col("sequence_number").isNotNull())
        .groupBy("queue_url", "message_group_id")
        .agg(
            (F.count("*") - 1).alias("waiting"),
            F.min(F.struct(*arrival_order()))["message_id"].alias("message_id"),
        )
        .where(F.col("waiting") > 0)
    )
    total = groups.agg(F.coalesce(F.sum("waiting"), F.lit(0)).alias("total")).collect()[0]["total"]
    most = groups.orderBy(F.desc("waiting"), "message_id").limit(EXAMPLES) if total else None
    rows = most.collect() if most else []
    return total, tuple(Blocker(row["message_id"], row["waiting"]) for row in rows)


def _drains(tallies: Sequence[_Tally]) -> tuple[DrainCount, ...]:
    messages: Counter[str] = Counter()
    undecided: Counter[str] = Counter()
    for one in tallies:
        messages[one.drain_id] += one.count
        undecided[one.drain_id] += 0 if one.state in DECIDED else one.count
    return tuple(DrainCount(one, messages[one], undecided[one]) for one in sorted(messages))


def _plans(archive: Archive, claimed: DataFrame) -> tuple[PlanCount, ...]:
    counts: dict[str, dict[str, int]] = {
        plan_id: {} for plan_id in sorted({name.plan_id for name in attempt_names(archive)})
    }
    for row in states_by_plan(claimed).collect():
        counts.setdefault(row["plan_id"], {})[row["state"]] = row["count"]
    return tuple(PlanCount(plan_id, of_plan) for plan_id, of_plan in counts.items())


def _examples(claimed: DataFrame, plans: Sequence[PlanCount]) -> dict[str, tuple[str, ...]]:
    states = strongest_states(claimed)
    examples = {}
    for state in (Disposition.IN_DOUBT, Disposition.BUSY):
        if any(state in plan.counts for plan in plans):
            rows = states.where(F.col("state") == state).orderBy("message_id").limit(EXAMPLES)
            examples[str(state)] = tuple(row["message_id"] for row in rows.collect())
    return examples
