"""The state of every message as a DataFrame, from the ledgers of all plans.

Tasks read the files; the driver only lists them. ``ledger.states_of`` says what a state is, and the
columns here say the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema

from spark_reprocess.archive.compaction import CompactedFile, ledger_files, read_attempts
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import (
    OUTCOMES,
    STRENGTH,
    AttemptName,
    state_after,
    states_of,
)
from spark_reprocess.errors import ArchiveError

_TYPES: dict[str, pa.DataType] = {
    "message_id": pa.string(),
    "plan_id": pa.string(),
    "state": pa.string(),
    "strength": pa.int32(),
}
_CLAIMED = pa.schema(_TYPES)
_ATTEMPTS_PER_TASK = 500
_ATTEMPTS_PER_BATCH = 50

_OUTCOMES = pa.array([str(one) for one in OUTCOMES])
_STRENGTHS = pa.array(
    [STRENGTH.index(state) if (state := state_after(one)) else None for one in OUTCOMES], pa.int32()
)
"""By index in ``_OUTCOMES``; null for an outcome that leaves a message in the state it had."""


def ledger_states(
    spark: SparkSession, archive: Archive, now_seconds: float, claim_ttl_seconds: float
) -> DataFrame:
    """Return the state of every message that was ever claimed; the others are open.

    Args:
        spark: the session.
        archive: where the ledgers are.
        now_seconds: epoch seconds; what a claim's age is counted to.
        claim_ttl_seconds: from which age a claim without a result is in doubt.

    Returns:
        ``message_id, state, plan_id``: one row per message, *state* a ``State``, *plan_id* of a
        plan that brought it there. Lazy: each action reads the ledgers again. An action raises
        ArchiveError in its task where a file cannot be read.

    Raises:
        ArchiveError: the newest compacted file cannot be read.
    """
    return strongest_states(claimed_messages(spark, archive, now_seconds, claim_ttl_seconds))


def strongest_states(claimed: DataFrame) -> DataFrame:
    """Reduce ``claimed_messages`` to one row per message; see ``ledger_states``."""
    strongest = F.max(F.struct("strength", "plan_id", "state"))
    return (
        claimed.groupBy("message_id")
        .agg(strongest.alias("strongest"))
        .select("message_id", "strongest.state", "strongest.plan_id")
    )


def states_by_plan(claimed: DataFrame) -> DataFrame:
    """Count in ``claimed_messages`` how many messages each plan left in which state.

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
    spark: SparkSession, archive: Archive, now_seconds: float, claim_ttl_seconds: float
) -> DataFrame:
    """Return what each attempt says of its messages; see ``ledger_states`` for the arguments.

    Returns:
        ``message_id, plan_id, state, strength``: a row per attempt and message that it leaves in a
        state; of several the one with the greatest *strength* holds.
    """
    files = ledger_files(archive)
    reader = _Reader(archive, now_seconds, claim_ttl_seconds)
    parts = []
    if files.compacted:
        paths = spark.createDataFrame(pa.table({"path": [files.compacted.path]}))
        parts.append(paths.mapInArrow(reader.compacted, from_arrow_schema(_CLAIMED)))
    if names := files.others:
        table = pa.Table.from_pylist([name._asdict() for name in names])
        tasks = max(spark.sparkContext.defaultParallelism, len(names) // _ATTEMPTS_PER_TASK)
        spread = spark.createDataFrame(table).repartition(tasks)
        parts.append(spread.mapInArrow(reader.attempts, from_arrow_schema(_CLAIMED)))
    # An empty table, unlike an empty list, lets Spark's planner drop the join with it.
    return reduce(DataFrame.union, parts or [spark.createDataFrame(_CLAIMED.empty_table())])


@dataclass(frozen=True, slots=True)
class _Reader:
    """What each task takes along. Spark calls the methods."""

    archive: Archive
    now_seconds: float
    claim_ttl_seconds: float

    def compacted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the compacted files at these paths, of which there is one."""
        for row in (row for batch in batches for row in batch.to_pylist()):
            file = CompactedFile.open(self.archive, row["path"])
            yield from map(self._states_of_rows, file.batches(["plan_id", "messages"]))

    def _states_of_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        messages = batch.column("messages")
        each = pc.list_flatten(messages)
        outcomes = pc.fill_null(pc.struct_field(each, "outcome"), str(Disposition.IN_DOUBT))
        known = pc.index_in(outcomes, value_set=_OUTCOMES)
        if known.null_count:
            # To leave the message out would be to call it open, and to send it again.
            raise ArchiveError(
                f"archive {self.archive.root}: the compacted ledger has an outcome that this "
                "version of the program does not know; update the program"
            )
        strengths = _STRENGTHS.take(known)
        columns = [
            pc.struct_field(each, "message_id"),
            batch.column("plan_id").take(pc.list_parent_indices(messages)),
            pa.array(STRENGTH, pa.string()).take(strengths),
            strengths,
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=_CLAIMED)
        return rows.filter(strengths.is_valid())

    def attempts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the claims and results of these attempts."""
        for batch in batches:
            for start in range(0, batch.num_rows, _ATTEMPTS_PER_BATCH):
                rows = batch.slice(start, _ATTEMPTS_PER_BATCH).to_pylist()
                found = read_attempts(self.archive, [AttemptName(**row) for row in rows])
                states = [
                    {
                        "message_id": message_id,
                        "plan_id": name.plan_id,
                        "state": state.value,
                        "strength": STRENGTH.index(state),
                    }
                    for name, attempt in found
                    for message_id, state in states_of(
                        [attempt], self.now_seconds, self.claim_ttl_seconds
                    ).items()
                ]
                yield pa.RecordBatch.from_pylist(states, schema=_CLAIMED)
