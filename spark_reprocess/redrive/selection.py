"""DataFrame to DataFrame: what a plan means for each of its messages at this moment. Pure.

A *fate* is one word. Two of them make work, the others say why there is none.
"""

from collections.abc import Mapping
from enum import StrEnum

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

CHUNK_MESSAGES = 100
_UNIT_MESSAGES = 1000
_MOST_UNITS = 64

POSITION = ("unit", "chunk", "place")


class Fate(StrEnum):
    """What a run does with a message, or why it does nothing."""

    SEND = "send"
    DISCARD = "discard"
    LEAVE = "leave"
    NOT_SELECTED = "not_selected"
    OVER_LIMIT = "over_limit"
    SENT_BEFORE = "sent_before"
    DISCARDED_BEFORE = "discarded_before"
    RESTORED_BEFORE = "restored_before"
    IN_DOUBT = "in_doubt"
    BUSY = "busy"
    FOREIGN = "foreign_source"
    NO_GROUP = "no_group"
    EDIT_FAILED = "edit_failed"
    SPLIT_GROUP = "split_group"
    WAITS = "waits"
    NOT_REACHED = "not_reached"
    AFTER_CANARY = "after_canary"
    STOPPED = "stopped_by_canary"
    NO_ROOM = "no_room"


WORK = (Fate.SEND, Fate.DISCARD)
_IN_THE_WAY = (Fate.BUSY, Fate.IN_DOUBT, Fate.EDIT_FAILED, Fate.STOPPED)


def in_order_units(messages: int) -> int:
    """How many units a plan of so many messages has for a FIFO queue: 1 to 64."""
    return max(1, min(_MOST_UNITS, messages // _UNIT_MESSAGES))


def number_chunks(grouped: DataFrame, units: int | None) -> DataFrame:
    """Add ``unit, chunk, place``: where each message stands in the plan, the same in every run.

    Within a unit messages stand in the order in which SQS got them, 100 to a chunk. With *units*
    None a unit is a group. For a FIFO queue, where a message group may be spread over several
    groups of the plan, there are so many units, and each is a share of the message groups, by a
    hash of their ids. It goes to one task, so that their order is kept.
    """
    order = Window.partitionBy("unit").orderBy(
        F.length("sequence_number"), "sequence_number", "sent_at", "message_id"
    )
    unit = F.col("group_id") if units is None else _in_order_unit(units)
    return (
        grouped.withColumn("unit", unit)
        .withColumn("place", F.row_number().over(order) - 1)
        .withColumn("chunk", F.floor(F.col("place") / CHUNK_MESSAGES) + 1)
    )


def with_fates(
    numbered: DataFrame,
    states: DataFrame,
    actions: Mapping[str, str] | None,
    *,
    to_fifo: bool,
    send_in_doubt: bool,
    include_foreign: bool,
) -> DataFrame:
    """Add ``fate``.

    Args:
        numbered: the whole plan, with ``selected``: whether this run's condition takes the message,
            and ``edit_fault``: why its group's edit does not fit it, else null.
        states: ``message_id, state`` of the ledgers.
        actions: by group id; other groups are left. None sends every group.
        to_fifo: whether the destination is a FIFO queue: then a message without a message group
            cannot go, and one behind a message whose fate is open waits.
        send_in_doubt: whether messages in doubt are sent again.
        include_foreign: whether messages that were parked because they came from another queue go.
    """
    known = numbered.join(states, on="message_id", how="left")
    action = F.lit("redrive") if actions is None else _lookup(F.col("group_id"), actions)
    state = F.col("state")
    fate = (
        F.when(state == "sent", Fate.SENT_BEFORE)
        .when(state == "discarded", Fate.DISCARDED_BEFORE)
        .when(state == "restored", Fate.RESTORED_BEFORE)
        .when(action == "leave", Fate.LEAVE)
        .when(~F.col("selected"), Fate.NOT_SELECTED)
        .when(state == "busy", Fate.BUSY)
        .when((state == "in_doubt") & ~F.lit(send_in_doubt), Fate.IN_DOUBT)
        .when(action == "discard", Fate.DISCARD)
        .when(_is_foreign() & ~F.lit(include_foreign), Fate.FOREIGN)
        .when(F.col("message_group_id").isNull() & F.lit(to_fifo), Fate.NO_GROUP)
        .when(F.col("edit_fault").isNotNull(), Fate.EDIT_FAILED)
        .otherwise(Fate.SEND)
    )
    fates = known.withColumn("fate", fate).drop("state")
    return with_waiting(fates) if to_fifo else fates


def with_waiting(fates: DataFrame) -> DataFrame:
    """Let what stands behind a message of its message group that is still to go wait for it."""
    earlier = (
        Window.partitionBy("message_group_id")
        .orderBy("place")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    is_open = F.col("fate").isin(*_IN_THE_WAY)
    is_blocked = F.coalesce(F.max(is_open).over(earlier), F.lit(False))  # noqa: FBT003 - a value
    return fates.withColumn(
        "fate",
        F.when(is_blocked & (F.col("fate") == Fate.SEND), Fate.WAITS).otherwise(F.col("fate")),
    )


def _in_order_unit(units: int) -> Column:
    group = F.coalesce("message_group_id", F.lit("")).cast("binary")
    return F.format_string("in-order-%02d", F.crc32(group) % units)


def _is_foreign() -> Column:
    return F.coalesce(F.col("parked_reason") == "foreign_source", F.lit(False))  # noqa: FBT003


def _lookup(key: Column, values: Mapping[str, str]) -> Column:
    pairs = [F.lit(part) for pair in values.items() for part in pair]
    found = F.create_map(*pairs)[key] if pairs else F.lit(None)
    return F.coalesce(found, F.lit("leave"))
