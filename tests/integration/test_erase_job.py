"""``erase`` in a real Spark session."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_reprocess.archive.erasures import unfinished
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_store import column_texts, read_archive
from spark_reprocess.archive.turns import Run, taking_turns
from spark_reprocess.command_line.cli import main
from spark_reprocess.erase import erase as erase_module
from spark_reprocess.erase.erase import EraseOptions, EraseSummary, erase
from spark_reprocess.errors import ArchiveError, InputError
from tests.builders import NOW, context, message
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import (
    analyzed,
    approve,
    archive_of,
    bodies,
    executed,
    parked,
    planned,
    receive_all,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATER = "20261122T000000Z-000000"


def erased(spark: "SparkSession", archive: Archive, *ids: str, **options: object) -> EraseSummary:
    fixed: dict[str, object] = {"execute": True, "reason": "asked to", **options}
    return erase(spark, EraseOptions(archive.root, ids, **fixed))  # type: ignore[arg-type]


def ids_in(spark: "SparkSession", archive: Archive) -> list[str]:
    return sorted(column_texts(read_archive(spark, archive).select("message_id")))


def everything(archive: Archive) -> bytes:
    return b"".join(path.read_bytes() for path in Path(archive.root).rglob("*") if path.is_file())


def test_every_copy_of_a_dead_letter_goes_and_plans_go_on_with_the_rest(
    spark: "SparkSession", make_queue: MakeQueue, tmp_path: Path
) -> None:
    destination = make_queue("main")
    jane = message("m-jane", '{"name":"Jane"}', context(first_id="f-jane"))
    archive = archive_of(tmp_path, [parked(0), jane])
    archive_of(tmp_path, [parked(2), jane, parked(4)])
    plan = planned(spark, archive)
    narrow = analyzed(spark, archive, where="body_bytes > 0").plan_path
    approve(Path(narrow))
    again = message("m-jane-2", '{"name":"Jane"}', context(first_id="f-jane", plan_id="p-0"))
    archive_of(tmp_path, [again, parked(6)], drain_id=LATER)

    summary = erased(spark, archive, "m-jane", "m-nobody")

    assert (summary.messages, summary.rows, summary.unknown_ids) == (2, 3, ("m-nobody",))
    assert ids_in(spark, archive) == ["m-000", "m-002", "m-004", "m-006"]
    assert b"Jane" not in everything(archive)
    assert {path.rsplit("/", 1)[1] for path in archive.list("reports")} == {"plan.yaml"}
    assert unfinished(archive) == []

    sent = executed(spark, archive, plan, destination.url)
    rest = executed(spark, archive, narrow, destination.url, execute=False)

    assert sent.count("sent") == 3
    assert sorted(bodies(receive_all(destination))) == [parked(n).body for n in (0, 2, 4)]
    for notes in (sent.notes, rest.notes):
        (note,) = notes
        assert note.startswith("1 messages were erased since, by ")
        assert str(summary.erase_id) in note
    assert erased(spark, archive, "m-jane").messages == 0


def test_condition_is_not_written_down(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archive_of(tmp_path, [parked(n) for n in range(4)])
    argv = ["erase", "--archive", archive.root, "--where", "body like '%\"id\": 3}%'"]

    assert main(argv) == 0
    assert "dry run: nothing was erased" in capsys.readouterr().out
    assert len(ids_in(spark, archive)) == 4
    assert main([*argv, "--execute", "--reason", "asked to"]) == 0
    assert "erased 1 rows" in capsys.readouterr().out
    assert ids_in(spark, archive) == ["m-000", "m-001", "m-002"]
    assert b"like" not in everything(archive)
    assert main(argv[:3]) == 2
    assert "needs --id or --where" in capsys.readouterr().err


def test_erasure_that_died_is_ended_by_the_next(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(tmp_path, [parked(0), message("m-jane", "Jane")])
    analyzed(spark, archive)

    def die(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(erase_module, "strip_report", die)
    with pytest.raises(KeyboardInterrupt):
        erased(spark, archive, "m-jane")
    monkeypatch.undo()
    assert b"Jane" in everything(archive)

    summary = erased(spark, archive, "m-000")

    assert len(summary.resumed) == 1
    assert b"Jane" not in everything(archive)
    assert unfinished(archive) == []


def test_running_redrive_keeps_its_files(spark: "SparkSession", tmp_path: Path) -> None:
    archive = archive_of(tmp_path, [parked(0), parked(2)])
    redrive = Run("run-0", "p-1", "plan p-1", "you")

    with (
        taking_turns(archive, redrive, ttl_seconds=900),
        pytest.raises(InputError, match="plan p-1 is being carried out by you"),
    ):
        erased(spark, archive, "m-002")
    assert len(ids_in(spark, archive)) == 2


def test_half_written_file_of_a_killed_drain_goes_too(
    spark: "SparkSession", tmp_path: Path
) -> None:
    archive = archive_of(tmp_path, [parked(0), message("m-jane", "Jane")])
    half_written = tmp_path / "messages" / f"drain={LATER}" / ".writing-x"
    half_written.parent.mkdir()
    half_written.write_text("Jane")

    with pytest.raises(ArchiveError, match="is being written"):
        erased(spark, archive, "m-jane")
    os.utime(half_written, (NOW, NOW))
    erased(spark, archive, "m-000")

    assert b"Jane" not in everything(archive)
