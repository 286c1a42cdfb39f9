"""The order of messages in a FIFO message group, and the chunks of messages claimed together.

Within one parked queue and one message group, messages go in the order in which SQS received them.
So a message that stays keeps those behind it, and a condition takes a group as a whole or not at
all. Messages without a message group have no order. A *lane* is one message group of one parked
queue, and in a fleet of one source.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.ledger.claims import CHUNK_MESSAGES
from dlq.archive.ledger.disposition import WORK, Disposition
from dlq.archive.messages.dead_letter_schema import ORDER_COLUMNS
from dlq.archive.messages.message_store import combined
from dlq.ids.columns import (
    DETAIL,
    PARKED_QUEUE,
    SOURCE,
    Mask,
    Numbers,
    arrow,
    code_of,
    disposition_codes,
    flags,
    have_disposition,
    in_order_of,
    numbered_values,
    with_column,
    with_disposition_codes,
)

_QUEUES = (PARKED_QUEUE, SOURCE)
LANE_COLUMNS = (*ORDER_COLUMNS, *_QUEUES)
"""The columns that decide the lane of a message, and its place there."""

_PASSES = [disposition for disposition in Disposition if not disposition.blocks_group]
_WITHOUT_ORDER = "without-order"
"""The unit of messages without a message group."""

_NO_LANE = -1
_BEFORE_ALL_TIMES = -(2**63)


def lanes_of(rows: pa.Table, queues: Sequence[str] = _QUEUES) -> Numbers:
    """Number the lanes from 0; -1 for messages without a message group.

    *queues* are the columns that make a lane with the message group.
    """
    groups = numbered_values(rows["message_group_id"])
    lanes = groups
    for name in queues:
        numbers = numbered_values(rows[name])
        if numbers.any():  # Else all messages have the same queue.
            # A queue that is not recorded is 0.
            lanes = (numbers + 1) * (lanes.max(initial=0) + 1) + lanes
    return np.where(groups < 0, _NO_LANE, lanes)


def in_order_of_arrival(rows: pa.Table, shares: Numbers) -> Numbers:
    """Return the numbers of the rows, by share, within a share in the order of arrival at SQS.

    Sequence numbers are decimal digits without leading zeros, so the longer one is greater.
    Messages of standard queues have none and are sorted by time and id. Rows with a negative share
    are left out.
    """
    # Unknown values come before all others.
    sequence_numbers: Any = rows["sequence_number"]
    digits: Any = pc.utf8_length(sequence_numbers)
    sent_at: Any = rows["sent_at"].cast(pa.int64())
    order = in_order_of(
        {
            "share": arrow(shares),
            "digits": pc.fill_null(digits, -1),
            "sequence_number": pc.fill_null(sequence_numbers, ""),
            "sent_at": pc.fill_null(sent_at, _BEFORE_ALL_TIMES),
            "message_id": rows["message_id"],
        }
    )
    left_out = int(np.count_nonzero(shares < 0))
    return order[left_out:]


def with_waiting(rows: pa.Table, elsewhere: pa.Table | None = None) -> pa.Table:
    """Mark a message as waiting if an earlier message of its lane stays.

    A message stays if it is neither sent nor discarded nor restored, now or before: one that the
    plan leaves, one that cannot be sent, one of another plan. One whose source is not known may be
    of each lane of its message group. ``DETAIL`` of a waiting message is the id of the first
    message that stays in its lane.

    ==  =============  ============  ===========================
    id  message group  disposition   result
    ==  =============  ============  ===========================
    a   g-1            sent_before   sent_before
    b   g-1            send          send
    c   g-1            leave         leave
    d   g-1            send          waits, detail c
    e   g-1            edit_failed   edit_failed
    f   g-1            send          waits, detail c
    g   g-2            send          send
    h   (none)         send          send
    ==  =============  ============  ===========================

    Args:
        rows: the plan's messages with their dispositions, in any order.
        elsewhere: ``ORDER_COLUMNS``, ``PARKED_QUEUE`` and ``SOURCE`` of the archive's other pending
            messages; None if there is none. They stay.
    """
    all_rows = _order_columns(rows)
    stays = ~have_disposition(rows, _PASSES)
    if elsewhere is not None:
        all_rows = pa.concat_tables([all_rows, _order_columns(elsewhere)]).unify_dictionaries()
        stays = np.concatenate([stays, np.ones(elsewhere.num_rows, dtype=np.bool_)])

    blockers = _first_that_stays_before(all_rows, lanes_of(all_rows), stays)
    unknown_stays = stays & flags(pc.is_null(all_rows[SOURCE]))
    if unknown_stays.any():
        groups = lanes_of(all_rows, [PARKED_QUEUE])
        unknown = _first_that_stays_before(all_rows, groups, unknown_stays)
        blockers = np.where(blockers >= 0, blockers, unknown)
    blockers = blockers[: rows.num_rows]
    is_blocked = blockers >= 0
    waits = is_blocked & have_disposition(rows, [Disposition.SEND])

    codes = disposition_codes(rows)
    codes[waits] = code_of(Disposition.WAITS)
    blockers_of_waiting = arrow(blockers, mask=~waits)
    blocking_ids = pc.take(combined(all_rows["message_id"]), blockers_of_waiting)
    detail = combined(pc.coalesce(blocking_ids, rows[DETAIL]))
    return with_column(with_disposition_codes(rows, codes), DETAIL, detail)


def _order_columns(rows: pa.Table) -> pa.Table:
    """Return the columns that decide the order, of the same types for all rows."""
    columns = rows.select(list(LANE_COLUMNS))
    return with_column(columns, PARKED_QUEUE, columns[PARKED_QUEUE].cast(pa.string()))


def _first_that_stays_before(rows: pa.Table, lanes: Numbers, stays: Mask) -> Numbers:
    """Return for each row the number of the first row of its lane that stays, if it is earlier.

    -1 if no earlier row of the lane stays. Example of one lane, already in its order:

    ======  ==  ==  ===  ==  ===
    place    0   1    2   3    4
    stays   no  no  yes  no  yes
    result  -1  -1   -1   2    2
    ======  ==  ==  ===  ==  ===
    """
    order = in_order_of_arrival(rows, lanes)
    blockers = np.full(rows.num_rows, -1, dtype=np.int64)
    if not len(order):
        return blockers

    starts, lengths = runs_of(lanes[order])
    places = np.arange(len(order))
    # If none stays, the place is behind all others.
    places_that_stay = np.where(stays[order], places, len(order))
    first_of_lane = np.minimum.reduceat(places_that_stay, starts)
    first = np.repeat(first_of_lane, lengths)

    is_behind = first < places
    blockers[order[is_behind]] = order[first[is_behind]]
    return blockers


def runs_of(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Return the start and the length of each run of equal numbers."""
    changes = np.flatnonzero(np.diff(numbers)) + 1
    starts = np.concatenate([[0], changes]).astype(np.int64)
    if not len(numbers):
        starts = starts[:0]
    lengths = np.diff(np.concatenate([starts, [len(numbers)]]))
    return starts, lengths.astype(np.int64)


