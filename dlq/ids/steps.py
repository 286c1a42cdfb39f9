"""The messages of a step of a ramp."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.messages.message_store import combined
from dlq.ids.columns import (
    Mask,
    Numbers,
    arrow,
    flags,
    have_disposition,
    in_order_of,
    numbered_values,
)
from dlq.ids.order import (
    LANE_COLUMNS,
    in_order_of_arrival,
    lanes_of,
    runs_of,
    with_positions,
)

STEP_COLUMNS = ("message_id", "group_id", "unit", "position")
"""Columns of the table of a step."""


def drawn_step(
    rows: pa.Table,
    wanted: Mapping[str, int],
    taken_ids: Any,  # noqa: ANN401 - an Arrow column
    returning_ids: Any,  # noqa: ANN401 - an Arrow column
    *,
    in_order: bool,
    units: int | None,
) -> pa.Table:
    """Draw messages for a step; return ``STEP_COLUMNS``, with the place of each in the step.

    With *in_order*, the first messages of lanes come first. A message is not drawn if one before it
    in its lane is not drawn, or may still fail again. Without, the ids decide, which are random.

    Args:
        rows: all messages of the destination; the step draws from those to send.
        wanted: the most messages to draw, by group id; none of other groups.
        taken_ids: messages of earlier steps; they are not drawn again.
        returning_ids: messages that were sent and may fail again; their lanes do not go on.
        in_order: whether the destination keeps the order of message groups.
        units: see ``with_positions``.
    """
    may_go = have_disposition(rows, [Disposition.SEND])
    may_go &= ~_are_among(rows, taken_ids)
    if in_order:
        may_go &= ~_are_in_lanes_of(rows, returning_ids)
    candidates = rows.select(["group_id", *LANE_COLUMNS]).filter(pa.array(may_go))

    if in_order:
        lanes = lanes_of(candidates)
        in_lanes = in_order_of_arrival(candidates, lanes)
    else:
        lanes = np.full(candidates.num_rows, -1, dtype=np.int64)
        in_lanes = lanes[:0]
    depths = _places_in_runs(lanes, in_lanes)
    is_drawn = _first_of_each_group(candidates, depths, wanted)
    if in_order:
        is_drawn = _without_gaps(is_drawn, lanes, in_lanes)

    drawn = candidates.filter(pa.array(is_drawn))
    return with_positions(drawn, units).select(list(STEP_COLUMNS))


def _are_among(rows: pa.Table, ids: Any) -> Mask:  # noqa: ANN401 - an Arrow column
    matches = pc.is_in(rows["message_id"], value_set=combined(ids))
    return flags(matches)


def _are_in_lanes_of(rows: pa.Table, ids: Any) -> Mask:  # noqa: ANN401 - an Arrow column
    """Return for each row whether one of the messages with these ids is in its lane."""
    lanes = lanes_of(rows)
    lanes_of_ids = np.unique(lanes[_are_among(rows, ids)])
    return np.isin(lanes, lanes_of_ids[lanes_of_ids >= 0])


def _places_in_runs(lanes: Numbers, in_lanes: Numbers) -> Numbers:
    """Return the number of messages before each message in its lane; 0 without a lane."""
    places = np.zeros(len(lanes), dtype=np.int64)
    starts, lengths = runs_of(lanes[in_lanes])
    places[in_lanes] = np.arange(len(in_lanes)) - np.repeat(starts, lengths)
    return places


def _first_of_each_group(rows: pa.Table, depths: Numbers, wanted: Mapping[str, int]) -> Mask:
    """Return for each row whether it is one of the wanted first ones of its group.

    Depth and id decide which rows of a group are first.
    """
    groups = rows["group_id"]
    numbers = numbered_values(groups)
    order = in_order_of(
        {"group": arrow(numbers), "depth": arrow(depths), "message_id": rows["message_id"]}
    )

    ranks = _places_in_runs(numbers, order)
    wanted_groups = pa.array(list(wanted), pa.string())
    indices: Any = combined(pc.index_in(groups, value_set=wanted_groups))
    # Other groups have the index -1: the last element, which is 0.
    numbers_wanted = np.array([*wanted.values(), 0])
    most = numbers_wanted[pc.fill_null(indices, -1).to_numpy()]
    return np.asarray(ranks < most, dtype=np.bool_)


def _without_gaps(is_drawn: Mask, lanes: Numbers, in_lanes: Numbers) -> Mask:
    """Leave out each message behind one of its lane that is not drawn."""
    is_left = ~is_drawn[in_lanes]
    starts, lengths = runs_of(lanes[in_lanes])
    left_so_far = np.cumsum(is_left)
    left_before_lane: Numbers = left_so_far[starts] - is_left[starts]
    has_none_left = left_so_far == np.repeat(left_before_lane, lengths)

    goes = is_drawn.copy()
    goes[in_lanes] = has_none_left
    return goes
