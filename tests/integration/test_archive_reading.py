"""The archive's rows are the same: read by the driver, by Spark, or by our tasks."""

from pathlib import Path

import pytest

from dlq.archive.messages import frames
from dlq.archive.messages.frames import FILE, read_rows
from dlq.archive.messages.message_store import message_files
from dlq.archive.storage.files import Archive
from tests.integration.spark_world import Spark, archive_of, parked

DRAINS = ("20261121T031502Z-aaaaaa", "20261121T031502Z-bbbbbb", "20261121T031502Z-cccccc")


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    for start, drain_id in enumerate(DRAINS):
        messages = [parked(n) for n in range(start, start + 4)]
        archive = archive_of(tmp_path, messages, drain_id)
    return archive


def use(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FEW_FILES", 8 if reader == "driver" else 0)
    monkeypatch.setattr(frames, "_spark_reads", lambda *_: reader == "spark")


@pytest.mark.parametrize("reader", ["driver", "tasks"])
def test_all_readers_give_the_same_rows_though_a_drain_goes_on(
    spark: Spark, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    """Of the drains that are wanted alone."""
    columns = ("sent_at", FILE, "attributes")
    use("spark", monkeypatch)
    by_spark = read_rows(spark, archive, message_files(archive, DRAINS[:2]), columns)
    use(reader, monkeypatch)
    by_us = read_rows(spark, archive, message_files(archive, DRAINS[:2]), columns)
    archive_of(tmp_path, [parked(90)], DRAINS[0])

    for ours, theirs in zip(by_us, by_spark, strict=True):
        assert ours.schema == theirs.schema
        assert ours.count() == 8
        assert sorted(map(str, ours.collect())) == sorted(map(str, theirs.collect()))
        assert {row[FILE] for row in ours.collect()} < set(archive.list("messages"))
