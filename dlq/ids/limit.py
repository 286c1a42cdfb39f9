"""The messages that a run acts on if an operator limits their number."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.ledger.claims import POSITION
from dlq.archive.ledger.disposition import WORK, Disposition
from dlq.ids.columns import (
    Numbers,
    arrow,
    code_of,
    disposition_codes,
    have_disposition,
    in_order_of,
    numbered_values,
    with_disposition_codes,
)


def limited(rows: pa.Table, limit: int) -> pa.Table:
    """Mark the messages over the *limit*: the first ones by ``POSITION`` are acted on.

    It takes whole message groups, in the order of their first messages. A group of more than
    *limit* messages is left; groups behind it may go. A message without a group is one by itself.
    """
    keys: Any = pc.coalesce(rows["message_group_id"].cast(pa.string()), rows["message_id"])

    work = np.flatnonzero(have_disposition(rows, WORK))
    groups = numbered_values(keys)[work]
    in_order = _in_order_of_position(rows, keys, work)
    taken = _groups_within(groups, in_order, limit)

    codes = disposition_codes(rows)
    is_over = ~np.isin(groups, taken)
    codes[work[is_over]] = code_of(Disposition.OVER_LIMIT)
    return with_disposition_codes(rows, codes)


def _in_order_of_position(rows: pa.Table, keys: Any, work: Numbers) -> Numbers:  # noqa: ANN401
    """Return the indices in *work*, sorted by the position of the messages, then by key."""
    columns: dict[str, Any] = {name: rows[name].take(arrow(work)) for name in POSITION}
    columns["unit"] = columns["unit"].cast(pa.string())
    columns["key"] = keys.take(arrow(work))
    return in_order_of(columns)


def _groups_within(groups: Numbers, in_order: Numbers, limit: int) -> Numbers:
    """Return the groups that go: each small enough, and with those before it within the limit.

    *groups* has the group of each message, *in_order* the indices of the messages in their order.
    """
    unique_groups, first_indices, sizes = np.unique(
        groups[in_order], return_index=True, return_counts=True
    )
    by_first_message = np.argsort(first_indices)
    unique_groups = unique_groups[by_first_message]
    sizes = sizes[by_first_message]

    is_small_enough = sizes <= limit
    unique_groups = unique_groups[is_small_enough]
    sizes = sizes[is_small_enough]

    # The first group over the limit is the end: smaller ones behind it do not fill the gap.
    is_within = np.cumsum(sizes) <= limit
    return np.asarray(unique_groups[is_within], dtype=np.int64)
