"""``drain`` in a real Spark session, against an SQS server over HTTP."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from dlq_replay.message import SendEntry
from dlq_replay.trial import trial_entry
from spark_reprocess.archive.dead_letter_schema import to_row
from spark_reprocess.archive.files import Probe, open_archive
from spark_reprocess.archive.frames import read_archive
from spark_reprocess.archive.message_store import drain_ids, rows_written, write_messages
from spark_reprocess.clients import QueueCounts, sqs_client
from spark_reprocess.command_line.cli import main
from spark_reprocess.drain.drain import DrainOptions, DrainWork, drain
from spark_reprocess.drain.drain_task import DrainRules
from spark_reprocess.errors import ArchiveError
from spark_reprocess.spark.failures import SPARK_FAILURES
from tests.builders import context, policy
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import (
    DRAIN_ID,
    bodies,
    dying_before_delete,
    entry_of,
    losing_deletes,
    parked,
    receive_all,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_nothing_is_deleted_when_the_write_fails(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(n)) for n in range(5)])
    (tmp_path / "messages").write_text("a file where a folder should be")

    summary = drain(spark, DrainOptions(source.url, str(tmp_path), tasks=1, wait_seconds=0))

    assert (summary.received, summary.archived, summary.deleted) == (5, 0, 0)
    assert "cannot write messages/drain_id=" in summary.stopped_by[0]
    assert summary.rest == QueueCounts(visible=0, in_flight=5, delayed=0)
    assert main(["analyze", "--archive", str(tmp_path)]) == 2
    assert "holds no messages; run drain first" in capsys.readouterr().err


def test_test_message_of_a_game_day_is_deleted_and_not_archived(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    test_message = trial_entry("0123456789abcdef", policy())
    source.send([test_message, SendEntry("real", test_message.attributes)])

    summary = drain(spark, DrainOptions(source.url, str(tmp_path), tasks=1, wait_seconds=0))

    assert (summary.archived, summary.deleted, summary.tests) == (1, 1, 1)
    assert summary.rest == QueueCounts(visible=0, in_flight=0, delayed=0)
    rows = read_archive(spark, open_archive(str(tmp_path))).collect()
    assert [row["body"] for row in rows] == ["real"]


def test_archive_names_the_source_queue_of_each_message(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    ours = context("by the function", first_id="a", reason="too_old", source_queue="orders.fifo")
    source.send([SendEntry("by the function", ours), SendEntry("by SQS")])

    drain(spark, DrainOptions(source.url, str(tmp_path), tasks=1, wait_seconds=0))

    rows = read_archive(spark, open_archive(str(tmp_path))).select("body", "source_queue").collect()
    assert {row["body"]: row["source_queue"] for row in rows} == {
        "by the function": "orders.fifo",
        "by SQS": None,
    }


def test_queue_url_may_have_a_path_prefix(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(1))])
    base, account, name = source.url.rsplit("/", 2)
    url = f"{base}/queue/us-east-1/{account}/{name}"

    argv = ["drain", "--archive", str(tmp_path), "--parked-queue-url", url, "--wait-seconds", "0"]

    assert main(argv) == 0
    assert read_archive(spark, open_archive(str(tmp_path))).count() == 1


def test_unwritable_archive_is_noticed_before_a_receive(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(1))])
    (tmp_path / "file").write_text("")

    with pytest.raises(ArchiveError, match="cannot read format: Not a directory"):
        drain(spark, DrainOptions(source.url, str(tmp_path / "file" / "archive")))
    assert [one.system["ApproximateReceiveCount"] for one in receive_all(source)] == ["1"]


@pytest.mark.parametrize("url", ["parked", "http://127.0.0.1:1/123456789012/parked"])
def test_queue_that_is_not_there_exits_with_two(
    spark: "SparkSession", tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["drain", "--archive", str(tmp_path), "--parked-queue-url", url]) == 2
    assert capsys.readouterr().err.startswith("dlq: --parked-queue-url")


def test_killed_drain_leaves_duplicates_that_a_read_removes(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    sent = [parked(n) for n in range(7)]
    source.send([entry_of(one) for one in sent])
    options = DrainOptions(
        source.url, str(tmp_path), tasks=1, wait_seconds=0, visibility_timeout_seconds=5
    )

    with pytest.raises(SPARK_FAILURES, match="worker exited unexpectedly"):
        drain(spark, options, make_client=dying_before_delete)
    time.sleep(5.1)
    summary = drain(spark, replace(options, visibility_timeout_seconds=300))

    assert (summary.archived, summary.deleted) == (7, 7)
    assert summary.rest == QueueCounts(visible=0, in_flight=0, delayed=0)
    rows = pq.read_table(tmp_path / "messages").num_rows
    archive = open_archive(str(tmp_path))
    assert rows == 14
    assert len(drain_ids(archive)) == 2
    read = read_archive(spark, archive).select("body", "drain_id").collect()
    assert sorted(row["body"] for row in read) == sorted(bodies(sent))
    assert {row["drain_id"] for row in read} == {drain_ids(archive)[0]}


def test_unconfirmed_deletes_are_counted_as_left(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(n)) for n in range(3)])

    summary = drain(
        spark,
        DrainOptions(source.url, str(tmp_path), tasks=1, wait_seconds=0),
        make_client=losing_deletes,
    )

    assert (summary.archived, summary.deleted, summary.left) == (3, 0, 3)


def test_progress_says_how_far_how_fast_and_what_is_left(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(n)) for n in range(10)])
    seen: list[str] = []

    @contextmanager
    def watched(label: str, status: Callable[[], str]) -> Iterator[None]:
        seen.extend((label, status()))
        yield
        seen.append(status())

    options = DrainOptions(source.url, str(tmp_path), tasks=1, limit=7, wait_seconds=0)
    drain(spark, options, progress=watched)

    assert seen[:2] == ["draining", "0 of about 7 messages, 0/s"]
    assert re.fullmatch(r"7 of about 7 messages, [\d,.]+/s", seen[2])


def test_limit_is_shared_by_all_tasks(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked")
    source.send([entry_of(parked(n)) for n in range(10)])

    summary = drain(spark, DrainOptions(source.url, str(tmp_path), 2, limit=5, wait_seconds=0))

    assert summary.archived == 5
    assert len(receive_all(source)) == 5


def test_limit_counts_what_a_former_attempt_at_a_task_took(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    rows = [to_row(parked(n), "u", datetime.now(UTC)) for n in range(3)]
    write_messages(archive, DRAIN_ID, 0, rows)
    write_messages(archive, DRAIN_ID, 10, rows)
    limits = (DrainRules(limit=5), DrainRules(limit=5), DrainRules())
    work = DrainWork(archive, Probe("p", b""), DRAIN_ID, "u", limits, sqs_client)

    assert [work.rules_left(index).limit for index in range(3)] == [2, 5, None]
    assert rows_written(archive, DRAIN_ID) == 6


def test_fifo_queue_is_drained_whole_with_its_groups(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    source = make_queue("parked.fifo")
    for n in range(24):
        fields = {"message_group_id": f"group-{n % 3}", "deduplication_id": str(n)}
        source.send([entry_of(parked(n), **fields)])

    summary = drain(spark, DrainOptions(source.url, str(tmp_path), tasks=2, wait_seconds=0))

    assert (summary.archived, summary.deleted) == (24, 24)
    rows = read_archive(spark, open_archive(str(tmp_path))).collect()
    assert sorted((row["message_group_id"], row["deduplication_id"]) for row in rows) == sorted(
        (f"group-{n % 3}", str(n)) for n in range(24)
    )
