"""Where the session's Python workers import from."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from zipimport import zipimporter

import pyarrow as pa
import pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def places(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    list(batches)
    zips = [path for path, one in sys.path_importer_cache.items() if isinstance(one, zipimporter)]
    yield pa.RecordBatch.from_pylist([{"pyspark": pyspark.__file__, "zips": zips}])


def test_workers_import_from_files_for_before_each_task_a_zip_is_read_anew(
    spark: "SparkSession",
) -> None:
    frame = spark.range(1, numPartitions=1).mapInArrow(places, "pyspark string, zips array<string>")

    (row,) = frame.collect()

    assert Path(row["pyspark"]).is_file()
    assert row["zips"] == []
