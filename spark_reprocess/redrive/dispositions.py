"""DataFrame to DataFrame: what a plan means for each of its messages at this moment. Pure.

A *disposition* is one word. Two of them make work, the others say why there is none.
"""

from collections.abc import Collection, Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.attributes import MAX_ATTRIBUTES
from dlq_replay.context import CONTEXT_ATTRIBUTE, CONTEXT_MAX_BYTES
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from spark_reprocess.archive.disposition import WORK, Disposition
from spark_reprocess.archive.frames import arrival_order
from spark_reprocess.archive.ledger import CHUNK_MESSAGES, PLACES, POSITION
from spark_reprocess.redrive.editor import FAULT
from spark_reprocess.redrive.queues import PARKED_QUEUE, SOURCE_COLUMNS, Queues

DETAIL = "detail"
"""A column beside ``disposition``: which queue, source, message or fault is in the way; or null."""

DESTINATION = "destination"
"""A column: URL of the queue that a message goes to; null where it must go nowhere."""

_MESSAGE_GROUP = "_message_group"

_OURS = (CONTEXT_ATTRIBUTE, REPLAY_COUNT_ATTRIBUTE)
_OURS_BYTES = CONTEXT_MAX_BYTES + 64
"""More than names, types and values of our two attributes can take."""

_PASSES = tuple(one for one in Disposition if not one.blocks_group)
"""Anything else blocks its message group, also what has no disposition: it is not in the plan."""


def has_room(max_message_bytes: int | Column) -> Column:
    """Whether an archived message can carry counter and context within *max_message_bytes*."""
    own = F.map_filter("attributes", lambda name, _: ~name.isin(*_OURS))
    sizes = F.transform(F.map_entries(own), _attribute_bytes)
    size = F.aggregate(sizes, F.lit(0).cast("long"), lambda total, one: total + one)
    has_slots = F.size(own) + len(_OURS) <= MAX_ATTRIBUTES
    fits = F.col("body_bytes") + size + _OURS_BYTES <= max_message_bytes
    return F.coalesce(has_slots & fits, F.lit(True))  # noqa: FBT003 - a value; no attributes


def _attribute_bytes(entry: Column) -> Column:
    value = entry["value"]
    text, data = F.octet_length(value["string_value"]), F.octet_length(value["binary_value"])
    names = F.octet_length(entry["key"]) + F.octet_length(value["data_type"])
    return (names + F.coalesce(text, data, F.lit(0))).cast("long")


def with_chunks(positioned: DataFrame, chunks: int, step: str = "") -> DataFrame:
    """Put ``POSITION`` in place of ``unit`` and ``position``, see ``with_positions``.

    Messages with a position are in chunks of 100, in their order. The others are spread over so
    many *chunks* by the first eight bytes of the SHA-256 of their id; the next two are their place.
    So it depends on nothing but the id in which chunk a message is, and where. *step* ends the
    names of the units of a ramp's step.
    """
    position = F.col("position")
    chunk = F.coalesce(F.floor(position / CHUNK_MESSAGES), _of_digest(1, 16) % chunks)
    place = F.coalesce(position % CHUNK_MESSAGES, _of_digest(17, 4) % PLACES)
    unit = F.concat(F.coalesce("unit", F.lit(f"of-{chunks}")), F.lit(step))
    return positioned.withColumns(
        {"unit": unit, "chunk": chunk.cast("long"), "place": place.cast("long")}
    ).drop("position")


def _of_digest(first: int, digits: int) -> Column:
    """Return so many hex digits of the SHA-256 of a message's id, from the *first* on, from 1."""
    part = F.substring(F.sha2("message_id", 256), first, digits)
    return F.conv(part, 16, 10).cast("decimal(20)")


def with_dispositions(
    numbered: DataFrame,
    states: DataFrame,
    actions: Mapping[str, str] | None,
    queues: Queues,
    *,
    in_doubt: str,
    requires_room: bool = False,
    stopped: Collection[str] = (),
) -> DataFrame:
    """Add ``disposition``, ``DETAIL`` and ``DESTINATION``. ``with_waiting`` adds those that wait.

    Args:
        numbered: the whole plan, with ``SOURCE_COLUMNS``, ``PARKED_QUEUE``, ``has_room``,
            ``selected``: whether this run's condition takes the message, and ``FAULT``.
        states: ``message_id, state`` of the ledgers.
        actions: by group id; other groups are left. None sends every group.
        queues: a FIFO destination takes no message without a message group.
        in_doubt: see ``ResendOptions``. A discard settles what is in doubt in any case.
        requires_room: whether a message that cannot carry its plan's id is left.
        stopped: ids of groups of which nothing is sent until a person decides again.
    """
    known = numbered.join(states, on="message_id", how="left")
    state = F.col("state")
    not_ours, detail = queues.hindrance()
    disposition = (
        F.when(state == "sent", Disposition.SENT_BEFORE)
        .when(state == "discarded", Disposition.DISCARDED_BEFORE)
        .when(state == "restored", Disposition.RESTORED_BEFORE)
        .when(~_has_action(actions, "redrive", "discard"), Disposition.LEAVE)
        .when(~F.col("selected"), Disposition.NOT_SELECTED)
        .when(not_ours.isNotNull(), not_ours)
        .when(state == "busy", Disposition.BUSY)
        .when(_has_action(actions, "discard"), Disposition.DISCARD)
        .when((state == "in_doubt") & F.lit(in_doubt == "arrived"), Disposition.RECORD)
        .when((state == "in_doubt") & F.lit(in_doubt != "send"), Disposition.IN_DOUBT)
        .when(F.col("message_group_id").isNull() & F.lit(queues.is_fifo), Disposition.NO_GROUP)
        .when(F.col(FAULT).isNotNull(), Disposition.EDIT_FAILED)
        .when(~F.col("has_room") & F.lit(requires_room), Disposition.NO_ROOM)
        .when(F.col("group_id").isin(*stopped), Disposition.STOPPED)
        .otherwise(Disposition.SEND)
    )
    dispositions = known.withColumns(
        {
            "disposition": disposition,
            DETAIL: F.when(disposition == not_ours, detail).when(
                disposition == Disposition.EDIT_FAILED, F.col(FAULT)
            ),
            DESTINATION: F.when(not_ours.isNull(), queues.destination_of()),
        }
    )
    return dispositions.drop("state", "has_room", FAULT, *SOURCE_COLUMNS)


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


def _has_action(actions: Mapping[str, str] | None, *wanted: str) -> Column:
    if actions is None:
        return F.lit("redrive" in wanted)
    groups = [group_id for group_id, action in actions.items() if action in wanted]
    return F.coalesce(F.col("group_id").isin(*groups), F.lit(False))  # noqa: FBT003 - a value


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
