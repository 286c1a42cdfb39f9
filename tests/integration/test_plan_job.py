"""Plans, chunks and ledgers across runs, in a real Spark session."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_reprocess.errors import InputError
from tests.approved_plan import planned
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import (
    analyzed,
    archive_of,
    executed,
    parked,
    receive_all,
    reported,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_large_group_is_sent_in_chunks_at_a_rate(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(2 * n) for n in range(130)])

    summary = executed(spark, archive, planned(archive), destination.url, max_rate=500.0)

    assert summary.count("sent") == 130
    assert len([p for p in archive.list("ledger") if p.endswith("result.jsonl")]) == 2


def test_discarded_and_sent_messages_leave_the_analysis(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(n) for n in range(4)])
    executed(spark, archive, planned(archive), destination.url, where="message_id < 'm-002'")
    executed(spark, archive, reported(spark, archive, "discard"), destination.url)

    summary = analyzed(spark, archive)

    assert len(receive_all(destination)) == 2
    assert (summary.messages, summary.decided, summary.groups) == (4, 4, ())


def test_plan_does_not_send_what_another_plan_sent(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(n) for n in range(4)])
    first, second = planned(archive), planned(archive)

    executed(spark, archive, first, destination.url)
    summary = executed(spark, archive, second, destination.url)

    assert (summary.count("sent"), summary.count("sent_before")) == (0, 4)


def test_archive_that_changed_since_is_refused(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(0)])
    plan = planned(archive)
    archive_of(tmp_path, [parked(2)])

    with pytest.raises(InputError, match="hold 2 messages, not the 1 that it froze"):
        executed(spark, archive, plan, destination.url)


def test_plan_of_another_archive_is_refused(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    plan = planned(archive_of(tmp_path / "mine", [parked(0)]))
    other = archive_of(tmp_path / "other", [parked(0)], drain_id="20261122T000000Z-000000")

    with pytest.raises(InputError, match=f"{other.root}: holds no drain 20261121T031502Z-ab12cd"):
        executed(spark, other, plan, destination.url)
    assert other.list("ledger") == []
    assert receive_all(destination) == []


def test_group_that_the_plan_invents_is_refused(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    archive = archive_of(tmp_path, [parked(0)])
    plan = Path(planned(archive))
    plan.write_text(plan.read_text().replace("id: g-", "id: x-"))

    with pytest.raises(InputError, match="its snapshot has no group"):
        executed(spark, archive, str(plan), make_queue("main").url)


def test_later_drain_does_not_disturb_an_older_plan(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    archive = archive_of(tmp_path, [parked(0)])
    plan = planned(archive)
    archive_of(tmp_path, [parked(2)], drain_id="20261122T000000Z-000000")

    assert executed(spark, archive, plan, make_queue("main").url).count("sent") == 1
