"""Which messages are claimed together: a unit, a chunk in it, and a place in the chunk."""

from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.archive.ledger.claims import CHUNK_MESSAGES
from spark_reprocess.redrive.ids.columns import Numbers, flags


def with_chunks(positioned: pa.Table, chunks: int, step: str = "") -> pa.Table:
    """Put ``POSITION`` in place of ``unit`` and ``position``, see ``order.with_positions``.

    Messages with a position are in chunks of 100, in their order. The others are spread over so
    many *chunks* by the first eight bytes of the SHA-256 of their id; the next two are their place:
    nothing but the id decides. *step* ends the names of the units of a ramp's step.
    """
    positions = pc.fill_null(positioned["position"], 0).to_numpy().astype(np.int64)
    chunk, place = np.divmod(positions, CHUNK_MESSAGES)

    is_hashed = ~flags(pc.is_valid(positioned["position"]))
    hashed_ids = positioned["message_id"].filter(pa.array(is_hashed)).to_pylist()
    chunk[is_hashed], place[is_hashed] = _hashed(hashed_ids, chunks)

    units = pc.fill_null(positioned["unit"].cast(pa.string()), f"of-{chunks}")
    named = pc.binary_join_element_wise(units, step, "").dictionary_encode()
    rows = positioned.drop_columns(["unit", "position"])
    rows = rows.append_column("unit", named)
    return rows.append_column("chunk", pa.array(chunk)).append_column("place", pa.array(place))


def _hashed(message_ids: list[str], chunks: int) -> tuple[Numbers, Numbers]:
    """Return the chunk and the place of each message, by a hash of its id."""
    chunk = np.empty(len(message_ids), dtype=np.int64)
    place = np.empty(len(message_ids), dtype=np.int64)
    for number, message_id in enumerate(message_ids):
        digest = sha256(message_id.encode()).digest()
        chunk[number] = int.from_bytes(digest[:8]) % chunks
        place[number] = int.from_bytes(digest[8:10])
    return chunk, place
