"""The messages that a limit lets through, and those that are claimed together."""

from collections import Counter
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

import pytest

from dlq.archive.ledger.disposition import WORK, Disposition
from dlq.ids.limit import limited
from dlq.ids.order import with_chunks
from tests.support.id_rows import column_of, dispositions_in, rows_of


class Row(NamedTuple):
    message_id: str
    message_group_id: str | None
    unit: str
    chunk: int
    position: int
    disposition: str


DISPOSITIONS = [
    Disposition.SEND,
    Disposition.SEND,
    Disposition.DISCARD,
    Disposition.SENT_BEFORE,
    Disposition.LEAVE,
    Disposition.NOT_SELECTED,
]


def some_rows(seed: int, groups: int) -> list[Row]:
    """Units of chunks of five; each message group lies in one unit."""
    random = Random(seed)
    rows = []
    for unit in range(3):
        for place in range(random.randint(0, 23)):
            number = random.randrange(groups)
            group = None if number == 0 else f"{unit}-{number}"
            disposition = random.choice(DISPOSITIONS)
            rows.append(
                Row(f"{unit}-{place:02d}", group, f"u-{unit}", place // 5, place, disposition)
            )
    random.shuffle(rows)
    return rows


@pytest.mark.parametrize("limit", [1, 7, 12, 1000])
@pytest.mark.parametrize("seed", range(10))
def test_limit_takes_the_first_of_the_plans_order_and_groups_as_a_whole(
    seed: int, limit: int
) -> None:
    def group_of(row: Row) -> str:
        return row.message_group_id or row.message_id

    rows = some_rows(seed, 6)
    work = [r for r in sorted(rows, key=lambda r: (r.unit, r.position)) if r.disposition in WORK]
    sizes = Counter(map(group_of, work))
    taken = 0
    within = set[str]()
    for group in dict.fromkeys(map(group_of, work)):
        if sizes[group] <= limit:
            taken += sizes[group]
            if taken <= limit:
                within.add(group)

    after = dispositions_in(limited(rows_of(*map(Row._asdict, rows)), limit))

    before = {row.message_id: row.disposition for row in rows}
    over = [row.message_id for row in work if group_of(row) not in within]
    assert after == before | dict.fromkeys(over, Disposition.OVER_LIMIT)
    assert sum(disposition in WORK for disposition in after.values()) <= limit


def test_a_limit_of_nothing_to_do_changes_nothing() -> None:
    rows = rows_of(Row("a", None, "u", 0, 0, "leave")._asdict())

    assert dispositions_in(limited(rows, 1)) == {"a": "leave"}


def positioned(message_id: str, unit: str | None, position: int | None) -> dict[str, Any]:
    return {"message_id": message_id, "unit": unit, "position": position}


def test_a_chunk_follows_from_a_hash_of_the_id_or_from_the_position() -> None:
    """Those in order have a position."""
    ids = [f"m-é-{n}" for n in range(300)]
    rows = rows_of(
        *(positioned(message_id, None, None) for message_id in ids),
        positioned("first", "in-order-00", 99),
        positioned("next", "in-order-00", 100),
    )

    chunks = column_of(with_chunks(rows, 7), "unit", "chunk", "position")

    expected = {"first": ("in-order-00", 0, 99), "next": ("in-order-00", 1, 100)}
    for message_id in ids:
        digest = sha256(message_id.encode()).digest()
        expected[message_id] = ("without-order", int.from_bytes(digest[:8]) % 7, 0)
    assert chunks == expected
