import io
import json
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks.findings import Finding, Side, at_least, at_most
from benchmarks.machine import Machine
from benchmarks.report import row, to_json, write_json, write_table

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


@pytest.mark.parametrize(("findings", "code"), [([RATIO, TOLD], 0), ([RATIO, MISSED], 1)])
def test_a_missed_target_fails_the_run(
    findings: list[Finding],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(program, "_measure", lambda *_, **__: findings)

    assert program.main(["--json", str(tmp_path / "results.json")]) == code
    assert "replay" in capsys.readouterr().out
