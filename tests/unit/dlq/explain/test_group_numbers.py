"""The numbers of groups, and which of their messages are looked at."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from dlq.explain.grouping import OTHERS, Grouping, in_queue
from dlq.explain.groups import (
    MOST_KEYS,
    chance_of,
    different_messages,
    group_rows,
    picked,
    tallies,
    with_groups,
)

START = datetime(2026, 11, 21, tzinfo=UTC)
SECONDS = range(int(START.timestamp()), int(START.timestamp()) + 60)

_TIME = pa.timestamp("us", tz="UTC")
_TEXTS = pa.dictionary(pa.int32(), pa.string())
_SLIM: dict[str, pa.DataType] = {
    "message_id": pa.string(),
    "first_id": pa.string(),
    "file": _TEXTS,
    "sent_at": _TIME,
    "first_seen_at": _TIME,
    "replay_count": pa.int64(),
    "parked_reason": _TEXTS,
    "source_queue": _TEXTS,
    "source_arn": _TEXTS,
    "body_bytes": pa.int64(),
    "chance": pa.float64(),
    "group_id": _TEXTS,
    "queue": _TEXTS,
}


def slim(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows as ``with_groups`` returns them, in two pieces; what they leave out is null."""
    full_rows = [{"body_bytes": 1, "chance": chance_of(row["message_id"]), **row} for row in rows]
    half = len(full_rows) // 2
    schema = pa.schema(_SLIM)
    pieces = [pa.Table.from_pylist(part, schema) for part in (full_rows[:half], full_rows[half:])]
    return pa.concat_tables(pieces).unify_dictionaries()


