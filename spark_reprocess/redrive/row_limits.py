"""DataFrame to DataFrame: how much of a plan's work one run takes, by `--where` and `--limit`.

A FIFO message group goes whole or not at all: a part that goes first would overtake the rest.
Nothing here brings all rows into one partition.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.disposition import WORK, Disposition

_LANE = "_lane"


def keep_groups_whole(dispositions: DataFrame) -> DataFrame:
    """Leave the message groups of which a run's condition takes only a part."""
    group = Window.partitionBy("message_group_id")
    is_part = F.max(F.col("disposition") == Disposition.NOT_SELECTED).over(group)
    is_split = F.col("message_group_id").isNotNull() & _is_work() & is_part
    return _refuse(dispositions, is_split, Disposition.SPLIT_GROUP)


def limited(dispositions: DataFrame, limit: int, *, to_fifo: bool) -> DataFrame:
    """Let at most *limit* messages make work: the first of the plan's order.

    On FIFO whole message groups, in the order of their first messages. A group of more than *limit*
    messages does not go; the others behind it may.
    """
    return (
        _limited_groups(dispositions, limit) if to_fifo else _limited_messages(dispositions, limit)
    )


def _limited_messages(dispositions: DataFrame, limit: int) -> DataFrame:
    """Rank each message in its chunk, and the chunks, of which there are a hundred times fewer."""
    chunks = (
        dispositions.where(_is_work()).groupBy("unit", "chunk").agg(F.count("*").alias("_work"))
    )
    starts = chunks.select("unit", "chunk", _sum_before("_work", "unit", "chunk").alias("_before"))
    in_chunk = Window.partitionBy("unit", "chunk").orderBy("place")
    ranked = dispositions.join(starts, on=["unit", "chunk"], how="left").withColumn(
        "_rank", F.col("_before") + F.sum(_is_work().cast("int")).over(in_chunk)
    )
    return _refuse(ranked, _is_work() & (F.col("_rank") > limit), Disposition.OVER_LIMIT).drop(
        "_before", "_rank"
    )


def _limited_groups(dispositions: DataFrame, limit: int) -> DataFrame:
    """Rank each group in its unit, and the units, of which there are few."""
    laned = dispositions.withColumn(_LANE, F.coalesce("message_group_id", "message_id"))
    groups = (
        laned.where(_is_work())
        .groupBy("unit", _LANE)
        .agg(F.count("*").alias("_work"), F.min("place").alias("_first"))
        .where(F.col("_work") <= limit)
    )
    units = groups.groupBy("unit").agg(F.sum("_work").alias("_of_unit"))
    starts = units.select("unit", _sum_before("_of_unit", "unit").alias("_before"))
    up_to_here = F.sum("_work").over(Window.partitionBy("unit").orderBy("_first"))
    within = (
        groups.withColumn("_up_to_here", up_to_here)
        .join(starts, on="unit")
        .where(F.col("_before") + F.col("_up_to_here") <= limit)
        .select("unit", _LANE, F.lit(True).alias("_is_within"))  # noqa: FBT003 - a value
    )
    marked = laned.join(within, on=["unit", _LANE], how="left")
    over = _is_work() & F.col("_is_within").isNull()
    return _refuse(marked, over, Disposition.OVER_LIMIT).drop(_LANE, "_is_within")


def _sum_before(count: str, *order: str) -> Column:
    earlier = Window.orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    return F.coalesce(F.sum(count).over(earlier), F.lit(0))


def _refuse(dispositions: DataFrame, condition: Column, disposition: Disposition) -> DataFrame:
    return dispositions.withColumn(
        "disposition", F.when(condition, disposition).otherwise(F.col("disposition"))
    )


def _is_work() -> Column:
    return F.col("disposition").isin(*WORK)
