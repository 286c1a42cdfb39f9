"""The numbers of groups, counted by Spark."""

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq.engine import Engine
from dlq.explain.groups import different_messages, group_rows, tallies

_COLUMNS = (
    "group_id string, parked_reason string, source_queue string, replay_count long, sent long"
)


def tallied(engine: Engine, rows: list[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    arn = F.lit(None).cast("string")
    slim = engine.createDataFrame(rows, _COLUMNS).withColumn("source_arn", arn)
    slim = slim.withColumn("sent_at", F.timestamp_seconds("sent"))
    counted = tallies(slim, F.col("sent")).to_pylist()
    found = {(row["group_id"], row["column"], row["value"], row["count"]) for row in counted}
    assert len(found) == len(counted)
    return found


def test_each_column_is_counted_by_itself_and_an_absent_value_is_one(engine: Engine) -> None:
    rows = [
        ("g1", None, "orders", 3, 10),
        ("g1", "too_old", None, 3, 11),
        ("g1", "too_old", None, None, None),
        ("g2", "too_old", "orders", 4, 10),
    ]

    assert tallied(engine, rows) == {
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


def test_of_many_values_the_most_frequent_are_kept(engine: Engine) -> None:
    rare = [("g1", "too_old", "orders", number, 0) for number in range(150)]
    frequent = [("g1", "too_old", "orders", 149, 0)] * 2

    found = tallied(engine, [*rare, *frequent])

    counts = {value: count for _, column, value, count in found if column == "replay_count"}
    assert len(counts) == 100
    assert counts["149"] == 3


START = datetime(2026, 11, 21, tzinfo=UTC)
_SLIM = (
    "message_id string, sent_at timestamp, first_seen_at timestamp, body_bytes long, "
    "group_id string, first_id string"
)


def slim_row(number: int, group_id: str = "g1", body_bytes: int = 100) -> tuple[Any, ...]:
    sent_at = START + timedelta(minutes=number)
    seen_at = sent_at - timedelta(hours=2)
    first_id = f"m-{number % 70}" if number % 2 else None
    return (f"m-{number:03d}", sent_at, seen_at, body_bytes, group_id, first_id)


def test_a_group_s_numbers_are_those_of_its_messages(engine: Engine) -> None:
    sizes = [*range(1, 100), 5000]
    for shown, other in ((11, 0), (12, 99)):
        sizes[shown], sizes[other] = sizes[other], sizes[shown]
    rows = [slim_row(number, body_bytes=size) for number, size in enumerate(sizes)]
    rows.append(("other", None, None, 7, "g2", "m-1"))

    slim = engine.createDataFrame(rows, _SLIM)
    groups = group_rows(slim)
    first, second = groups

    assert (first["group_id"], first["count"]) == ("g1", 100)
    assert first["body_bytes"] == [1, 5, 50, 95, 5000]
    assert first["first_sent_at"] == START
    assert first["last_sent_at"] == START + timedelta(minutes=99)
    # What is first known of a message: when it was first seen, or else sent.
    assert first["failed_at"][0] == (START - timedelta(hours=2)).timestamp()
    # The first, the last, the shortest and the longest.
    assert {"m-000", "m-099", "m-011", "m-012"} <= set(first["shown"])
    assert 3 <= len(first["shown"]) == len(set(first["shown"])) <= 5
    assert (second["count"], second["first_sent_at"], second["failed_at"]) == (1, None, None)
    assert second["shown"] == ["other"]
    # 50 without a first id, 35 first ids among the others.
    assert different_messages(slim) == 85
    assert [one["body_bytes_sum"] for one in groups] == [sum(sizes), 7]


def test_the_largest_come_first_and_equals_by_their_id(engine: Engine) -> None:
    rows = [slim_row(n, group_id) for n, group_id in enumerate(["b", "a", "c", "c", "d"])]

    groups = group_rows(engine.createDataFrame(rows, _SLIM))

    assert [group["group_id"] for group in groups] == ["c", "a", "b", "d"]
    none = engine.createDataFrame([], _SLIM)
    assert (group_rows(none), different_messages(none)) == ([], 0)
