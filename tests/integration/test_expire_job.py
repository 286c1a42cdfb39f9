"""What a redrive, an analysis and a restore do after messages have expired."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.erase.erase import EraseOptions, EraseSummary, erase
from spark_reprocess.errors import InputError
from spark_reprocess.redrive.redrive_values import RestoreOptions
from spark_reprocess.redrive.restore import restore
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import (
    analyzed,
    archive_of,
    executed,
    parked,
    receive_all,
    recorded_as_sent,
)
from tests.support.approved_plan import approve
from tests.support.builders import context, message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATER = "20231122T000000Z-000000"
MONTH_SECONDS = 31 * 86_400


def everything(archive: Archive) -> bytes:
    return b"".join(path.read_bytes() for path in Path(archive.root).rglob("*") if path.is_file())


def expired_a_month_later(archive: Archive) -> EraseSummary:
    options = EraseOptions(archive.root, older_than_days=30, execute=True)
    return erase(None, options, now_seconds=lambda: time.time() + MONTH_SECONDS)


def test_archive_of_which_all_expired_can_be_analyzed_restored_and_filled_again(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination, back = make_queue("main"), make_queue("parked")
    archive = archive_of(tmp_path, [parked(0), parked(2)])
    for message_id in ("m-000", "m-002"):
        recorded_as_sent(archive, message_id)
    expired_a_month_later(archive)

    # A drain that was killed had archived a message without deleting it: it comes again.
    archive_of(tmp_path, [parked(0)], drain_id=LATER)
    plan = analyzed(spark, archive).plan_path
    again = executed(spark, archive, plan, destination.url)
    restored = restore(
        spark,
        RestoreOptions(
            archive.root, back.url, include_foreign=True, execute=True, reason="try again"
        ),
    )

    assert (again.count("sent"), receive_all(destination)) == (0, [])
    assert (restored.count("restored"), receive_all(back)) == (0, [])


def test_erase_finds_the_reports_that_quote_a_message_that_expired(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    """Asked for by its own id, by its first id, and by the id of a copy that came later."""
    destination = make_queue("main")
    jane = message("m-jane", "Jane was here", context(first_id="f-jane"))
    joan = message("m-joan", "Joan was here", context(first_id="f-joan"))
    judy = message("m-judy", "Judy was here", context(first_id="f-judy"))
    archive = archive_of(tmp_path, [parked(0), jane, joan, judy])
    plan = analyzed(spark, archive).plan_path
    approve(Path(plan))
    where = "message_id IN ('m-jane', 'm-joan', 'm-judy')"
    assert executed(spark, archive, plan, destination.url, where=where).count("sent") == 3
    expired_a_month_later(archive)
    again = message("m-judy-2", "Judy", context(first_id="f-judy", plan_id="p-0"))
    archive_of(tmp_path, [again], drain_id=LATER)
    for name in (b"Jane", b"Joan", b"Judy"):
        assert name in everything(archive)

    asked = ("m-jane", "f-joan", "m-judy-2")
    options = EraseOptions(archive.root, asked, execute=True, reason="asked to")
    summary = erase(spark, options)

    assert (summary.expired, summary.unknown_ids) == (3, ())
    for name in (b"Jane", b"Joan", b"Judy"):
        assert name not in everything(archive)
    assert erase(spark, options).is_empty
    with pytest.raises(InputError, match="analyze anew"):
        executed(spark, archive, plan, destination.url)
