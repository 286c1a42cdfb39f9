"""The state of every message as a DataFrame, from the ledgers of all plans.

Tasks read the files; the driver only lists them. ``ledger.states_of`` says what a state is, and the
columns here say the same.
"""

from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema

from spark_reprocess.archive.claimed_states import CLAIMED, ClaimReader
from spark_reprocess.archive.compaction import ledger_files
from spark_reprocess.archive.files import Archive

_ATTEMPTS_PER_TASK = 500


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
    strongest = F.max(F.struct("strength", "plan_id", "state"))
    return (
        claimed_messages(spark, archive, now_seconds, claim_ttl_seconds)
        .groupBy("message_id")
        .agg(strongest.alias("strongest"))
        .select("message_id", "strongest.state", "strongest.plan_id")
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
    reader = ClaimReader(archive, now_seconds, claim_ttl_seconds)
    parts = []
    if files.compacted:
        paths = spark.createDataFrame(pa.table({"path": [files.compacted.path]}))
        parts.append(paths.mapInArrow(reader.compacted, from_arrow_schema(CLAIMED)))
    if names := files.others:
        table = pa.Table.from_pylist([name._asdict() for name in names])
        tasks = max(spark.sparkContext.defaultParallelism, len(names) // _ATTEMPTS_PER_TASK)
        spread = spark.createDataFrame(table).repartition(tasks)
        parts.append(spread.mapInArrow(reader.attempts, from_arrow_schema(CLAIMED)))
    # An empty table, unlike an empty list, lets Spark's planner drop the join with it.
    return reduce(DataFrame.union, parts or [spark.createDataFrame(CLAIMED.empty_table())])
