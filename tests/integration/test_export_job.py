"""``export`` in a real Spark session."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_reprocess.analysis.analyze import AnalyzeOptions, analyze
from spark_reprocess.command_line.cli import main
from spark_reprocess.erase.erase import EraseOptions, erase
from tests.integration.spark_world import archive_of, parked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = 12


def exported(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_export_writes_the_messages_of_one_group_oldest_first(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [parked(n, SentTimestamp=str(10**12 - n)) for n in range(MESSAGES)]
    archive = archive_of(tmp_path / "archive", sources)
    findings = analyze(spark, AnalyzeOptions(archive.root))
    group = next(one.group_id for one in findings.groups if one.title.startswith("TimeoutError"))
    argv = ["export", "--archive", archive.root, "--plan", findings.plan_path, "--group", group]

    everything = tmp_path / "all.jsonl"
    assert main([*argv, "--out", str(everything)]) == 0
    assert "wrote 6 of 6 messages" in capsys.readouterr().out
    lines = exported(everything)
    odd = sources[::-2]
    assert [line["message_id"] for line in lines] == [one.message_id for one in odd]
    assert [line["body"] for line in lines] == [one.body for one in odd]
    assert {line["group_id"] for line in lines} == {group}
    assert {line["sent_at"][:10] for line in lines} == {"2001-09-09"}

    assert main([*argv, "--out", str(everything)]) == 2
    assert "exists" in capsys.readouterr().err

    assert main([*argv, "--limit", "2"]) == 0
    shown = capsys.readouterr()
    assert [json.loads(line) for line in shown.out.splitlines()] == lines[:2]
    assert "wrote 2 of 6 messages" in shown.err

    unknown, unwritten = [*argv[:-1], "g-none"], tmp_path / "none.jsonl"
    assert main([*unknown, "--out", str(unwritten)]) == 2
    assert f"has no group g-none; its groups are {findings.groups[0].group_id}" in (
        capsys.readouterr().err
    )
    assert not unwritten.exists()

    erase(spark, EraseOptions(archive.root, (odd[0].message_id,), reason="asked", execute=True))
    assert main([*argv, "--out", str(tmp_path / "rest.jsonl")]) == 0
    assert exported(tmp_path / "rest.jsonl") == lines[1:]
    assert "1 message not in the archive any more" in capsys.readouterr().out
