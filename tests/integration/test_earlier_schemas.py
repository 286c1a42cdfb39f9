"""Files that an earlier version wrote are read with nulls in the columns that they lack."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_reprocess.archive import frames
from spark_reprocess.archive.dead_letter_schema import ARROW_SCHEMA
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.frames import archive_rows
from spark_reprocess.archive.message_store import drain_ids
from spark_reprocess.inspect.show import ShowOptions, show

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[1] / "data"
EARLIER = sorted(path.name for path in DATA.glob("archive-v*"))
"""An archive for each schema that some version wrote, with three messages."""

ALWAYS = {field.name for field in ARROW_SCHEMA if not field.nullable}


@pytest.fixture(params=EARLIER)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    shutil.copytree(DATA / request.param, tmp_path / "archive")
    return open_archive(str(tmp_path / "archive"))


@pytest.fixture
def stripped(tmp_path: Path) -> Archive:
    """An archive whose file has a column that nobody knows, and of the others those alone that
    every version writes."""
    shutil.copytree(DATA / EARLIER[0], tmp_path / "archive")
    for path in (tmp_path / "archive").rglob("*.parquet"):
        table = pq.ParquetFile(path).read().select(sorted(ALWAYS))
        pq.write_table(table.append_column("from_the_future", [["x"] * len(table)]), path)
    return open_archive(str(tmp_path / "archive"))


def written(archive: Archive) -> list[dict[str, Any]]:
    """What stands in the files, by this version's columns."""
    tables = (pq.ParquetFile(Path(archive.root, p)).read() for p in archive.list("messages"))
    found = pa.concat_tables(tables).to_pylist()
    return [{name: row.get(name) for name in ARROW_SCHEMA.names} for row in found]


def rows_by(
    spark: "SparkSession", archive: Archive, columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    rows = archive_rows(spark, archive, drain_ids(archive), columns).drop("drain_id")
    return list(rows.orderBy("message_id").toArrow().to_pylist())


@pytest.mark.parametrize("by_spark", [True, False])
def test_both_readers_read_files_of_every_earlier_version(
    spark: "SparkSession", earlier: Archive, monkeypatch: pytest.MonkeyPatch, *, by_spark: bool
) -> None:
    monkeypatch.setattr(frames, "_spark_reads", lambda *_: by_spark)

    found = rows_by(spark, earlier)

    assert [row["message_id"] for row in found] == ["m-001", "m-002", "m-003"]
    assert found == written(earlier)
    assert dict(found[0]["attributes"])["own-bytes"]["binary_value"] == b"\x00\xff\x89PNG"


@pytest.mark.parametrize("columns", [None, ("error_type", "message_id")])
@pytest.mark.parametrize("by_spark", [True, False])
def test_missing_columns_are_null_and_unknown_ones_are_left_out(
    spark: "SparkSession",
    stripped: Archive,
    columns: Sequence[str] | None,
    monkeypatch: pytest.MonkeyPatch,
    *,
    by_spark: bool,
) -> None:
    monkeypatch.setattr(frames, "_spark_reads", lambda *_: by_spark)

    found = rows_by(spark, stripped, columns)

    names = ARROW_SCHEMA.names if columns is None else columns
    assert found == [{name: row[name] for name in names} for row in written(stripped)]
    assert all(row["error_type"] is None for row in found)


def test_show_knows_the_messages_of_every_earlier_version(earlier: Archive) -> None:
    history = show(ShowOptions(earlier.root, "first-1", has_body=True))

    (copy,) = history.copies
    assert (copy.message_id, copy.error_type) == ("m-001", "TimeoutError")
    assert copy.attributes["own-number"] == "Number.float"


def test_show_reads_a_file_that_lacks_columns(stripped: Archive) -> None:
    (copy,) = show(ShowOptions(stripped.root, "first-1")).copies

    assert (copy.message_id, copy.parked_reason, copy.sent_at) == ("m-001", None, None)
