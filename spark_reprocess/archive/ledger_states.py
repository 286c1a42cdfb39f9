"""The ledgers of an archive as frames: each task reads claims and results, the driver only names.

What a message's state is, ``ledger.states_of`` says; here the same is said of all messages at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import STRENGTH, AttemptName, Ledger, attempt_names, states_of
from spark_reprocess.errors import ArchiveError

CLAIMED_SCHEMA = "message_id string, plan_id string, state string, strength int"
_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("message_id", pa.string()),
    pa.field("plan_id", pa.string()),
    pa.field("state", pa.string()),
    pa.field("strength", pa.int32()),
]
_ARROW = pa.schema(_FIELDS)
_CONCURRENT_READS = 8
_ATTEMPTS_PER_TASK = 500
_ATTEMPTS_PER_BATCH = 50


def ledger_states(
    spark: SparkSession,
    archive: Archive,
    now_seconds: float,
    claim_ttl_seconds: float,
    plan_ids: Sequence[str] | None = None,
) -> DataFrame:
    """Tell the state of every message that was ever claimed; the others are open.

    Args:
        spark: the session.
        archive: where the ledgers are.
        now_seconds: epoch seconds; what a claim's age is counted to.
        claim_ttl_seconds: from which age a claim without a result is in doubt.
        plan_ids: only the ledgers of these plans, None for all. Only all of them tell whether a
            message may be sent.

    Returns:
        ``message_id, state, plan_id``: one row per message, *state* a ``State``, *plan_id* of a
        plan that brought it there. Lazy: each action reads the ledgers again. An action raises
        ArchiveError in its task where a file cannot be read.
    """
    return strongest_states(
        claimed_messages(spark, archive, now_seconds, claim_ttl_seconds, plan_ids)
    )


def strongest_states(claimed: DataFrame) -> DataFrame:
    """Keep of ``claimed_messages`` the state of each message that holds, as ``ledger_states``."""
    strongest = F.max(F.struct("strength", "plan_id", "state"))
    return (
        claimed.groupBy("message_id")
        .agg(strongest.alias("strongest"))
        .select("message_id", "strongest.state", "strongest.plan_id")
    )


def states_by_plan(claimed: DataFrame) -> DataFrame:
    """Count of ``claimed_messages``, by plan, how many messages each left in which state.

    Returns:
        ``plan_id, state, count``.
    """
    strongest = F.max(F.struct("strength", "state"))
    return (
        claimed.groupBy("plan_id", "message_id")
        .agg(strongest.alias("strongest"))
        .groupBy("plan_id", "strongest.state")
        .count()
    )


def claimed_messages(
    spark: SparkSession,
    archive: Archive,
    now_seconds: float,
    claim_ttl_seconds: float,
    plan_ids: Sequence[str] | None = None,
) -> DataFrame:
    """Tell what each attempt says of its messages; arguments are those of ``ledger_states``.

    Returns:
        ``message_id, plan_id, state, strength``: a row per attempt and message that it leaves in a
        state; of several the one with the greatest *strength* holds.
    """
    names = attempt_names(archive, plan_ids)
    if not names:
        # An empty table, unlike an empty list, lets Spark's planner drop the join with it.
        return spark.createDataFrame(_ARROW.empty_table())
    table = pa.Table.from_pylist([name._asdict() for name in names])
    tasks = max(spark.sparkContext.defaultParallelism, len(names) // _ATTEMPTS_PER_TASK)
    reader = _AttemptReader(archive, now_seconds, claim_ttl_seconds)
    return spark.createDataFrame(table).repartition(tasks).mapInArrow(reader.read, CLAIMED_SCHEMA)


@dataclass(frozen=True, slots=True)
class _AttemptReader:
    """What each task takes along; ``read`` is what Spark calls."""

    archive: Archive
    now_seconds: float
    claim_ttl_seconds: float

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="ledger") as executor:
            for batch in batches:
                for start in range(0, batch.num_rows, _ATTEMPTS_PER_BATCH):
                    rows = batch.slice(start, _ATTEMPTS_PER_BATCH).to_pylist()
                    names = [AttemptName(**row) for row in rows]
                    found = executor.map(self._states, names)
                    yield pa.RecordBatch.from_pylist(
                        [row for of_attempt in found for row in of_attempt], schema=_ARROW
                    )

    def _states(self, name: AttemptName) -> list[dict[str, object]]:
        attempt = Ledger(self.archive, name.plan_id).attempt(name)
        if attempt is None:
            # Never open: the driver has listed the claim, so this executor sees another place.
            raise ArchiveError(
                f"archive {self.archive.root}: the claim of attempt {name.number} at chunk "
                f"{name.chunk} of {name.unit} in plan {name.plan_id} was there and is gone; the "
                "driver and all executors must share the archive"
            )
        states = states_of([attempt], self.now_seconds, self.claim_ttl_seconds)
        return [
            {
                "message_id": message_id,
                "plan_id": name.plan_id,
                "state": state.value,
                "strength": STRENGTH.index(state),
            }
            for message_id, state in states.items()
        ]
