"""Which messages are claimed together: a unit, and a chunk in it."""

from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.archive.ledger.claims import CHUNK_MESSAGES
from spark_reprocess.redrive.ids.columns import Numbers, flags

_WITHOUT_ORDER = "without-order"
"""The unit of messages without a message group."""


def with_chunks(positioned: pa.Table, chunks: int) -> pa.Table:
    """Complete ``POSITION`` of rows with ``unit`` and ``position``, see ``order.with_positions``.

    Messages with a position are in chunks of 100, in their order. The others are spread over so
    many *chunks* by a hash of their id, and have no order: their position is 0.
    """
    positions = pc.fill_null(positioned["position"], 0).to_numpy().astype(np.int64)
    chunk = positions // CHUNK_MESSAGES

    is_hashed = ~flags(pc.is_valid(positioned["position"]))
    hashed_ids = positioned["message_id"].filter(pa.array(is_hashed)).to_pylist()
    chunk[is_hashed] = _hashed(hashed_ids, chunks)

    units = pc.fill_null(positioned["unit"].cast(pa.string()), _WITHOUT_ORDER).dictionary_encode()
    rows = positioned.drop_columns(["unit", "position"])
    rows = rows.append_column("unit", units)
    rows = rows.append_column("chunk", pa.array(chunk))
    return rows.append_column("position", pa.array(positions))


def _hashed(message_ids: list[str], chunks: int) -> Numbers:
    """Return the chunk of each message, by a hash of its id."""
    chunk = np.empty(len(message_ids), dtype=np.int64)
    for number, message_id in enumerate(message_ids):
        chunk[number] = int.from_bytes(sha256(message_id.encode()).digest()[:8]) % chunks
    return chunk
