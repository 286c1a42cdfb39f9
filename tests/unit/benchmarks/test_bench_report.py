import io
import json
import os
from pathlib import Path

import boto3
import pytest

from benchmarks import __main__ as program
from benchmarks.findings import Finding, Side, at_least, at_most
from benchmarks.report import Machine, row, to_json, write_json, write_table
from benchmarks.rig import Rig

RATIO = Finding.of_ratio(
    "replay", Side("a second", [3000, 3300]), Side("a second, theirs", [100, 110]), at_least(25)
)
MISSED = Finding("memory", [21.5], "MB", at_most(20))
TOLD = Finding("session", [12.0, 14.0], "s")


def test_a_row_says_figure_spread_target_and_both_sides() -> None:
    assert row(RATIO) == (
        "replay",
        "30 times",
        "30 to 30",
        "≥ 25",
        "met",
        "3,150 a second",
        "105 a second, theirs",
    )
    assert row(MISSED)[1:5] == ("21.5 MB", "", "≤ 20", "MISSED")
    assert row(TOLD)[1:5] == ("13 s", "12 to 14", "", "")


def test_a_pipe_gets_plain_lines() -> None:
    out = io.StringIO()
    write_table([RATIO, MISSED], out)
    lines = [line for line in out.getvalue().splitlines() if line.strip()]

    assert len(lines) == 3
    assert "\x1b" not in out.getvalue()
    assert "MISSED" in lines[2]


def test_results_keep_every_value(tmp_path: Path) -> None:
    results = to_json([RATIO, TOLD], Machine.of_this(), is_short=True, seconds=7.4)
    path = tmp_path / "new" / "results.json"
    write_json(path, results)
    read = json.loads(path.read_text("utf-8"))

    assert read == results
    assert read["findings"][0]["sides"][0]["values"] == [3000, 3300]
    assert read["findings"][0]["target"] == "≥ 25"
    assert (read["is_short"], read["seconds"]) == (True, 7)


@pytest.mark.parametrize(
    ("findings", "broken", "code"),
    [([RATIO, TOLD], [], 0), ([RATIO, MISSED], [], 1), ([RATIO], ["drain"], 1)],
)
def test_a_missed_target_or_a_broken_benchmark_fails_the_run(
    findings: list[Finding],
    broken: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(program, "measure_each", lambda *_, **__: (findings, broken))
    path = tmp_path / "results.json"

    assert program.main(["--json", str(path)]) == code
    said = capsys.readouterr()
    assert "replay" in said.out
    assert ("drain failed" in said.err) is bool(broken)
    assert json.loads(path.read_text("utf-8"))["broken"] == broken


def test_what_one_benchmark_raises_costs_the_others_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def breaks(_: Rig) -> list[Finding]:
        raise RuntimeError("the archive is gone")

    each = {"first": lambda _: [RATIO], "second": breaks, "third": lambda _: [TOLD]}

    assert program.measure_each(each, is_short=True) == ([RATIO, TOLD], ["second"])
    assert "the archive is gone" in capsys.readouterr().err


def test_the_server_of_a_benchmark_is_forgotten_when_it_ends() -> None:
    seen: list[list[str]] = []

    def looks(rig: Rig) -> list[Finding]:
        assert os.environ["AWS_ENDPOINT_URL"] == rig.server.url
        client = boto3.client("sqs", endpoint_url=rig.server.url)
        seen.append(client.list_queues().get("QueueUrls", []))
        client.create_queue(QueueName="left-behind")
        return []

    before = dict(os.environ)
    program.measure_each({"first": looks, "second": looks}, is_short=True)

    assert seen == [[], []]
    assert dict(os.environ) == before
