"""What order means, of messages in a FIFO message group. DataFrame to DataFrame, pure.

Within one parked queue and one message group, messages go in the order in which SQS received them.
So a message that stays keeps those behind it, a group is chosen as a whole or not at all, and what
a task sends in turn is cut by positions. Messages without a message group have no order.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.ledger.claims import POSITION
from spark_reprocess.archive.ledger.disposition import WORK, Disposition

ORDER_COLUMNS = ("message_id", "message_group_id", "sequence_number", "sent_at")
"""What tells a message's place in its message group."""

PARKED_QUEUE = "parked_queue"
"""A column: account and name of the parked queue that a message was drained from."""

DETAIL = "detail"
"""A column beside ``disposition``: which queue, source, message or fault is in the way; or null."""

_MESSAGE_GROUP = "_message_group"

_UNIT_MESSAGES = 1000
_MOST_UNITS = 64

_PASSES = tuple(one for one in Disposition if not one.blocks_group)
"""Anything else blocks its message group, also what has no disposition: it is not in the plan."""


def arrival_order() -> list[Column]:
    """Return what to sort by for the order in which SQS received the messages of a message group.

    Sequence numbers are decimal digits without leading zeros, so the longer one is greater.
    Messages of standard queues have none and are sorted by time and id.
    """
    names = ("sequence_number", "sent_at", "message_id")
    return [F.length("sequence_number"), *map(F.col, names)]


def parked_queue() -> Column:
    """``PARKED_QUEUE`` of an archived message: the last two parts of its queue URL's path."""
    return F.substring_index(F.rtrim("queue_url", F.lit("/")), "/", -2)


def in_order_units(messages: int) -> int:
    """How many units the message groups of so many messages have: 1 to 64."""
    return max(1, min(_MOST_UNITS, messages // _UNIT_MESSAGES))


def with_positions(rows: DataFrame, units: int | None) -> DataFrame:
    """Add ``unit`` and ``position``: null for messages without a message group.

    Each of so many *units* is a share of the message groups, by a hash of their ids; *units* is
    None where no message needs an order. A position is the place in the unit, from 0, as SQS
    received the messages.
    """
    if units is None:
        nothing = {"unit": F.lit(None).cast("string"), "position": F.lit(None).cast("long")}
        return rows.withColumns(nothing)
    has_group = F.col("message_group_id").isNotNull()
    share = F.crc32(F.col("message_group_id").cast("binary")) % units
    order = Window.partitionBy("unit").orderBy(*arrival_order())
    in_order = (
        rows.where(has_group)
        .withColumn("unit", F.format_string("in-order-%02d", share))
        .withColumn("position", F.row_number().over(order).cast("long") - 1)
    )
    return in_order.unionByName(rows.where(~has_group), allowMissingColumns=True)


def with_waiting(dispositions: DataFrame, pending: DataFrame | None = None) -> DataFrame:
    """Let each message wait that stands behind one of its message group that stays.

    What stays is what is neither sent nor discarded nor restored, now or before: a message that the
    plan leaves, one of another plan, one that cannot be sent. ``DETAIL`` names the first such one.
    Messages of different parked queues do not wait for each other.

    Args:
        dispositions: the plan's messages, with ``ORDER_COLUMNS`` and ``PARKED_QUEUE``.
        pending: the same columns of the archive's other messages that nobody has decided about;
            None where there is none.
    """
    order = F.struct(*arrival_order())
    rows = dispositions
    if pending is not None:
        rows = dispositions.unionByName(
            pending.withColumn("disposition", F.lit("")), allowMissingColumns=True
        )
    earlier = (
        Window.partitionBy(PARKED_QUEUE, "message_group_id")
        .orderBy(order)
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    stays = F.when(~F.col("disposition").isin(*_PASSES), order)
    first = F.min(stays).over(earlier)["message_id"]
    marked = rows.withColumn("_first", first)
    waits = (F.col("disposition") == Disposition.SEND) & F.col("_first").isNotNull()
    return (
        marked.where(F.col("disposition") != "")
        .withColumn(DETAIL, F.when(waits, F.col("_first")).otherwise(F.col(DETAIL)))
        .withColumn("disposition", F.when(waits, Disposition.WAITS).otherwise(F.col("disposition")))
        .drop("_first")
    )


def keep_groups_whole(dispositions: DataFrame) -> DataFrame:
    """Leave the message groups of which a run's condition takes only a part."""
    group = Window.partitionBy("message_group_id")
    is_part = F.max(F.col("disposition") == Disposition.NOT_SELECTED).over(group)
    is_split = F.col("message_group_id").isNotNull() & _is_work() & is_part
    return _refuse(dispositions, is_split, Disposition.SPLIT_GROUP)


def limited(dispositions: DataFrame, limit: int, *, to_fifo: bool) -> DataFrame:
    """Let at most *limit* messages make work: the first by ``POSITION``.

    On FIFO whole message groups, in the order of their first messages. A group of more than *limit*
    messages does not go; the others behind it may. Elsewhere each message is a group.
    """
    group = F.coalesce("message_group_id", "message_id") if to_fifo else F.col("message_id")
    grouped = dispositions.withColumn(_MESSAGE_GROUP, group)
    order = ("_first", _MESSAGE_GROUP)
    # Each group has a message, so no more groups than *limit* can go.
    first = (
        grouped.where(_is_work())
        .groupBy(_MESSAGE_GROUP)
        .agg(F.count("*").alias("_work"), F.min(F.struct(*POSITION)).alias("_first"))
        .where(F.col("_work") <= limit)
        .orderBy(*order)
        .limit(limit)
    )
    up_to_here = F.sum("_work").over(Window.orderBy(*order))
    within = first.select(_MESSAGE_GROUP, (up_to_here <= limit).alias("_is_within"))
    marked = grouped.join(within, on=_MESSAGE_GROUP, how="left")
    over = _is_work() & ~F.coalesce("_is_within", F.lit(False))  # noqa: FBT003 - a value
    return _refuse(marked, over, Disposition.OVER_LIMIT).drop(_MESSAGE_GROUP, "_is_within")


def _refuse(dispositions: DataFrame, condition: Column, disposition: Disposition) -> DataFrame:
    return dispositions.withColumn(
        "disposition", F.when(condition, disposition).otherwise(F.col("disposition"))
    )


def _is_work() -> Column:
    return F.col("disposition").isin(*WORK)
