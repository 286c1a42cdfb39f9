"""Numbers of messages by disposition, and by what hinders them."""

from typing import Any

from dlq.archive.ledger.disposition import Disposition
from dlq.ids.columns import DETAIL, DISPOSITION
from dlq.ids.counts import Cause, causes_of_problems, counted_by
from tests.support.id_rows import rows_of


def message(number: int, disposition: str, detail: str | None = None) -> dict[str, Any]:
    return {"message_id": f"m-{number:02d}", DISPOSITION: disposition, DETAIL: detail}


def test_rows_are_counted_by_the_values_of_columns() -> None:
    rows = rows_of(message(1, "send"), message(2, "send"), message(3, "leave"))

    counted = counted_by(rows, "group_id", DISPOSITION)

    assert sorted(counted, key=lambda row: -row["count"]) == [
        {"group_id": "s-1", DISPOSITION: "send", "count": 2},
        {"group_id": "s-1", DISPOSITION: "leave", "count": 1},
    ]
    assert counted_by(rows.slice(0, 0), "group_id") == []


def test_each_cause_has_its_number_and_its_first_messages() -> None:
    rows = rows_of(
        message(3, "waits", "a"),
        message(2, "waits", "a"),
        message(1, "waits", "a"),
        message(4, "waits", "b"),
        message(5, "no_room"),
        message(6, "send"),
    )

    assert causes_of_problems(rows, 2) == [
        Cause(Disposition.NO_ROOM, "", 1, ("m-05",)),
        Cause(Disposition.WAITS, "a", 3, ("m-01", "m-02")),
        Cause(Disposition.WAITS, "b", 1, ("m-04",)),
    ]


def test_of_many_causes_the_largest_are_named_and_the_others_counted() -> None:
    rows = [message(n, "edit_failed", f"fault {n}") for n in range(8)]
    rows.append(message(99, "edit_failed", "fault 7"))

    causes = causes_of_problems(rows_of(*rows), 1)

    named = [(cause.detail, cause.number) for cause in causes]
    assert named == [
        ("fault 7", 2),
        ("fault 0", 1),
        ("fault 1", 1),
        ("fault 2", 1),
        ("fault 3", 1),
        ("", 3),
    ]


def test_without_problems_nothing_is_named() -> None:
    assert causes_of_problems(rows_of(message(1, "send")), 3) == []
