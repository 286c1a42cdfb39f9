"""Tables of messages for tests of the rules about ids."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.ids.columns import (
    DESTINATION,
    DETAIL,
    DISPOSITION,
    PARKED_QUEUE,
    SOURCE,
    code_of,
    texts_of,
    with_disposition_codes,
)

_TYPES: dict[str, pa.DataType] = {
    **{field.name: field.type for field in ARROW_SCHEMA},
    **dict.fromkeys((PARKED_QUEUE, SOURCE, DESTINATION, DETAIL, "group_id", "unit"), pa.string()),
    **dict.fromkeys(("position", "chunk"), pa.int64()),
}
_DEFAULTS = {
    "message_group_id": None,
    "sequence_number": None,
    "sent_at": None,
    PARKED_QUEUE: "1/parked",
    SOURCE: "",
    "group_id": "s-1",
    DETAIL: None,
}


def rows_of(*rows: Mapping[str, Any]) -> pa.Table:
    """A table with a row for each of these, with defaults for what they leave out."""
    full = [{**_DEFAULTS, **row} for row in rows]
    names = [name for name in full[0] if name != DISPOSITION]
    columns = {name: pa.array([row[name] for row in full], _TYPES[name]) for name in names}
    table = pa.table(columns)
    if DISPOSITION not in full[0]:
        return table
    codes = [code_of(Disposition(row[DISPOSITION])) for row in full]
    return with_disposition_codes(table, np.array(codes, dtype=np.int8))


def dispositions_in(rows: pa.Table) -> dict[str, str]:
    """The disposition of each message, by its id."""
    return dict(zip(texts_of(rows["message_id"]), texts_of(rows[DISPOSITION]), strict=True))


def column_of(rows: pa.Table, *names: str) -> dict[str, Any]:
    """These columns of each message, by its id; a tuple if there are several."""
    values: Sequence[Any] = [tuple(row[name] for name in names) for row in rows.to_pylist()]
    if len(names) == 1:
        values = [value for (value,) in values]
    return dict(zip(texts_of(rows["message_id"]), values, strict=True))
