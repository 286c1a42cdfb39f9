"""``redrive --rehearsed`` in a real Spark session: only what passed is sent."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.rehearsals import (
    MessageVerdict,
    Rehearsal,
    Verdict,
    newest_rehearsal,
    read_verdicts,
    write_rehearsal,
)
from spark_reprocess.erase.erase import EraseOptions, erase
from spark_reprocess.errors import ArchiveError
from spark_reprocess.plan.reading import read_plan
from tests.approved_plan import planned
from tests.builders import message
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import archive_of, executed, parked, receive_all
from tests.integration.test_edit_job import RAISE_ID, with_edit
from tests.needs import needs_namespaces
from tests.rehearsals import rehearse, write_app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WORDS = ("sent", "not_rehearsed", "would_fail", "rehearsal_unknown", "waits")


def store(
    archive: Archive, plan: str, verdicts: Mapping[str, str], number: int = 0, edit: str = ""
) -> Rehearsal:
    """Store a rehearsal of the plan's first group."""
    read = read_plan(Path(plan).read_text())
    rehearsal = Rehearsal(
        rehearsal_id=f"20261122T00000{number}Z-ab12cd",
        plan_id=read.plan_id,
        group_id=read.groups[0].group_id,
        handler="app:lambda_handler",
        code="sha256 ab",
        edit=edit,
        who="jo@desk",
        time="2026-11-22T00:00:00+00:00",
        counts={"pass": list(verdicts.values()).count("pass")},
    )
    rows = [MessageVerdict(name, Verdict(word), "why") for name, word in verdicts.items()]
    return write_rehearsal(archive, rehearsal, rows)


def counts(summary: Any) -> dict[str, int]:
    return {word: summary.count(word) for word in _WORDS if summary.count(word)}


def test_only_what_passed_is_sent_and_the_rest_is_named(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(2 * n) for n in range(4)])
    plan = planned(archive)
    store(archive, plan, {"m-000": "pass", "m-002": "fail", "m-004": "unknown"})

    dry = executed(spark, archive, plan, destination.url, rehearsed=True, execute=False)
    summary = executed(spark, archive, plan, destination.url, rehearsed=True)

    assert dry.count("send") == 1
    assert counts(summary) == {
        "sent": 1,
        "not_rehearsed": 1,
        "would_fail": 1,
        "rehearsal_unknown": 1,
    }
    named = {problem.word: problem.examples for problem in summary.problems}
    assert named["would_fail"] == ("m-002",)
    assert [one.first_id for one in receive_all(destination)] == ["first-0"]
    assert any("1 of 1 messages passed rehearsal 20261122" in note for note in summary.notes)


def test_newest_rehearsal_with_the_same_edit_counts(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(0), parked(2)])
    plan = planned(archive)
    store(archive, plan, {"m-000": "fail", "m-002": "fail"}, number=0)
    store(archive, plan, {"m-000": "pass", "m-002": "fail"}, number=1)
    store(archive, plan, {"m-000": "fail", "m-002": "pass"}, number=2, edit="0123456789abcdef")

    summary = executed(spark, archive, plan, destination.url, rehearsed=True)

    assert counts(summary) == {"sent": 1, "would_fail": 1}
    assert [one.first_id for one in receive_all(destination)] == ["first-0"]


def test_group_that_was_rehearsed_with_another_edit_is_left(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(0)])
    plan = planned(archive)
    store(archive, plan, {"m-000": "pass"})

    summary = executed(spark, archive, with_edit(plan, RAISE_ID), destination.url, rehearsed=True)

    assert counts(summary) == {"not_rehearsed": 1}
    assert any("was not rehearsed in this plan with the edit" in note for note in summary.notes)
    assert receive_all(destination) == []


def test_what_did_not_pass_blocks_its_message_group(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main.fifo")
    archive = archive_of(
        tmp_path,
        [
            message("m-1", '{"id":1}', MessageGroupId="g", SequenceNumber="1"),
            message("m-2", '{"id":2}', MessageGroupId="g", SequenceNumber="2"),
            message("m-3", '{"id":3}', MessageGroupId="h", SequenceNumber="3"),
        ],
    )
    plan = planned(archive)
    store(archive, plan, {"m-1": "fail", "m-2": "pass", "m-3": "pass"})

    summary = executed(spark, archive, plan, destination.url, rehearsed=True)

    assert counts(summary) == {"sent": 1, "would_fail": 1, "waits": 1}
    assert [one.message_group_id for one in receive_all(destination)] == ["h"]


def test_changed_verdicts_stop_the_redrive(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    archive = archive_of(tmp_path, [parked(0)])
    plan = planned(archive)
    store(archive, plan, {"m-000": "fail"})
    (path,) = [one for one in archive.list("rehearsals") if one.endswith(".parquet")]
    other = archive_of(tmp_path / "other", [parked(0)])
    store(other, plan, {"m-000": "pass"})
    content = other.read(path)
    assert content is not None
    archive.write(path, content)

    with pytest.raises(ArchiveError, match="was changed"):
        executed(spark, archive, plan, destination.url, rehearsed=True)

    assert receive_all(destination) == []


def test_erasing_a_message_removes_the_verdicts_on_it(
    spark: "SparkSession", tmp_path: Path
) -> None:
    archive = archive_of(tmp_path, [parked(0), parked(2)])
    plan = planned(archive)
    store(archive, plan, {"m-000": "fail"}, number=0)
    kept = store(archive, plan, {"m-002": "pass"}, number=1)

    erase(spark, EraseOptions(archive.root, ids=("m-000",), reason="asked for", execute=True))

    names = {path.rsplit("/", 1)[1].split(".")[0] for path in archive.list("rehearsals")}
    assert names == {kept.rehearsal_id}
    assert read_verdicts(archive, kept)["message_id"].to_pylist() == ["m-002"]


@needs_namespaces
def test_set_attributes_are_evaluated_for_a_rehearsal(
    spark: "SparkSession", tmp_path: Path
) -> None:
    archive = archive_of(tmp_path, [parked(0)])
    plan = with_edit(planned(archive), "set_attributes:\n  copy: concat('id ', message_id)\n")
    read = read_plan(Path(plan).read_text())
    code = write_app(
        tmp_path,
        """
        def lambda_handler(event, context):
            attributes = event["Records"][0]["messageAttributes"]
            assert attributes["copy"]["stringValue"] == "id m-000"
        """,
    )
    place = ("--main-queue-url", "https://sqs.us-east-1.amazonaws.com/123456789012/main")

    assert rehearse(archive, read.groups[0].group_id, code, "--plan", plan, *place) == 0

    rehearsal = newest_rehearsal(archive, read.plan_id, read.groups[0].group_id)
    assert rehearsal is not None
    assert json.loads(json.dumps(rehearsal.counts)) == {"pass": 1, "fail": 0, "unknown": 0}
