from pathlib import Path
from typing import Any

import pytest

from benchmarks import publish
from benchmarks.chart import draw
from benchmarks.findings import Finding, Side, at_least, at_most
from benchmarks.publish import with_section
from benchmarks.report import Machine, to_json, write_json

RESULTS = to_json(
    [
        Finding.of_ratio(
            "replay",
            Side("a second", [3000, 3600]),
            Side("a second, theirs", [100, 100]),
            at_least(25),
        ),
        Finding("memory", [21.5], "MB", at_most(20)),
    ],
    Machine.of_this(),
    is_short=False,
    seconds=60,
)
README = "# Name\n\nText.\n\n## What has not been tested\n\nMuch.\n"


def test_the_section_is_added_before_what_was_not_tested() -> None:
    page = with_section(README, RESULTS)

    assert page.startswith("# Name\n\nText.\n\n## Measured\n")
    assert page.endswith("## What has not been tested\n\nMuch.\n")
    assert "| replay | 33 times | ≥ 25 | 3,300 a second | 100 a second, theirs |" in page
    assert "| memory | 21.5 MB | ≤ 20, missed |  |  |" in page


def test_a_second_run_replaces_the_section() -> None:
    once = with_section(README, RESULTS)

    assert once == with_section(once, RESULTS)


def test_a_readme_without_its_heading_is_refused() -> None:
    with pytest.raises(ValueError, match="What has not been tested"):
        with_section("# Name\n", RESULTS)


@pytest.mark.parametrize(
    ("change", "why"),
    [({"is_short": True}, "a short run"), ({"broken": ["drain"]}, "broke off (drain)")],
)
def test_only_a_whole_run_is_published(
    change: dict[str, Any],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_json(tmp_path / "latest.json", RESULTS | change)
    monkeypatch.setattr(publish, "RESULTS", tmp_path / "latest.json")

    assert publish.main() == 2
    assert why in capsys.readouterr().err


def test_the_chart_is_an_svg_that_names_each_ratio(tmp_path: Path) -> None:
    draw(RESULTS, tmp_path / "images" / "bench.svg")
    text = (tmp_path / "images" / "bench.svg").read_text("utf-8")

    assert text.startswith("<?xml")
    assert "replay" in text
