"""The numbers of groups, counted by Spark."""

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.analysis.groups import tallies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = "group_id string, parked_reason string, source_arn string, replay_count long, sent long"


def tallied(spark: "SparkSession", rows: list[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    slim = spark.createDataFrame(rows, _COLUMNS)
    found = tallies(slim, ["g1", "g2"], "by SQS", F.col("sent")).to_pylist()
    assert len({(row["group_id"], row["column"], row["value"]) for row in found}) == len(found)
    return {(row["group_id"], row["column"], row["value"], row["count"]) for row in found}


def test_each_column_is_counted_by_itself_and_an_absent_value_is_one(
    spark: "SparkSession",
) -> None:
    rows = [
        ("g1", None, "arn:a", 3, 10),
        ("g1", "too_old", None, 3, 11),
        ("g1", "too_old", None, None, None),
        ("g2", "too_old", "arn:a", 4, 10),
        ("unlisted", "too_old", "arn:a", 4, 10),
    ]

    assert tallied(spark, rows) == {
        ("g1", "reason", "by SQS", 1),
        ("g1", "reason", "too_old", 2),
        ("g1", "source", "arn:a", 1),
        ("g1", "source", None, 2),
        ("g1", "replay_count", "3", 2),
        ("g1", "replay_count", None, 1),
        ("g1", "bucket", "10", 1),
        ("g1", "bucket", "11", 1),
        ("g1", "bucket", None, 1),
        ("g2", "reason", "too_old", 1),
        ("g2", "source", "arn:a", 1),
        ("g2", "replay_count", "4", 1),
        ("g2", "bucket", "10", 1),
    }


def test_of_many_values_the_most_frequent_are_kept(spark: "SparkSession") -> None:
    rare = [("g1", "too_old", "arn:a", number, 0) for number in range(150)]
    frequent = [("g1", "too_old", "arn:a", 149, 0)] * 2

    found = tallied(spark, [*rare, *frequent])

    counts = {value: count for _, column, value, count in found if column == "replay_count"}
    assert len(counts) == 100
    assert counts["149"] == 3