def tallied(rows: Sequence[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    names = ("group_id", "parked_reason", "source_queue", "replay_count", "second")
    given = [dict(zip(names, row, strict=True)) for row in rows]
    for number, row in enumerate(given):
        second = row.pop("second")
        row["message_id"] = f"m-{number}"
        row["sent_at"] = None if second is None else START + timedelta(seconds=second)
    counted = tallies(slim(given), SECONDS)
    counts = {(row["group_id"], row["column"], row["value"], row["count"]) for row in counted}
    assert len(counts) == len(counted)
    return counts


def test_each_column_is_counted_by_itself_and_an_absent_value_is_one() -> None:
    rows = [
        ("g1", None, "orders", 3, 10),
        ("g1", "too_old", None, 3, 11),
        ("g1", "too_old", None, None, None),
        ("g2", "too_old", "orders", 4, 10),
    ]

    assert tallied(rows) == {
        ("g1", "reason", "parked_by_sqs", 1),
        ("g1", "reason", "too_old", 2),
        ("g1", "source", "orders", 1),
        ("g1", "source", None, 2),
        ("g1", "replay_count", "3", 2),
        ("g1", "replay_count", None, 1),
        ("g1", "bucket", "10", 1),
        ("g1", "bucket", "11", 1),
        ("g1", "bucket", None, 1),
        ("g2", "reason", "too_old", 1),
        ("g2", "source", "orders", 1),
        ("g2", "replay_count", "4", 1),
        ("g2", "bucket", "10", 1),
    }


def test_a_queue_that_only_sqs_names_is_a_source() -> None:
    arn = "arn:aws:sqs:eu-central-1:1:orders"
    rows = [
        {"message_id": "m-1", "group_id": "g1", "source_queue": "orders", "source_arn": arn},
        {"message_id": "m-2", "group_id": "g1", "source_arn": arn},
    ]

    counted = tallies(slim(rows), range(0))

    assert [row["value"] for row in counted if row["column"] == "source"] == [arn, "orders"]


def test_of_many_values_the_most_frequent_are_kept() -> None:
    rare = [("g1", "too_old", "orders", number, 0) for number in range(150)]
    frequent = [("g1", "too_old", "orders", 149, 0)] * 2

    counts = {}
    for _, column, value, count in tallied([*rare, *frequent]):
        if column == "replay_count":
            counts[value] = count

    # Of equally frequent ones those that come first as texts.
    assert counts == {"149": 3, **dict.fromkeys(sorted(map(str, range(149)))[:99], 1)}


def slim_row(number: int, group_id: str = "g1", body_bytes: int = 100) -> dict[str, Any]:
    sent_at = START + timedelta(minutes=number)
    return {
        "message_id": f"m-{number:03d}",
        "sent_at": sent_at,
        "first_seen_at": sent_at - timedelta(hours=2),
        "body_bytes": body_bytes,
        "group_id": group_id,
        "first_id": f"m-{number % 70}" if number % 2 else None,
    }


def test_a_group_s_numbers_are_those_of_its_messages() -> None:
    sizes = [*range(2, 100)]
    # The smallest and the largest: neither is the first message, nor the last.
    sizes.insert(11, 1)
    sizes.insert(12, 5000)
    rows = [slim_row(number, body_bytes=size) for number, size in enumerate(sizes)]
    rows.append({"message_id": "other", "body_bytes": 7, "group_id": "g2", "first_id": "m-1"})

    messages = slim(rows)
    groups = group_rows(messages)
    first, second = groups

    assert (first["group_id"], first["count"]) == ("g1", 100)
    assert first["body_bytes"] == [1, 5, 50, 95, 5000]
    assert first["first_parked_at"] == START
    assert first["last_parked_at"] == START + timedelta(minutes=99)
    # What is first known of a message: when it was first seen, or else sent.
    assert first["failed_at"][0] == (START - timedelta(hours=2)).timestamp()
    # The first, the last, one by chance, the shortest and the longest.
    by_chance = min((row["message_id"] for row in rows[:100]), key=chance_of)
    assert first["shown"] == list(dict.fromkeys(["m-000", "m-099", by_chance, "m-011", "m-012"]))
    assert (second["count"], second["first_parked_at"], second["failed_at"]) == (1, None, None)
    assert second["shown"] == ["other"]
    # 50 without a first id, 35 first ids among the others.
    assert different_messages(messages) == 85
    assert (first["body_bytes_sum"], second["body_bytes_sum"]) == (sum(sizes), 7)


@pytest.mark.parametrize(
    ("count", "quantiles"),
    [
        (1, [1, 1, 1, 1, 1]),
        (2, [1, 1, 1, 2, 2]),
        (19, [1, 1, 10, 19, 19]),
        (20, [1, 1, 10, 19, 20]),
        (140, [1, 7, 70, 133, 140]),
    ],
)
def test_a_quantile_is_the_least_value_that_so_many_do_not_exceed(
    count: int, quantiles: list[int]
) -> None:
    rows = [slim_row(number, body_bytes=count - number) for number in range(count)]

    (group,) = group_rows(slim(rows))

    assert group["body_bytes"] == quantiles


def test_of_messages_at_the_same_time_the_id_decides_and_no_time_comes_first() -> None:
    rows: list[dict[str, Any]] = [
        {"message_id": "m-b", "group_id": "g1", "sent_at": START, "chance": 0.2},
        {"message_id": "m-a", "group_id": "g1", "sent_at": START, "chance": 0.2},
        {"message_id": "m-d", "group_id": "g1", "sent_at": START, "chance": 0.9},
        {"message_id": "m-c", "group_id": "g1", "sent_at": None, "chance": 0.9},
    ]

    (group,) = group_rows(slim(rows))

    # The first parked, the last, one by chance, and of equal sizes the first and the last.
    assert group["shown"] == ["m-c", "m-d", "m-a"]


def test_the_largest_come_first_and_equals_by_their_id() -> None:
    rows = [slim_row(n, group_id) for n, group_id in enumerate(["b", "a", "c", "c", "d"])]

    groups = group_rows(slim(rows))

    assert [group["group_id"] for group in groups] == ["c", "a", "b", "d"]


def test_without_messages_there_are_no_groups() -> None:
    nothing = slim([])

    assert (group_rows(nothing), different_messages(nothing)) == ([], 0)
    assert tallies(nothing, range(0)) == []


def test_a_chance_is_uniform_and_the_id_s_own() -> None:
    chances = [chance_of(f"m-{number}") for number in range(10_000)]

    assert chances == [chance_of(f"m-{number}") for number in range(10_000)]
    assert all(0 <= chance < 1 for chance in chances)
    tenths = [sum(n <= 10 * chance < n + 1 for chance in chances) for n in range(10)]
    # Five standard deviations.
    assert all(abs(count - 1000) < 150 for count in tenths)


def test_messages_are_picked_by_the_rate_of_their_group_or_because_they_are_shown() -> None:
    rows = []
    for group_id in ("g1", "g2"):
        for number in range(10):
            message_id = f"{group_id}-{number}"
            place = {"group_id": group_id, "file": "f"}
            rows.append({"message_id": message_id, "chance": number / 10, **place})

    picks = picked(slim(rows), {"g1": 0.2, "g2": 0.0}, [["g1-1", "g1-9"], ["g2-3"]]).to_pylist()

    assert [(row["message_id"], row["is_sampled"], row["is_shown"]) for row in picks] == [
        ("g1-0", True, False),
        ("g1-1", True, True),
        ("g1-9", False, True),
        ("g2-3", False, True),
    ]
    assert [row["group_id"] for row in picks] == ["g1", "g1", "g1", "g2"]
    assert {row["file"] for row in picks} == {"f"}


ORIGIN = ("source_queue", "source_arn", "queue_url", "parked_reason")


def keyed(keys: Sequence[str], origins: Sequence[tuple[str | None, ...]] = ()) -> pa.Table:
    """Rows as ``read_keyed`` returns them; *origins* have the values of ``ORIGIN``."""
    origins = origins or [(None,) * len(ORIGIN)] * len(keys)
    columns: dict[str, Any] = {"message_id": [f"m-{number}" for number in range(len(keys))]}
    for name, values in zip(ORIGIN, zip(*origins, strict=True), strict=True):
        columns[name] = pa.array(values, pa.string()).dictionary_encode()
    columns["key"] = pa.array(keys).dictionary_encode()
    return pa.table(columns)


def assigned(messages: pa.Table) -> list[str]:
    return [str(group_id) for group_id in messages["group_id"].to_pylist()]


def test_messages_get_the_group_of_their_key() -> None:
    counts = dict[str, int]()

    def assign(of_keys: Any) -> Grouping:
        counts.update(of_keys)
        return Grouping({"a": "g-1", "b": "g-2", "c": "g-1"})

    messages, grouping = with_groups(keyed(["a", "b", "c", "b"]), assign)

    assert counts == {"b": 2, "a": 1, "c": 1}
    assert messages["message_id"].to_pylist() == ["m-0", "m-1", "m-2", "m-3"]
    assert assigned(messages) == ["g-1", "g-2", "g-1", "g-2"]
    assert grouping.ids["c"] == "g-1"


def test_a_key_has_the_source_queue_of_its_messages() -> None:
    stock = "arn:aws:sqs:eu-central-1:123456789012:stock"
    dlq = "arn:aws:sqs:eu-central-1:123456789012:dlq"
    origins = [
        ("orders", None, "parked", "too_old"),
        ("orders", dlq, "parked", None),
        # From a DLQ, which is no source queue, to the queue to which the function parks.
        (None, dlq, "parked", None),
        (None, None, "parked", "too_old"),
        # From a source queue to its DLQ, to which nothing is parked.
        (None, stock, "stock-dlq", None),
        ("stock", None, "stock-dlq", None),
    ]
    counts = dict[str, int]()

    def assign(of_keys: Any) -> Grouping:
        counts.update(of_keys)
        return Grouping({key: f"g-{place}" for place, key in enumerate(of_keys)})

    messages, _ = with_groups(keyed(["a"] * 6, origins), assign)

    assert counts == {"a": 2, in_queue("a", "orders"): 2, in_queue("a", "stock"): 2}
    queues = ["orders", "orders", "", "", "stock", "stock"]
    assert messages["queue"].to_pylist() == queues
    ids = dict(zip(counts, ("g-0", "g-1", "g-2"), strict=True))
    keys = [in_queue("a", queue) if queue else "a" for queue in queues]
    assert assigned(messages) == [ids[key] for key in keys]


def test_a_group_is_of_a_queue_if_its_messages_name_no_other() -> None:
    of_group = {
        "g-1": ["orders", "orders", ""],
        "g-2": ["", ""],
        "g-3": ["orders", "stock"],
        "g-4": ["stock"],
    }
    rows: list[dict[str, Any]] = []
    for group_id, queues in of_group.items():
        for queue in queues:
            rows.append({"message_id": f"m-{len(rows)}", "group_id": group_id, "queue": queue})

    groups = {row["group_id"]: row["queue"] for row in group_rows(slim(rows))}

    assert groups == {"g-1": "orders", "g-2": "", "g-3": "", "g-4": "stock"}


def test_of_too_many_keys_the_rarest_have_no_group_of_their_own() -> None:
    many = [f"k-{number:06d}" for number in range(MOST_KEYS + 2)]
    grouped = dict[str, str]()

    def assign(of_keys: Any) -> Grouping:
        grouped.update(dict.fromkeys(of_keys, "g-1"))
        return Grouping(grouped)

    messages, _ = with_groups(keyed([*many, many[-1]]), assign)

    rare = [row["message_id"] for row in messages.to_pylist() if row["group_id"] == OTHERS]
    assert len(grouped) == MOST_KEYS
    # The last one has two messages.
    assert rare == [f"m-{MOST_KEYS - 1}", f"m-{MOST_KEYS}"]
