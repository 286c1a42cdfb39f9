"""DataFrame to DataFrame: what a plan means for each of its messages at this moment. Pure.

A *disposition* is one word. Two of them make work, the others say why there is none.
"""

from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from dlq_replay.wire.attributes import MAX_ATTRIBUTES
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE, CONTEXT_MAX_BYTES
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE
from spark_reprocess.archive.ledger.claims import CHUNK_MESSAGES, POSITION
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.messages.frames import Held
from spark_reprocess.archive.messages.message_order import DETAIL
from spark_reprocess.redrive.resolving.editor import FAULT
from spark_reprocess.redrive.resolving.queues import SOURCE_COLUMNS, Queues

DESTINATION = "destination"
"""A column: URL of the queue that a message goes to; null where it must go nowhere."""

_WITHOUT_ORDER = "without-order"
"""The unit of messages without a message group."""

_OURS = (CONTEXT_ATTRIBUTE, REPLAY_COUNT_ATTRIBUTE)
_OURS_BYTES = CONTEXT_MAX_BYTES + 64
"""More than names, types and values of our two attributes can take."""


def has_room(max_message_bytes: int) -> Column:
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


def with_chunks(positioned: Held, chunks: int) -> Held:
    """Complete ``POSITION`` of rows with ``unit`` and ``position``, see ``with_positions``.

    Messages with a position are in chunks of 100, in their order. The others are spread over so
    many *chunks* by a hash of their id, and have no order: their position is 0.
    """

    def chunked(rows: Any) -> Any:  # noqa: ANN401 - a table, or a batch
        units: list[str] = []
        numbers: list[int] = []
        positions: list[int] = []
        for row in rows.select(["message_id", "unit", "position"]).to_pylist():
            position = row["position"]
            if position is None:
                digest = sha256(row["message_id"].encode()).digest()
                numbers.append(int.from_bytes(digest[:8]) % chunks)
            else:
                numbers.append(position // CHUNK_MESSAGES)
            units.append(row["unit"] or _WITHOUT_ORDER)
            positions.append(position or 0)
        new = [
            pa.array(units, pa.string()),
            pa.array(numbers, pa.int64()),
            pa.array(positions, pa.int64()),
        ]
        rows = rows.drop_columns(["unit", "position"])
        return type(rows).from_arrays([*rows.columns, *new], [*rows.schema.names, *POSITION])

    rows = positioned.rows
    if isinstance(rows, pa.Table):
        return Held(chunked(rows))
    schema = from_arrow_schema(chunked(to_arrow_schema(rows.schema).empty_table()).schema)
    return Held(rows.mapInArrow(lambda batches: map(chunked, batches), schema))


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


def _has_action(actions: Mapping[str, str] | None, *wanted: str) -> Column:
    if actions is None:
        return F.lit("redrive" in wanted)
    groups = [group_id for group_id, action in actions.items() if action in wanted]
    return F.coalesce(F.col("group_id").isin(*groups), F.lit(False))  # noqa: FBT003 - a value
