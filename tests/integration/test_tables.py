"""Tables that Spark's tasks write into the archive and read from it, on disk and on S3."""

from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq.archive.messages.frames import read_table, write_table
from dlq.archive.storage.files import Archive, open_archive
from dlq.archive.storage.table_parts import parts_of
from dlq.errors import ArchiveError
from spark_reprocess.failures import explained
from tests.integration.spark_world import Spark

FOLDER = "reports/r/messages.parquet"
DDL = "id long, tags array<string>, attributes map<string, struct<a: string>>, at timestamp"
COLUMNS = (
    "id",
    "array('x', null) AS tags",
    "map('k', named_struct('a', 'v')) AS attributes",
    "timestamp_seconds(id) AS at",
)


def test_a_table_is_read_as_it_was_written(spark: Spark, archive: Archive) -> None:
    written = spark.range(0, 50, 1, 3).selectExpr(*COLUMNS)

    digest = write_table(written, archive, FOLDER)

    found = read_table(spark, archive, FOLDER, DDL, digest)
    assert sorted(map(str, found.collect())) == sorted(map(str, written.collect()))
    assert sum(part.rows for part in parts_of(archive, FOLDER)) == 50


def test_a_table_without_rows_is_a_table(spark: Spark, archive: Archive) -> None:
    digest = write_table(spark.range(0), archive, FOLDER)

    assert read_table(spark, archive, FOLDER, "id long", digest).collect() == []


def test_tasks_name_what_they_cannot_write_or_read(spark: Spark, tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    digest = write_table(spark.range(3), archive, FOLDER)
    for part in parts_of(archive, FOLDER):
        archive.remove(f"{FOLDER}/{part.name}")
    (tmp_path / "other").write_text("")

    with pytest.raises(ArchiveError, match="cannot write other/part"):
        write_table(spark.range(3), archive, "other")
    with pytest.raises(ArchiveError, match="is missing"), explained():
        read_table(spark, archive, FOLDER, "id long", digest).count()


def test_millions_of_rows_are_not_broadcast(spark: Spark, tmp_path: Path) -> None:
    """Spark's estimate is the size of the list of files, whatever the files hold."""
    archive = open_archive(str(tmp_path))
    ids = spark.range(100_001)
    write_table(ids, archive, FOLDER)
    table = read_table(spark, archive, FOLDER, "id long").withColumn("x", F.lit(1))

    plan = ids.join(table.select("id", "x"), on="id")._jdf.queryExecution().toString()  # noqa: SLF001

    assert "SortMergeJoin" in plan
    assert "BroadcastHashJoin" not in plan
