"""Group messages by failure, aggregate the groups, and sample them for the search for leads.

The sample is limited in messages and bytes, and the same in each run: a message is in it if the
number that its id decides (``chance``) is below the rate of its group. Half of the sample is split
evenly among the largest groups; the other half is drawn from all messages at the same rate. So each
sampled message stands for the count of its group divided by the group's sampled messages.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.archive.messages.frames import FILE, local_frame, read_some
from dlq.archive.storage.files import Archive
from dlq.explain.grouping import OTHERS, Grouping
from dlq.explain.signature.signature import PARKED_BY_SQS, SIGNED, Reasons, keys_of

SLIM_COLUMNS = (
    "message_id",
    "sent_at",
    "first_seen_at",
    "replay_count",
    "parked_reason",
    "source_queue",
    "source_arn",
    "body_bytes",
)

MOST_KEYS = 50_000
"""So many different keys the driver takes along; messages with a rarer one are in ``OTHERS``."""

SAMPLED_MESSAGES = 40_000
SAMPLED_BYTES = 160 * 1024 * 1024
_MOST_OF_A_GROUP = 2000
_ACCURACY = 500
_QUANTILES = (0, 0.05, 0.5, 0.95, 1)
_VALUES = 100


def with_keys(
    spark: SparkSession,
    archive: Archive,
    messages: pa.Table,
    reasons: Reasons,
    kept: Sequence[str],
) -> DataFrame:
    """Read the columns *kept* of each message, and its ``Signature.group_key`` as ``key``.

    *messages* are as for ``read_some``; *reasons* as for ``signature.reason_of``.
    """
    types = {FILE: pa.string(), **dict(zip(ARROW_SCHEMA.names, ARROW_SCHEMA.types, strict=True))}
    schema = pa.schema([*((name, types[name]) for name in kept), ("key", pa.string())])

    def sign(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys = keys_of(*(batch[name] for name in SIGNED), reasons=reasons)
            yield batch.select(kept).append_column("key", keys)

    # Python reads and signs in one pass: it takes longer to bring the bodies through the JVM.
    return read_some(spark, archive, messages, (*kept, *SIGNED), (sign, schema))


def with_groups(
    keyed: DataFrame,
    kept: Sequence[str],
    assign: Callable[[Mapping[str, int]], Grouping],
    *,
    is_few: bool,
) -> tuple[DataFrame, Grouping]:
    """Return the columns *kept* of each message and its ``group_id``; and what *assign* returned.

    *keyed* is what ``with_keys`` returned. *assign* takes the number of messages of each key.
    """
    spark = keyed.sparkSession
    if is_few:
        table = keyed.toArrow()
        keys = list(map(str, table["key"].to_pylist()))
        grouping = assign(Counter(keys))
        ids = pa.array([grouping.ids[key] for key in keys], pa.string())
        return local_frame(spark, table.select(kept).append_column("group_id", ids)), grouping
    order = F.desc("count"), F.col("key")
    counted = keyed.groupBy("key").count().orderBy(*order).limit(MOST_KEYS).toArrow()
    counts = dict(zip(*(column.to_pylist() for column in counted.columns), strict=True))
    grouping = assign(counts)
    # Without a type, empty columns have none.
    columns = [pa.array(column, pa.string()) for column in (grouping.ids, grouping.ids.values())]
    group_ids = spark.createDataFrame(pa.table(columns, ["key", "group_id"]))
    found = keyed.join(F.broadcast(group_ids), "key", "left")
    return found.select(*kept, F.coalesce("group_id", F.lit(OTHERS)).alias("group_id")), grouping


def chance() -> Column:
    """A number of each message in [0, 1) that its id alone decides."""
    return F.pmod(F.xxhash64("message_id"), F.lit(1 << 40)) / float(1 << 40)


def group_rows(slim: DataFrame) -> list[dict[str, Any]]:
    """One row per group, the largest first: its numbers, and ids of messages that show it best.

    *slim* has ``SLIM_COLUMNS`` and ``group_id`` of each message.

    Returns:
        ``group_id, count, body_bytes_sum``; ``_QUANTILES`` of ``body_bytes`` and of ``failed_at``
        (the first failure that is known of, epoch seconds), null where no message has it;
        ``first_sent_at, last_sent_at``; ``shown``: up to five message ids: the
        first sent, the last, the shortest, the longest, and one by chance.
    """
    numbers = {
        "body_bytes": F.col("body_bytes").cast("double"),
        "failed_at": F.least("first_seen_at", "sent_at").cast("double"),
    }
    by_time = F.struct("sent_at", "message_id")
    by_size = F.struct("body_bytes", "message_id")
    by_chance = F.struct(chance(), "message_id")
    shown = [F.min(by_time), F.max(by_time), F.min(by_chance), F.min(by_size), F.max(by_size)]
    groups = slim.groupBy("group_id").agg(
        F.count("*").alias("count"),
        F.sum("body_bytes").alias("body_bytes_sum"),
        F.min("sent_at").alias("first_sent_at"),
        F.max("sent_at").alias("last_sent_at"),
        *(
            F.percentile_approx(number, list(_QUANTILES), _ACCURACY).alias(name)
            for name, number in numbers.items()
        ),
        F.array_distinct(F.array(*(one["message_id"] for one in shown))).alias("shown"),
    )
    # Spark would aggregate twice to sort: once for the ranges of each task.
    rows = groups.toArrow().sort_by([("count", "descending"), ("group_id", "ascending")])
    return rows.to_pylist()


def different_messages(slim: DataFrame) -> int:
    """Count messages with different first ids; *slim* has ``first_id`` and ``message_id``."""
    first_id = F.xxhash64(F.coalesce("first_id", "message_id"))
    return int(slim.agg(F.count_distinct(first_id)).toArrow()[0][0].as_py())


def tallies(slim: DataFrame, bucket: Column) -> pa.Table:
    """Return ``group_id, column, value, count``: the 100 most frequent values in each group.

    *slim* is as for ``group_rows``; *bucket* is the number of each message's time bucket. A value
    is a text, or null.
    """
    values = {
        "reason": F.coalesce("parked_reason", F.lit(PARKED_BY_SQS)),
        "source": F.coalesce("source_queue", "source_arn"),
        "replay_count": F.col("replay_count"),
        "bucket": bucket,
    }
    rows = slim.select("group_id", *(v.cast("string").alias(name) for name, v in values.items()))
    counted = rows.unpivot("group_id", list(values), "column", "value")
    counted = counted.groupBy("group_id", "column", "value").count()
    order = F.desc("count"), F.col("value")
    rank = F.row_number().over(Window.partitionBy("group_id", "column").orderBy(*order))
    return (
        counted.withColumn("_rank", rank).where(F.col("_rank") <= _VALUES).drop("_rank").toArrow()
    )


def sampling_rates(counts: Mapping[str, int], body_bytes: int) -> dict[str, float]:
    """Return the rate at which each group is sampled; *body_bytes* is the size of all messages."""
    messages = max(sum(counts.values()), 1)
    size = min(SAMPLED_MESSAGES, SAMPLED_BYTES / max(body_bytes / messages, 1.0))
    for_all = min(1.0, size / 2 / messages)
    of_each = _equal_part(list(counts.values()), size / 2)
    return {one: min(1.0, max(for_all, of_each / count)) for one, count in counts.items()}


def _equal_part(counts: Sequence[int], size: float) -> float:
    """Return how many messages of each group fit *size*, with what small groups do not need."""
    left, groups = size, len(counts)
    for count in sorted(counts):
        if count * groups > left:
            return min(left / groups, _MOST_OF_A_GROUP)
        left, groups = left - count, groups - 1
    return _MOST_OF_A_GROUP


def picked(slim: DataFrame, rates: Mapping[str, float], shown: Sequence[list[str]]) -> DataFrame:
    """Return the messages to sample or show: few enough for each task to take all along.

    *shown* are the ids of each group in *rates*. Returns ``message_id, file, group_id, chance,
    is_sampled, is_shown``.
    """
    of_groups = slim.sparkSession.createDataFrame(
        pa.table({"group_id": list(rates), "rate": list(rates.values()), "shown": shown})
    )
    return (
        slim.select("message_id", FILE, "group_id", chance().alias("chance"))
        .join(F.broadcast(of_groups), "group_id")
        .select(
            *("message_id", FILE, "group_id", "chance"),
            (F.col("chance") < F.col("rate")).alias("is_sampled"),
            F.array_contains("shown", F.col("message_id")).alias("is_shown"),
        )
        .where("is_sampled OR is_shown")
    )
