"""Order within a FIFO message group: waiting, whole groups, positions."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dlq.ids.columns import DETAIL, DISPOSITION, PARKED_QUEUE
from dlq.ids.order import keep_groups_whole, with_positions, with_waiting
from tests.support.id_rows import column_of, dispositions_in, rows_of


def message(message_id: str, disposition: str, group: str | None = "g-1", **more: Any) -> Any:
    return {
        "message_id": message_id,
        "message_group_id": group,
        DISPOSITION: disposition,
        "sequence_number": None,
        **more,
    }


def worked_example() -> list[list[str]]:
    """The rows of the table in the docstring of ``with_waiting``."""
    lines = (with_waiting.__doc__ or "").splitlines()
    borders = [number for number, line in enumerate(lines) if line.strip().startswith("==")]
    table = lines[borders[1] + 1 : borders[2]]
    return [line.split(maxsplit=3) for line in table]


def test_the_worked_example_of_waiting_is_true() -> None:
    example = worked_example()
    rows = []
    for message_id, group, disposition, _ in example:
        rows.append(message(message_id, disposition, None if group == "(none)" else group))

    results = column_of(with_waiting(rows_of(*rows)), DISPOSITION, DETAIL)

    for message_id, _, _, result in example:
        disposition, _, detail = result.partition(", detail ")
        assert results[message_id] == (disposition, detail or None)
    assert len(results) == 8


def test_messages_of_two_parked_queues_do_not_wait_for_each_other() -> None:
    rows = rows_of(
        message("a", "leave", **{PARKED_QUEUE: "1/parked"}),
        message("b", "send", **{PARKED_QUEUE: "1/other"}),
        message("c", "send", **{PARKED_QUEUE: "1/parked"}),
    )

    assert dispositions_in(with_waiting(rows)) == {"a": "leave", "b": "send", "c": "waits"}


def test_a_message_waits_behind_one_that_the_plan_does_not_have() -> None:
    rows = rows_of(message("b", "send"), message("z", "send", "g-2"))
    elsewhere = rows_of(
        {"message_id": "a", "message_group_id": "g-1"},
        {"message_id": "zz", "message_group_id": "g-2"},
    )

    results = column_of(with_waiting(rows, elsewhere), DISPOSITION, DETAIL)

    assert results == {"b": ("waits", "a"), "z": ("send", None)}


def test_a_longer_sequence_number_is_a_later_one() -> None:
    rows = rows_of(
        message("b", "leave", sequence_number="10"),
        message("a", "send", sequence_number="9"),
        message("c", "send", sequence_number="11"),
    )

    assert dispositions_in(with_waiting(rows)) == {"b": "leave", "a": "send", "c": "waits"}


def test_without_numbers_time_and_then_the_id_decide() -> None:
    early, late = (datetime(2026, 11, 21, 2, minute, tzinfo=UTC) for minute in (0, 1))
    rows = rows_of(
        message("z", "send", sent_at=early),
        message("b", "leave", sent_at=late),
        message("a", "send", sent_at=late),
        message("c", "send", sent_at=late),
        message("unknown", "send", sent_at=None),
    )

    results = dispositions_in(with_waiting(rows))

    assert results == {"z": "send", "b": "leave", "a": "send", "c": "waits", "unknown": "send"}


def test_no_message_at_all_waits_for_nothing() -> None:
    empty = rows_of(message("a", "send")).slice(0, 0)

    assert with_waiting(empty).num_rows == 0
    assert keep_groups_whole(empty).num_rows == 0
    assert with_positions(empty, 3).num_rows == 0


def test_a_message_group_of_which_a_condition_takes_a_part_is_left_whole() -> None:
    rows = rows_of(
        message("a", "send"),
        message("b", "not_selected"),
        message("c", "discard"),
        message("d", "sent_before"),
        message("e", "send", "g-2"),
        message("f", "send", None),
        message("g", "not_selected", None),
    )

    assert dispositions_in(keep_groups_whole(rows)) == {
        "a": "split_group",
        "b": "not_selected",
        "c": "split_group",
        "d": "sent_before",
        "e": "send",
        "f": "send",
        "g": "not_selected",
    }


@pytest.mark.parametrize(
    ("units", "positions"),
    [
        (None, {"a": (None, None), "b": (None, None), "c": (None, None)}),
        (1, {"a": ("in-order-00", 1), "b": ("in-order-00", 0), "c": (None, None)}),
    ],
)
def test_a_position_is_the_place_in_the_unit(units: int | None, positions: Any) -> None:
    rows = rows_of(
        message("a", "send", "g-1", sequence_number="20"),
        message("b", "send", "g-2", sequence_number="19"),
        message("c", "send", None),
    )

    assert column_of(with_positions(rows, units), "unit", "position") == positions


def test_a_message_group_is_in_one_unit() -> None:
    rows = rows_of(*(message(f"m-{n:03d}", "send", f"g-{n % 7}") for n in range(70)))

    positioned = with_positions(rows, 3)

    units = column_of(positioned, "message_group_id", "unit").values()
    assert len(set(units)) == 7
    places = sorted(column_of(positioned, "unit", "position").values())
    assert len(set(places)) == 70
    assert {unit for unit, place in places if place == 0} == {unit for unit, _ in places}
