"""The messages that a step of a ramp takes."""

from typing import Any

import pyarrow as pa

from dlq.ids.columns import DISPOSITION
from dlq.ids.steps import drawn_step
from tests.support.id_rows import column_of, rows_of


def message(message_id: str, group: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "message_id": message_id,
        "message_group_id": group,
        DISPOSITION: "send",
        "group_id": "s-1",
        **more,
    }


def drawn(
    rows: list[dict[str, Any]],
    wanted: dict[str, int],
    taken: tuple[str, ...] = (),
    returning: tuple[str, ...] = (),
    **more: Any,
) -> list[str]:
    settings = {"in_order": False, "units": None, **more}
    ids = [pa.array(list(some), pa.string()) for some in (taken, returning)]
    return sorted(column_of(drawn_step(rows_of(*rows), wanted, *ids, **settings), "group_id"))


def test_as_many_of_each_group_as_are_wanted_by_their_ids() -> None:
    rows = [message("c"), message("a"), message("b")]
    rows += [message("d", group_id="s-2"), message("e", group_id="s-3")]

    assert drawn(rows, {"s-1": 2, "s-2": 5}) == ["a", "b", "d"]
    assert drawn(rows, {"s-1": 2, "s-2": 5}, taken=("a", "d")) == ["b", "c"]


def test_nothing_is_drawn_that_is_not_to_be_sent() -> None:
    rows = [message("a", **{DISPOSITION: "waits"}), message("b", **{DISPOSITION: "discard"})]

    assert drawn(rows, {"s-1": 2}) == []


def test_heads_of_message_groups_come_first() -> None:
    rows = [message("a1", "a"), message("a2", "a"), message("a3", "a"), message("b1", "b")]

    assert drawn(rows, {"s-1": 2}, in_order=True, units=1) == ["a1", "b1"]
    assert drawn(rows, {"s-1": 3}, in_order=True, units=1) == ["a1", "a2", "b1"]
    assert drawn(rows, {"s-1": 2}, taken=("a1", "b1"), in_order=True, units=1) == ["a2", "a3"]


def test_nothing_goes_behind_a_message_of_its_message_group_that_is_not_drawn() -> None:
    """The first of the message group is of a group that has no step now."""
    rows = [message("a1", "a", group_id="s-2"), message("a2", "a"), message("b1", "b")]

    assert drawn(rows, {"s-1": 5}, in_order=True, units=1) == ["b1"]


def test_nothing_goes_behind_what_may_come_back() -> None:
    rows = [message("a1", "a", **{DISPOSITION: "sent_before"}), message("a2", "a")]
    rows += [message("b1", "b")]

    assert drawn(rows, {"s-1": 5}, returning=("a1",), in_order=True, units=1) == ["b1"]
    assert drawn(rows, {"s-1": 5}, in_order=True, units=1) == ["a2", "b1"]


def test_a_step_says_where_in_it_each_message_is() -> None:
    rows = [message("a1", "a", sequence_number="7"), message("a2", "a", sequence_number="10")]
    nobody = pa.array([], pa.string())

    step = drawn_step(rows_of(*rows), {"s-1": 2}, nobody, nobody, in_order=True, units=1)

    assert column_of(step, "unit", "position") == {
        "a1": ("in-order-00", 0),
        "a2": ("in-order-00", 1),
    }
