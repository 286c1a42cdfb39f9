"""What ``--where`` and ``--limit`` leave of a plan's work, against a model in plain Python."""

from collections import Counter
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from spark_reprocess.archive.ledger.disposition import WORK, Disposition
from spark_reprocess.archive.messages.frames import Held
from spark_reprocess.archive.messages.message_order import keep_groups_whole, limited
from spark_reprocess.redrive.resolving.dispositions import with_chunks
from tests.integration.spark_world import Spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Row(NamedTuple):
    message_id: str
    message_group_id: str | None
    unit: str
    chunk: int
    position: int
    disposition: str


SCHEMA = (
    "message_id string, message_group_id string, unit string, chunk long, position int, "
    "disposition string"
)
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
    return rows


def fates_of(frame: "DataFrame") -> dict[str, str]:
    return {
        row["message_id"]: row["disposition"]
        for row in frame.select("message_id", "disposition").collect()
    }


def changed(rows: list[Row], ids: set[str], disposition: Disposition) -> dict[str, str]:
    return {
        row.message_id: disposition if row.message_id in ids else row.disposition for row in rows
    }


def frame_of(spark: Spark, rows: list[Row]) -> "DataFrame":
    return spark.createDataFrame(rows, SCHEMA)


@pytest.mark.parametrize("to_fifo", [True, False])
@pytest.mark.parametrize(("seed", "limit"), [(1, 1), (2, 7), (3, 12), (4, 1000)])
def test_limit_takes_the_first_of_the_plans_order_on_fifo_whole_groups(
    spark: Spark, seed: int, limit: int, *, to_fifo: bool
) -> None:
    def group_of(row: Row) -> str:
        return (row.message_group_id if to_fifo else None) or row.message_id

    rows = some_rows(seed, 6)
    work = [r for r in sorted(rows, key=lambda r: (r.unit, r.position)) if r.disposition in WORK]
    sizes = Counter(map(group_of, work))
    taken, within = 0, set()
    for group in dict.fromkeys(map(group_of, work)):
        if sizes[group] <= limit:
            taken += sizes[group]
            within |= {group} if taken <= limit else set()

    found = fates_of(limited(frame_of(spark, rows), limit, to_fifo=to_fifo))

    over = {row.message_id for row in work if group_of(row) not in within}
    assert found == changed(rows, over, Disposition.OVER_LIMIT)
    assert sum(disposition in WORK for disposition in found.values()) <= limit


def test_group_of_which_a_condition_takes_a_part_is_left_whole(spark: Spark) -> None:
    rows = some_rows(5, 6)
    split = {r.message_group_id for r in rows if r.disposition == Disposition.NOT_SELECTED} - {None}

    found = fates_of(keep_groups_whole(frame_of(spark, rows)))

    parts = {r.message_id for r in rows if r.disposition in WORK and r.message_group_id in split}
    assert found == changed(rows, parts, Disposition.SPLIT_GROUP)


@pytest.mark.parametrize("few", [True, False])
def test_a_chunk_follows_from_a_hash_of_the_id_or_from_the_position(
    spark: Spark, *, few: bool
) -> None:
    """Those in order have a position."""
    ids = [f"m-é-{n}" for n in range(300)]
    hashed = [(one, None, None) for one in ids]
    in_order = [("first", "in-order-00", 99), ("next", "in-order-00", 100)]
    columns = "message_id string, unit string, position long"
    rows = spark.createDataFrame([*hashed, *in_order], columns)
    held = Held(rows.toArrow() if few else rows)

    found = {
        row["message_id"]: (row["unit"], row["chunk"], row["position"])
        for row in with_chunks(held, 7).frame.collect()
    }

    digests = {one: sha256(one.encode()).digest() for one in ids}
    assert found == {
        "first": ("in-order-00", 0, 99),
        "next": ("in-order-00", 1, 100),
        **{one: ("without-order", int.from_bytes(of[:8]) % 7, 0) for one, of in digests.items()},
    }
