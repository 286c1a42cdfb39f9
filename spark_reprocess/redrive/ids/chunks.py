"""Which messages are claimed together: a unit, and a chunk in it."""

from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.archive.ledger.claims import CHUNK_MESSAGES
from spark_reprocess.archive.messages.message_store import combined
from spark_reprocess.redrive.ids.columns import Numbers, arrow, flags

_WITHOUT_ORDER = "without-order"
"""The unit of messages without a message group."""


def with_chunks(positioned: pa.Table, chunks: int) -> pa.Table:
    """Complete ``POSITION`` of rows with ``unit`` and ``position``, see ``order.with_positions``.

    Messages with a position are in chunks of 100, in their order. The others are spread over so
    many *chunks* by a hash of their id, and have no order: their position is 0.
    """
    known: Any = positioned["position"]
    filled: Any = combined(pc.fill_null(known, 0))
    positions = filled.to_numpy().astype(np.int64)
    chunk = positions // CHUNK_MESSAGES

    is_hashed = ~flags(pc.is_valid(known))
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