def has_order(rows: pa.Table) -> bool:
    """Return whether any of these messages must stay behind another one."""
    return bool(flags(pc.is_valid(rows["message_group_id"])).any())


def keep_groups_whole(rows: pa.Table) -> pa.Table:
    """Leave the lanes of which a run's condition selects only a part."""
    lanes = lanes_of(rows)
    is_left_out = have_disposition(rows, [Disposition.NOT_SELECTED])
    split_lanes = np.unique(lanes[is_left_out & (lanes >= 0)])

    is_part = np.isin(lanes, split_lanes) & have_disposition(rows, WORK)
    codes = disposition_codes(rows)
    codes[is_part] = code_of(Disposition.SPLIT_GROUP)
    return with_disposition_codes(rows, codes)


def with_positions(rows: pa.Table, units: int | None) -> pa.Table:
    """Add ``unit`` and ``position``: null for messages without a message group.

    A unit is a share of the message groups, by a hash of their ids; *units* is the number of units,
    None if no message needs an order. A position is the place in the unit, from 0, in the order of
    arrival at SQS.
    """
    if units is None:
        rows = with_column(rows, "unit", pa.nulls(rows.num_rows, pa.string()))
        return with_column(rows, "position", pa.nulls(rows.num_rows, pa.int64()))

    shares = _shares_of_groups(rows, units)
    order = in_order_of_arrival(rows, shares)
    starts, lengths = runs_of(shares[order])
    positions = np.full(rows.num_rows, -1, dtype=np.int64)
    positions[order] = np.arange(len(order)) - np.repeat(starts, lengths)

    names = pa.array([f"in-order-{share:02d}" for share in range(units)], pa.string())
    has_none = shares < 0
    rows = with_column(rows, "unit", names.take(arrow(shares, mask=has_none)))
    return with_column(rows, "position", arrow(positions, mask=has_none))


def with_chunks(positioned: pa.Table, chunks: int) -> pa.Table:
    """Complete ``POSITION`` of rows with ``unit`` and ``position``, see ``with_positions``.

    Messages with a position are in chunks of 100, in their order. The others have no order: a hash
    of their id spreads them over this many *chunks*, and their position is 0.
    """
    positions_or_null: Any = positioned["position"]
    filled: Any = combined(pc.fill_null(positions_or_null, 0))
    positions = filled.to_numpy().astype(np.int64)
    chunk = positions // CHUNK_MESSAGES

    is_hashed = ~flags(pc.is_valid(positions_or_null))
    hashed_ids: Any = positioned["message_id"].filter(arrow(is_hashed))
    chunk[is_hashed] = _hashed(hashed_ids.to_pylist(), chunks)

    units: Any = positioned["unit"].cast(pa.string())
    named: Any = pc.fill_null(units, _WITHOUT_ORDER)
    rows = positioned.drop_columns(["unit", "position"])
    rows = rows.append_column("unit", named.dictionary_encode())
    return rows.append_column("chunk", arrow(chunk)).append_column("position", arrow(positions))


def _hashed(message_ids: list[str], chunks: int) -> Numbers:
    """Return the chunk of each message, by a hash of its id."""
    chunk = np.empty(len(message_ids), dtype=np.int64)
    for number, message_id in enumerate(message_ids):
        chunk[number] = int.from_bytes(sha256(message_id.encode()).digest()[:8]) % chunks
    return chunk


def _shares_of_groups(rows: pa.Table, units: int) -> Numbers:
    """Return the share of each message's group among the message groups; -1 for no group."""
    groups: Any = combined(rows["message_group_id"]).dictionary_encode()
    shares = [crc32(group.encode()) % units for group in groups.dictionary.to_pylist()]
    # A message without a group has the number -1, which is the last element.
    shares.append(-1)
    return np.array(shares, dtype=np.int64)[numbered_values(groups)]
