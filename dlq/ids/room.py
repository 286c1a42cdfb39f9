"""The size of an archived message, and whether it can carry the attributes of a redrive."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.messages.message_store import combined
from dlq.ids.columns import HAS_ROOM, SIZE_BYTES, Numbers, values_among
from dlq_replay.wire.attributes import MAX_ATTRIBUTES
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE, CONTEXT_MAX_BYTES
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE

ROOM_COLUMNS = ("attributes", "body_bytes")
"""Columns of the archive that ``with_room`` needs."""

_OURS = (CONTEXT_ATTRIBUTE, REPLAY_COUNT_ATTRIBUTE)
_OURS_BYTES = CONTEXT_MAX_BYTES + 64
"""More than the largest size of names, types and values of our two attributes."""


def with_room(rows: pa.Table, max_message_bytes: int | Numbers) -> pa.Table:
    """Replace ``ROOM_COLUMNS`` by ``HAS_ROOM`` and ``SIZE_BYTES``.

    A copy has at most ten attributes and *max_message_bytes* bytes, ours included; that is one
    number, or one for each row. Attributes of ours that the message has already are replaced, so
    they do not count. A message without any attribute has room for two; one without a known size
    counts as one with room.
    """
    attributes: Any = combined(rows["attributes"])
    numbers, sizes_bytes = _own_attributes(attributes)

    has_slots = numbers + len(_OURS) <= MAX_ATTRIBUTES
    body_bytes_or_null: Any = rows["body_bytes"]
    body_bytes: Any = combined(pc.fill_null(body_bytes_or_null, 0))
    size_bytes = body_bytes.to_numpy() + sizes_bytes
    fits = size_bytes + _OURS_BYTES <= max_message_bytes

    is_known = pc.is_valid(attributes).to_numpy(zero_copy_only=False)
    has_room = (has_slots & fits) | ~is_known
    rows = rows.drop_columns(list(ROOM_COLUMNS)).append_column(HAS_ROOM, pa.array(has_room))
    return rows.append_column(SIZE_BYTES, pa.array(size_bytes))


def _own_attributes(attributes: Any) -> tuple[Numbers, Numbers]:  # noqa: ANN401 - Arrow's maps
    """Count the attributes of each message that are not ours, and their bytes."""
    offsets = attributes.offsets.to_numpy()
    names = attributes.keys
    values = attributes.items

    is_own = ~values_among(names, _OURS)
    entry_bytes = _bytes_of(names) + _bytes_of(values.field("data_type"))
    entry_bytes += _bytes_of(values.field("string_value"))
    entry_bytes += _bytes_of(values.field("binary_value"))

    return _sums(is_own.astype(np.int64), offsets), _sums(entry_bytes * is_own, offsets)


def _bytes_of(texts: Any) -> Numbers:  # noqa: ANN401 - an Arrow array
    lengths = pc.fill_null(pc.binary_length(texts), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)


def _sums(numbers: Numbers, offsets: Any) -> Numbers:  # noqa: ANN401 - numpy's integers
    """Add up the numbers of each message: those between its offset and the next one."""
    totals = np.concatenate([[0], np.cumsum(numbers)])
    return np.asarray(totals[offsets[1:]] - totals[offsets[:-1]], dtype=np.int64)
