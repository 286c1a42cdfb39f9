"""A message's room for counter and context."""

from typing import Any

import pyarrow as pa
import pytest

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.ids.columns import HAS_ROOM
from dlq.ids.room import ROOM_COLUMNS, with_room
from tests.support.random_plans import text_value

SCHEMA = pa.schema([ARROW_SCHEMA.field(name) for name in ROOM_COLUMNS])
LEAST_BYTES = 1024 + 64
"""The most bytes that our attributes take."""


def has_room(max_message_bytes: int, *rows: tuple[Any, int | None]) -> list[bool]:
    listed = [dict(zip(ROOM_COLUMNS, row, strict=True)) for row in rows]
    table = with_room(pa.Table.from_pylist(listed, SCHEMA), max_message_bytes)
    have_room: list[bool] = table[HAS_ROOM].to_pylist()  # type: ignore[assignment]
    return have_room


def attributes(number: int) -> list[tuple[str, Any]]:
    return [(f"a-{n}", text_value("v")) for n in range(number)]


OURS = [("sqs-dlq-context", text_value("{}")), ("sqs-dlq-replay-nb", text_value("3"))]


@pytest.mark.parametrize(
    ("own", "fits"),
    [
        (attributes(8), True),
        (attributes(9), False),
        ([*attributes(8), *OURS], True),
        ([*attributes(9), OURS[1]], False),
        ([], True),
        (None, True),
    ],
)
def test_a_copy_has_ten_attributes_at_most(own: Any, fits: bool) -> None:
    assert has_room(262_144, (own, 10)) == [fits]


@pytest.mark.parametrize(
    ("own", "bytes_of_attributes"),
    [
        ([], 0),
        ([("a", text_value("é"))], 1 + 6 + 2),
        ([("ä", {"data_type": "Binary", "string_value": None, "binary_value": b"123"})], 2 + 6 + 3),
        (OURS, 0),
    ],
)
def test_body_and_attributes_count_in_bytes(own: Any, bytes_of_attributes: int) -> None:
    size = LEAST_BYTES + bytes_of_attributes + 10

    assert has_room(size, (own, 10), (own, 11), ([], 10)) == [True, False, True]
    assert has_room(size, ([], 10), (own, 11), (own, 10)) == [True, False, True]


def test_a_part_of_a_larger_table_has_its_own_attributes() -> None:
    rows = [{"attributes": attributes(n), "body_bytes": 1} for n in (9, 8, 0, 9)]
    table = pa.Table.from_pylist(rows, SCHEMA)

    assert with_room(table.slice(1, 3), 262_144)[HAS_ROOM].to_pylist() == [True, True, False]
