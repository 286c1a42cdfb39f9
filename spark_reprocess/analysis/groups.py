"""DataFrame to DataFrame: the groups of failures and their numbers. Pure; imports pyspark only.

Everything is summed twice, by group and reason and then by group, so that one pass over the
messages gives both the totals and the counts by reason.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

_SAMPLE_CHARACTERS = 4000
"""Kept of a sample until it is masked; more than is ever shown, so no secret is cut in two."""

_LEAST = ("first_sent_at", "replay_count_min", "body_bytes_min", "_first", "_other")
_GREATEST = ("last_sent_at", "replay_count_max", "body_bytes_max", "_last")


def summarize_groups(grouped: DataFrame, unnamed_reason: str) -> DataFrame:
    """One row per group, the largest first.

    Args:
        grouped: messages of the archive with ``group_id`` and ``title``.
        unnamed_reason: what to call the reason of a message that has none.

    Returns:
        ``group_id, title, count, first_sent_at, last_sent_at, reasons`` (map of reason to count),
        ``replay_count_min, replay_count_max, body_bytes_min, body_bytes_max, sources`` (ARNs of
        the queues that SQS moved them from) and ``samples`` (up to three bodies: the first, the
        last, and one that only its message id chose; cut to 4,000 characters, not masked).
    """
    return _by_group(_by_reason(_columns(grouped, unnamed_reason)))


def _columns(grouped: DataFrame, unnamed_reason: str) -> DataFrame:
    sample = F.substring("body", 1, _SAMPLE_CHARACTERS)
    by_time = F.struct("sent_at", "message_id", sample.alias("sample"))
    by_chance = F.struct(F.xxhash64("message_id"), "message_id", sample.alias("sample"))
    return grouped.select(
        "group_id",
        "title",
        F.coalesce("parked_reason", F.lit(unnamed_reason)).alias("reason"),
        "source_arn",
        F.col("sent_at").alias("first_sent_at"),
        F.col("sent_at").alias("last_sent_at"),
        F.col("replay_count").alias("replay_count_min"),
        F.col("replay_count").alias("replay_count_max"),
        F.col("body_bytes").alias("body_bytes_min"),
        F.col("body_bytes").alias("body_bytes_max"),
        by_time.alias("_first"),
        by_time.alias("_last"),
        by_chance.alias("_other"),
    )


def _by_reason(rows: DataFrame) -> DataFrame:
    return rows.groupBy("group_id", "reason").agg(
        F.min("title").alias("title"),
        F.count("*").alias("count"),
        F.collect_set("source_arn").alias("sources"),
        *_extremes(),
    )


def _by_group(parts: DataFrame) -> DataFrame:
    counted = F.sort_array(F.collect_list(F.struct("reason", "count")))
    groups = parts.groupBy("group_id").agg(
        F.min("title").alias("title"),
        F.sum("count").alias("count"),
        F.map_from_entries(counted).alias("reasons"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("sources")))).alias("sources"),
        *_extremes(),
    )
    samples = F.array_distinct(F.array("_first.sample", "_last.sample", "_other.sample"))
    return (
        groups.withColumn("samples", samples)
        .drop("_first", "_last", "_other")
        .orderBy(F.desc("count"), "group_id")
    )


def _extremes() -> list[Column]:
    return [
        *(F.min(name).alias(name) for name in _LEAST),
        *(F.max(name).alias(name) for name in _GREATEST),
    ]
