"""The console's pages about groups, without Spark."""

from pathlib import Path

from tests.console_world import a_dead_letter, archive_with, console_of, opened


def test_the_list_has_each_group_of_the_newest_plan(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, [a_dead_letter(n) for n in range(5)])

    page = opened(console_of(archive)).get("/")

    assert page.status_code == 200
    assert "KeyError" in page.text
