"""Which messages a step of a ramp takes."""

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
    in_order_of_arrival,
    lanes_of,
    runs_of,
    with_positions,
)

STEP_COLUMNS = ("message_id", "group_id", "unit", "position")
"""Of the table of a step."""


def drawn_step(
    rows: pa.Table,
    wanted: Mapping[str, int],
    taken_ids: Any,  # noqa: ANN401 - an Arrow column
    returning_ids: Any,  # noqa: ANN401 - an Arrow column
    *,
    in_order: bool,
    units: int | None,
) -> pa.Table:
    """Draw messages for a step, and say where in the step each of them is: ``STEP_COLUMNS``.

    With *in_order*, the heads of lanes come first, and what is behind one that is not drawn is not
    drawn either, nor what follows a message that may still come back. Otherwise their ids decide,
    which are random.

    Args:
        rows: all messages of the destination; those to send are drawn from.
        wanted: at most so many messages of each group; of others none.
        taken_ids: messages that steps before had; they are not drawn again.
        returning_ids: messages that were sent and may come back; their lanes do not go on.
        in_order: whether the destination keeps the order of message groups.
        units: see ``with_positions``.
    """
    may_go = have_disposition(rows, [Disposition.SEND])
    may_go &= ~_are_among(rows, taken_ids)
    if in_order:
        may_go &= ~_are_in_lanes_of(rows, returning_ids)
    candidates = rows.filter(pa.array(may_go))

    lanes = lanes_of(candidates) if in_order else np.full(candidates.num_rows, -1, dtype=np.int64)
    in_lanes = in_order_of_arrival(candidates, lanes) if in_order else lanes[:0]
    depths = _places_in_runs(lanes, in_lanes)
    is_drawn = _first_of_each_group(candidates, depths, wanted)
    if in_order:
        is_drawn = _without_gaps(is_drawn, lanes, in_lanes)
    return with_positions(candidates.filter(pa.array(is_drawn)), units).select(list(STEP_COLUMNS))


def _are_among(rows: pa.Table, ids: Any) -> Mask:  # noqa: ANN401 - an Arrow column
    matches = pc.is_in(rows["message_id"], value_set=combined(ids))
    return flags(matches)


def _are_in_lanes_of(rows: pa.Table, ids: Any) -> Mask:  # noqa: ANN401 - an Arrow column
    """Return of each row whether one of the messages with these ids is in its lane."""
    lanes = lanes_of(rows)
    held = np.unique(lanes[_are_among(rows, ids)])
    return np.isin(lanes, held[held >= 0])


def _places_in_runs(lanes: Numbers, in_lanes: Numbers) -> Numbers:
    """Return how many messages of its lane are before each message; 0 without a lane."""
    places = np.zeros(len(lanes), dtype=np.int64)
    starts, lengths = runs_of(lanes[in_lanes])
    places[in_lanes] = np.arange(len(in_lanes)) - np.repeat(starts, lengths)
    return places


def _first_of_each_group(rows: pa.Table, depths: Numbers, wanted: Mapping[str, int]) -> Mask:
    """Return which rows are the first of their group, by depth and id: as many as are wanted."""
    groups = rows["group_id"]
    numbers = numbered_values(groups)
    order = in_order_of(
        {"group": arrow(numbers), "depth": arrow(depths), "message_id": rows["message_id"]}
    )

    ranks = _places_in_runs(numbers, order)
    wanted_ids = pa.array(list(wanted), pa.string())
    places: Any = combined(pc.index_in(groups, value_set=wanted_ids))
    # Of the other groups none: the last one.
    numbers_wanted = np.array([*wanted.values(), 0])
    most = numbers_wanted[pc.fill_null(places, -1).to_numpy()]
    return np.asarray(ranks < most, dtype=np.bool_)


def _without_gaps(is_drawn: Mask, lanes: Numbers, in_lanes: Numbers) -> Mask:
    """Leave out what is behind a message of its lane that is not drawn."""
    is_left = ~is_drawn[in_lanes]
    starts, lengths = runs_of(lanes[in_lanes])
    left_so_far = np.cumsum(is_left)
    left_before_lane: Numbers = left_so_far[starts] - is_left[starts]
    has_none_left = left_so_far == np.repeat(left_before_lane, lengths)

    goes = is_drawn.copy()
    goes[in_lanes] = has_none_left
    return goes
