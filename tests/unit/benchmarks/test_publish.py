from pathlib import Path
from typing import Any

import pytest

from benchmarks import publish
from benchmarks.chart import draw
from benchmarks.findings import Finding, Side, at_least, at_most
from benchmarks.publish import PAGE_NEXT, README_ROWS, with_section
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
PAGE = "# Name\n\nText.\n\n## How it is measured\n\nMuch.\n"
ROOT = Path(__file__).parents[3]


def section(page: str) -> str:
    return page.partition("## Measured\n")[2].partition("\n## ")[0]


def test_the_section_is_added_before_the_heading_that_follows_it() -> None:
    page = with_section(PAGE, PAGE_NEXT, ["Row."])

    assert page == PAGE.replace(PAGE_NEXT, f"## Measured\n\nRow.\n{PAGE_NEXT}")


def test_a_second_run_replaces_the_section() -> None:
    once = with_section(PAGE, PAGE_NEXT, ["Row."])

    assert once == with_section(once, PAGE_NEXT, ["Row."])


def test_a_page_without_its_heading_is_refused() -> None:
    with pytest.raises(ValueError, match="How it is measured"):
        with_section("# Name\n", PAGE_NEXT, [])


def test_a_full_run_is_published_with_every_figure_and_in_the_readme_with_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = dict(RESULTS)
    results["findings"] = [
        {**RESULTS["findings"][0], "what": README_ROWS[1]},
        RESULTS["findings"][1],
    ]
    write_json(tmp_path / "latest.json", results)
    (tmp_path / "benchmarks").mkdir()
    for name in ("README.md", "benchmarks/README.md"):
        (tmp_path / name).write_text((ROOT / name).read_text("utf-8"), "utf-8")
    monkeypatch.setattr(publish, "RESULTS", tmp_path / "latest.json")
    monkeypatch.setattr(publish, "ROOT", tmp_path)

    assert publish.main() == 0
    row = f"| {README_ROWS[1]} | 33 times | ≥ 25 | 3,300 a second | 100 a second, theirs |"
    readme = section((tmp_path / "README.md").read_text("utf-8"))
    page = section((tmp_path / "benchmarks/README.md").read_text("utf-8"))
    assert row in readme
    assert row in page
    assert "| memory | 21.5 MB | ≤ 20, missed |  |  |" in page
    assert "| memory" not in readme
    assert (tmp_path / "docs" / "images" / "bench.svg").exists()


def test_the_readme_s_rows_are_figures_of_the_page() -> None:
    readme = section((ROOT / "README.md").read_text("utf-8"))
    page = section((ROOT / "benchmarks" / "README.md").read_text("utf-8"))
    rows = [line for line in readme.splitlines() if line.startswith("| ")][1:]

    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(README_ROWS)
    assert all(row in page for row in rows)


@pytest.mark.parametrize(
    ("change", "why"),
    [({"is_short": True}, "a short run"), ({"broken": ["drain"]}, "failed (drain)")],
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
