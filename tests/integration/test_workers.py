"""Workers that are started early are those that serve the queries."""

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_reprocess.spark.workers import workers_starting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IMPORTED = "spark_reprocess.erase"


def parents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Which process this worker is a copy of, and whether it has imported what it was told to."""
    import sys  # noqa: PLC0415 - on the worker

    for _ in batches:
        row = {"parent": os.getppid(), "has_imported": IMPORTED in sys.modules}
        yield pa.RecordBatch.from_pylist([row])


def test_queries_are_served_by_the_workers_that_were_started(spark: "SparkSession") -> None:
    schema = "parent long, has_imported boolean"
    context = spark.sparkContext
    count = context.defaultParallelism
    with workers_starting(spark, [IMPORTED]):
        pass
    started = set(context.parallelize(range(count), count).map(lambda _: os.getppid()).collect())

    rows = spark.range(0, count, 1, count).mapInArrow(parents, schema).collect()

    assert {row["parent"] for row in rows} == started
    assert any(row["has_imported"] for row in rows)


def test_a_module_that_is_not_there_stops_nothing(spark: "SparkSession") -> None:
    with workers_starting(spark, ["no.such.module"]):
        pass

    assert spark.range(3).count() == 3
