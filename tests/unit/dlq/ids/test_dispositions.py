"""A run's disposition of each message: the first rule that fits holds."""

from typing import Any

import pyarrow as pa
import pytest

from dlq.ids.columns import (
    BLOCKER,
    BLOCKER_DETAIL,
    DESTINATION,
    DETAIL,
    DISPOSITION,
    EDIT_FAULT,
    HAS_ROOM,
    SELECTED,
    STATE,
)
from dlq.ids.dispositions import with_dispositions, with_states
from tests.support.builders import queue_url

WORST = {
    STATE: "sent",
    "group_id": "s-other",
    SELECTED: False,
    BLOCKER: "foreign_source",
    BLOCKER_DETAIL: "invoices",
    "message_group_id": None,
    EDIT_FAULT: "does not fit",
    HAS_ROOM: False,
}
"""Every rule fits."""

SETTINGS: dict[str, Any] = {
    "actions": {"s-1": "redrive", "s-2": "discard", "s-3": "leave", "s-4": "redrive"},
    "unconfirmed": "leave",
    "requires_room": True,
    "halted": ["s-1"],
}

REPAIRS: list[tuple[dict[str, Any], str, str | None]] = [
    # What is repaired, and what holds then.
    ({}, "sent_before", None),
    ({STATE: "discarded"}, "discarded_before", None),
    ({STATE: "restored"}, "restored_before", None),
    ({STATE: "in_progress"}, "leave", None),
    ({"group_id": "s-1"}, "not_selected", None),
    ({SELECTED: True}, "foreign_source", "invoices"),
    ({BLOCKER: "not_selected", BLOCKER_DETAIL: None}, "not_selected", None),
    ({BLOCKER: "other_parked_queue", BLOCKER_DETAIL: "1/x"}, "other_parked_queue", "1/x"),
    ({BLOCKER: "unknown_source", BLOCKER_DETAIL: None}, "unknown_source", None),
    ({BLOCKER: None, BLOCKER_DETAIL: None}, "in_progress", None),
    ({STATE: "unconfirmed"}, "unconfirmed", None),
    ({STATE: None}, "no_group", None),
    ({"message_group_id": "g-1"}, "edit_failed", "does not fit"),
    ({EDIT_FAULT: None}, "no_room", None),
    ({HAS_ROOM: True}, "halted", None),
    ({"group_id": "s-4"}, "send", None),
]


TYPES: dict[str, Any] = {
    "message_id": pa.string(),
    "group_id": pa.string(),
    "message_group_id": pa.string(),
    STATE: pa.string(),
    DESTINATION: pa.string(),
    BLOCKER: pa.string(),
    BLOCKER_DETAIL: pa.string(),
    EDIT_FAULT: pa.string(),
    SELECTED: pa.bool_(),
    HAS_ROOM: pa.bool_(),
}


def table_of(row: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"message_id": "m-1", DESTINATION: queue_url("main.fifo"), **row}], pa.schema(TYPES)
    )


def test_the_first_rule_that_fits_holds() -> None:
    row: dict[str, Any] = WORST
    for repaired, disposition, detail in REPAIRS:
        row = {**row, **repaired}
        (decided,) = with_dispositions(table_of(row), **SETTINGS).to_pylist()
        assert (decided[DISPOSITION], decided[DETAIL]) == (disposition, detail), repaired


@pytest.mark.parametrize(
    ("settings", "row", "disposition"),
    [
        ({"unconfirmed": "send"}, {STATE: "unconfirmed"}, "send"),
        ({}, {STATE: "unconfirmed", "group_id": "s-2"}, "discard"),
        ({}, {"group_id": "s-2", EDIT_FAULT: "x", HAS_ROOM: False}, "discard"),
        ({}, {"group_id": "s-3"}, "leave"),
        ({}, {DESTINATION: queue_url("main"), "message_group_id": None}, "send"),
        ({"requires_room": False}, {HAS_ROOM: False}, "send"),
        ({"actions": None}, {"group_id": "any drain"}, "send"),
        (
            {"actions": None, "halted": []},
            {STATE: "in_progress", "group_id": "any"},
            "in_progress",
        ),
    ],
)
def test_what_the_settings_change(settings: Any, row: Any, disposition: str) -> None:
    plain = {
        STATE: None,
        "group_id": "s-4",
        SELECTED: True,
        BLOCKER: None,
        BLOCKER_DETAIL: None,
        "message_group_id": "g",
        EDIT_FAULT: None,
        HAS_ROOM: True,
    }

    decided = with_dispositions(table_of({**plain, **row}), **{**SETTINGS, **settings})

    assert decided[DISPOSITION].to_pylist() == [disposition]


def test_a_state_is_that_of_the_same_message() -> None:
    rows = pa.table({"message_id": ["a", "b", "c"]})
    states = pa.table(
        {"message_id": ["c", "x", "a"], STATE: ["sent", "in_progress", "unconfirmed"]}
    )

    assert with_states(rows, states)[STATE].to_pylist() == ["unconfirmed", None, "sent"]
    assert with_states(rows, states.slice(0, 0))[STATE].to_pylist() == [None, None, None]
