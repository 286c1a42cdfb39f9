"""Verbs that work where neither Spark nor what it brings is installed."""

import json
import subprocess
import sys
from pathlib import Path

from dlq.cli.verb import SPARK_INSTALL
from tests.support.parked_orders import archived, order, plan_of

PROGRAM = """
import sys
from importlib.machinery import PathFinder

class WithoutSpark(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        is_of_spark = name.partition(".")[0] in ("pyspark", "py4j", "pandas")
        return None if is_of_spark else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutSpark
from dlq.cli.command import ALL_VERBS, main, running
failed = [verb for verb in ALL_VERBS if main([verb, "--help"])]
print("failed:", failed, flush=True)
collect = ["collect", "--only", "analyze", *sys.argv[1:3]]
commands = [["show", *sys.argv[1:]], collect, [*collect, "--engine", "spark"]]
print("codes:", [main(command) for command in commands])
running.end_process(0)
"""


def test_help_of_every_verb_an_export_and_an_analysis_need_no_spark(tmp_path: Path) -> None:
    archive = archived(tmp_path, [order(1), order(2)])
    (group,) = plan_of(archive).groups
    out = tmp_path / "out.jsonl"
    words = ["--archive", archive.root, group.group_id, "--out", str(out)]

    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True
    )

    assert "failed: []" in finished.stdout
    assert [json.loads(line)["message_id"] for line in out.read_text().splitlines()] == [
        "m-001",
        "m-002",
    ]
    assert "codes: [0, 0, 2]" in finished.stdout
    assert f"collect needs Spark: {SPARK_INSTALL}" in finished.stderr
