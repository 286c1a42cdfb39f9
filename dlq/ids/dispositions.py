"""The disposition of each message of a plan: the action of a run, or the reason for none."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.messages.message_store import combined
from dlq.ids.columns import (
    BLOCKER,
    BLOCKER_DETAIL,
    DETAIL,
    EDIT_FAULT,
    HAS_ROOM,
    SELECTED,
    STATE,
    Mask,
    code_of,
    flags,
    go_to_fifo,
    values_among,
    with_column,
    with_disposition_codes,
)

RULE_COLUMNS = (STATE, SELECTED, HAS_ROOM, BLOCKER, BLOCKER_DETAIL, EDIT_FAULT)
"""Columns for the decision, beside ``group_id``, ``message_group_id`` and ``DESTINATION``."""

_BLOCKERS = (Disposition.OTHER_PARKED_QUEUE, Disposition.FOREIGN, Disposition.UNKNOWN_SOURCE)


def with_states(rows: pa.Table, states: pa.Table) -> pa.Table:
    """Add ``STATE`` to *rows*; *states* has ``state`` and ``message_id``, each id once."""
    indices = pc.index_in(rows["message_id"], value_set=combined(states["message_id"]))
    state: Any = pc.take(combined(states[STATE]), combined(indices))
    return with_column(rows, STATE, state.dictionary_encode())


def with_dispositions(
    rows: pa.Table,
    actions: Mapping[str, str] | None,
    *,
    unconfirmed: str,
    requires_room: bool = False,
    halted: Collection[str] = (),
) -> pa.Table:
    """Replace ``RULE_COLUMNS`` by disposition and ``DETAIL``: the first rule that fits holds.

    Afterwards ``order.with_waiting`` finds the messages that wait, which needs all rows.

    Args:
        rows: the whole plan, with ``RULE_COLUMNS``.
        actions: by group id; other groups are left. None sends every group.
        unconfirmed: see ``SendRequest``. A discard settles an unconfirmed message in any case.
        requires_room: whether a message that cannot carry its plan's id is left.
        halted: ids of groups of which nothing is sent until a person decides again.
    """
    group_ids = rows["group_id"]
    is_discarded = _have_action(group_ids, actions, "discard")
    is_acted_on = is_discarded | _have_action(group_ids, actions, "redrive")
    is_unconfirmed = values_among(rows[STATE], ["unconfirmed"])
    has_group = flags(pc.is_valid(rows["message_group_id"]))
    has_fault = flags(pc.is_valid(rows[EDIT_FAULT]))
    is_of_another_source = values_among(rows[BLOCKER], [Disposition.NOT_SELECTED])

    rules: list[tuple[Disposition, Mask]] = [
        (Disposition.SENT_BEFORE, values_among(rows[STATE], ["sent"])),
        (Disposition.DISCARDED_BEFORE, values_among(rows[STATE], ["discarded"])),
        (Disposition.RESTORED_BEFORE, values_among(rows[STATE], ["restored"])),
        (Disposition.LEAVE, ~is_acted_on),
        (Disposition.NOT_SELECTED, ~flags(rows[SELECTED]) | is_of_another_source),
    ]
    for blocker in _BLOCKERS:
        rules.append((blocker, values_among(rows[BLOCKER], [blocker])))
    rules += [
        (Disposition.IN_PROGRESS, values_among(rows[STATE], ["in_progress"])),
        (Disposition.DISCARD, is_discarded),
        (Disposition.UNCONFIRMED, is_unconfirmed & (unconfirmed != "send")),
        # A FIFO queue takes no message without a message group.
        (Disposition.NO_GROUP, ~has_group & go_to_fifo(rows)),
        (Disposition.EDIT_FAILED, has_fault),
        (Disposition.NO_ROOM, ~flags(rows[HAS_ROOM]) & requires_room),
        (Disposition.HALTED, values_among(group_ids, halted)),
    ]
    codes = _first_that_fits(rules, rows.num_rows)

    is_blocked = np.isin(codes, list(map(code_of, _BLOCKERS)))
    is_faulty = codes == code_of(Disposition.EDIT_FAILED)
    detail = _texts_where(is_blocked, rows[BLOCKER_DETAIL], is_faulty, rows[EDIT_FAULT])

    rows = rows.drop_columns(list(RULE_COLUMNS))
    return with_column(with_disposition_codes(rows, codes), DETAIL, detail)


def _first_that_fits(rules: list[tuple[Disposition, Mask]], rows: int) -> Any:  # noqa: ANN401
    """Return the code of the first rule that fits each row; ``SEND`` where none does."""
    codes = np.full(rows, code_of(Disposition.SEND), dtype=np.int8)
    for disposition, fits in reversed(rules):
        codes[fits] = code_of(disposition)
    return codes


def _have_action(
    group_ids: Any,  # noqa: ANN401 - an Arrow column
    actions: Mapping[str, str] | None,
    wanted: str,
) -> Mask:
    """Return for each message whether its group has this action."""
    if actions is None:
        return np.full(len(group_ids), wanted == "redrive")
    groups = [group_id for group_id, action in actions.items() if action == wanted]
    return values_among(group_ids, groups)


def _texts_where(first: Mask, of_first: Any, second: Mask, of_second: Any) -> Any:  # noqa: ANN401
    """Return the text *of_first* where *first* is true, else *of_second* where *second* is."""
    nothing = pa.scalar(None, pa.string())
    texts = pc.if_else(pa.array(second), of_second.cast(pa.string()), nothing)
    return combined(pc.if_else(pa.array(first), of_first.cast(pa.string()), texts))
