"""The columns of a table of messages, and functions to read and change them."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.messages.message_store import combined
from dlq_replay.wire.addresses import QueueAddress

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

PARKED_QUEUE = "parked_queue"
"""Account and name of the parked queue that a message was drained from, such as ``1234/parked``."""

SOURCE = "source"
"""In a fleet the name of the queue that a message came from first, null if that is not known; else
empty. In a fleet queues that have nothing to do with each other share a parked queue."""

DESTINATION = "destination"
"""URL of the queue that a message goes to; null if it must not be sent."""

DISPOSITION = "disposition"
"""A ``Disposition``, as a dictionary of all of them: see ``disposition_column``."""

DETAIL = "detail"
"""The queue, source, message or fault that blocks a message; null if none does."""

BLOCKER = "blocker"
"""The ``Disposition`` of a message that must not be sent because of its queues; null for none."""

BLOCKER_DETAIL = "blocker_detail"
"""The queue that the blocker is about; null if there is none, or if it is not known."""

HAS_ROOM = "has_room"
"""True if a message can carry the attributes that a redrive adds to it."""

SIZE_BYTES = "size_bytes"
"""Size of the body and the attributes of a message, without the attributes of this product."""

SELECTED = "selected"
"""True if the condition of this run selects a message."""

STATE = "state"
"""The state of a message by the ledgers of all plans; null for none."""

EDIT_FAULT = "edit_fault"
"""Why a message cannot be edited; null if it can, or if its group has no edit."""

_CODES = {disposition: code for code, disposition in enumerate(Disposition)}
_NAMES = pa.array(map(str, Disposition), pa.string())


def code_of(disposition: Disposition) -> int:
    """Return the number of a disposition in ``disposition_codes``."""
    return _CODES[disposition]


def disposition_codes(rows: pa.Table) -> npt.NDArray[np.int8]:
    """Return the number of each row's disposition; the caller may change the array."""
    column: Any = combined(rows[DISPOSITION])
    return np.array(column.indices.to_numpy(zero_copy_only=False), dtype=np.int8)


def with_disposition_codes(rows: pa.Table, codes: npt.NDArray[np.int8]) -> pa.Table:
    """Return *rows* with these dispositions; the column is appended if it is missing."""
    column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), _NAMES)
    return with_column(rows, DISPOSITION, column)


def have_disposition(rows: pa.Table, dispositions: Collection[Disposition]) -> Mask:
    """Return for each row whether its disposition is one of these."""
    codes = list(map(code_of, dispositions))
    return np.isin(disposition_codes(rows), codes)


def with_column(rows: pa.Table, name: str, column: Any) -> pa.Table:  # noqa: ANN401 - Arrow's
    """Return *rows* with this column in place of that of the same name, else as the last one."""
    index = rows.schema.get_field_index(name)
    if index < 0:
        return rows.append_column(name, column)
    return rows.set_column(index, name, column)


def numbered_values(column: Any) -> Numbers:  # noqa: ANN401 - an Arrow column
    """Number the values of a column from 0, equal ones with the same number; null is -1."""
    values: Any = combined(column)
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    numbers = pc.fill_null(values.indices, -1)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.int64)


def values_among(column: Any, wanted: Collection[str]) -> Mask:  # noqa: ANN401 - an Arrow column
    """Return for each value whether it is one of *wanted*; null is not."""
    matches: Any = combined(pc.is_in(column, value_set=pa.array(list(wanted), pa.string())))
    return np.asarray(matches.to_numpy(zero_copy_only=False), dtype=np.bool_)


def flags(column: Any) -> Mask:  # noqa: ANN401 - an Arrow column
    """Return a column of truth values as an array; null is false."""
    filled: Any = combined(pc.fill_null(column, False))  # noqa: FBT003 - a value
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)


def texts_of(column: Any) -> list[str]:  # noqa: ANN401 - an Arrow column
    """Return a column of texts without nulls as a list."""
    texts: list[str] = column.to_pylist()
    return texts


def arrow(values: npt.NDArray[Any], mask: Mask | None = None) -> Any:  # noqa: ANN401 - Arrow's
    """Return an array as an Arrow array; null where *mask* is true."""
    return pa.array(values, mask=mask)


def go_to_fifo(rows: pa.Table) -> Mask:
    """Return for each row whether it goes to a FIFO queue; one that must not be sent does not."""
    fifo_urls: list[str] = []
    for url in rows[DESTINATION].unique().to_pylist():
        if url is not None and QueueAddress.from_url(url).is_fifo:
            fifo_urls.append(url)
    return values_among(rows[DESTINATION], fifo_urls)


def in_order_of(keys: Mapping[str, Any]) -> Numbers:
    """Return the numbers of the rows, sorted by all *keys*, columns without nulls, ascending."""
    table: Any = pa.table(dict(keys))
    order: Any = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in keys])
    return np.asarray(order.to_numpy(), dtype=np.int64)
