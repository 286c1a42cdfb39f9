"""Which messages of a plan go ahead as its canary, and what is left once it is judged."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.canary.options import CanaryOptions, Redelivery
from spark_reprocess.canary.sample import CanarySample, allocate
from spark_reprocess.redrive.dispositions import (
    has_room,
    with_waiting,
)
from spark_reprocess.redrive.run_context import RunContext

_UNSETTLED = (Disposition.BUSY, Disposition.IN_DOUBT, Disposition.WAITS, Disposition.EDIT_FAILED)


@dataclass(frozen=True, slots=True)
class Sample:
    """A canary's messages: *rows* are the plan's dispositions, with ``first_id``. Persisted."""

    drawn: CanarySample
    rows: DataFrame


@contextmanager
def drawn_sample(
    dispositions: DataFrame,
    messages: DataFrame,
    to_send: Mapping[str, int],
    context: RunContext,
    options: CanaryOptions,
    redelivery: Redelivery,
) -> Iterator[Sample]:
    """Draw a canary of so many messages, for as long as the block lasts.

    Args:
        dispositions: of the plan's messages.
        messages: their rows in the archive.
        to_send: how many are to be sent, by group id.
        context: the run's.
        options: of the canary.
        redelivery: of the destination.

    Raises:
        InputError: a failure may need longer to show than the operator wants to wait.
    """
    total = options.size.at_least(sum(to_send.values()))
    candidates = canary_candidates(
        dispositions,
        messages,
        max_message_bytes=context.room_bytes,
        to_fifo=context.to_fifo,
    )
    allocation = allocate(_counts(candidates), max(1, total))
    rows = canary_sample(candidates, allocation, context.plan_id, to_fifo=context.to_fifo).persist()
    try:
        counts = _counts(rows)
        allowed = max((options.max_return.at_most(count) for count in counts.values()), default=0)
        wait_seconds = options.wait(redelivery, allowed + 1 if context.to_fifo else 1)
        without = tuple(sorted(to_send.keys() - counts.keys()))
        stale_seconds = options.stale_seconds(redelivery)
        yield Sample(CanarySample(counts, without, stale_seconds, wait_seconds), rows)
    finally:
        rows.unpersist()


def canary_candidates(
    dispositions: DataFrame, messages: DataFrame, *, max_message_bytes: int, to_fifo: bool
) -> DataFrame:
    """The messages that may go ahead: those to be sent that have room for counter and context.

    For a FIFO queue whole message groups, of which every message may.

    Returns:
        The rows of *dispositions* with ``first_id``.
    """
    room = messages.select("message_id", "first_id", has_room(max_message_bytes).alias("room"))
    known = dispositions.join(room, on="message_id", how="inner")
    if to_fifo:
        whole = Window.partitionBy("message_group_id")
        is_obstacle = F.col("disposition").isin(*_UNSETTLED) | (_is_sent() & ~F.col("room"))
        known = known.withColumn("room", ~F.max(is_obstacle).over(whole))
    return known.where(_is_sent() & F.col("room")).drop("room")


def canary_sample(
    candidates: DataFrame, allocation: Mapping[str, int], seed: str, *, to_fifo: bool
) -> DataFrame:
    """Draw so many messages of each group, by chance but the same for the same *seed*.

    For a FIFO queue it draws message groups until each group has its number; of those that are
    larger than that it takes one only where there is no smaller.
    """
    spark = candidates.sparkSession
    wanted = spark.createDataFrame(list(allocation.items()), "group_id string, wanted long")
    known = candidates.join(F.broadcast(wanted), on="group_id", how="inner")
    if not to_fifo:
        chance = Window.partitionBy("group_id").orderBy(_chance("message_id", seed), "message_id")
        ranked = known.withColumn("rank", F.row_number().over(chance))
        return ranked.where(F.col("rank") <= F.col("wanted")).drop("rank", "wanted")
    sizes = known.groupBy("group_id", "message_group_id", "wanted").agg(F.count("*").alias("size"))
    chance = Window.partitionBy("group_id").orderBy(
        F.col("size") > F.col("wanted"), _chance("message_group_id", seed), "message_group_id"
    )
    before = F.sum("size").over(chance) - F.col("size")
    drawn = sizes.withColumn("before", before).where(F.col("before") < F.col("wanted"))
    return known.drop("wanted").join(
        drawn.select("message_group_id").distinct(), on="message_group_id", how="left_semi"
    )


def after_canary(
    dispositions: DataFrame, settled: Sequence[str], stopped: Iterable[str], *, in_order: bool
) -> DataFrame:
    """What is left to do when a canary was judged: the rest of the groups that were not *stopped*.

    Args:
        dispositions: the whole plan.
        settled: message ids of the canaries; they are no part of the rest.
        stopped: group ids.
        in_order: whether what stands behind a message of a stopped group waits.
    """
    table = pa.table({"message_id": pa.array(settled, pa.string())})
    ids = F.broadcast(dispositions.sparkSession.createDataFrame(table))
    rest = dispositions.join(ids, on="message_id", how="left_anti")
    is_stopped = _is_sent() & F.col("group_id").isin(*stopped)
    judged = rest.withColumn(
        "disposition", F.when(is_stopped, Disposition.STOPPED).otherwise(F.col("disposition"))
    )
    return with_waiting(judged) if in_order else judged


def _counts(rows: DataFrame) -> dict[str, int]:
    found = rows.groupBy("group_id").count().collect()
    return {row["group_id"]: row["count"] for row in sorted(found)}


def _is_sent() -> Column:
    return F.col("disposition") == Disposition.SEND


def _chance(column: str, seed: str) -> Column:
    return F.xxhash64(F.lit(seed), F.col(column))
