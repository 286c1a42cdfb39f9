"""Every link in the documents leads somewhere: files, headings, images."""

import re
from pathlib import Path

import pytest

from tests.contract.template import ROOT

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks" / "README.md"]


def anchors(page: Path) -> set[str]:
    """Those that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", without_code(page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_is_dead(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text("utf-8")))

    for link in links:
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: no such file"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_picture_has_words_for_those_who_do_not_see_it(page: Path) -> None:
    texts = re.findall(r"!\[(.*?)\]\(", page.read_text("utf-8"))

    assert all(len(text.split()) >= 3 for text in texts)


def test_every_page_is_linked_from_another() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    }

    assert set((ROOT / "docs").glob("*.md")) <= linked


def test_paths_that_code_names_are_there() -> None:
    sources = [
        *(
            path
            for folder in ("dlq_cli", "spark_reprocess")
            for path in (ROOT / folder).rglob("*.py")
        ),
        *(ROOT / "functions").rglob("*.py"),
        *(ROOT / "layers").rglob("*.py"),
        ROOT / "template.yaml",
    ]
    named = {
        name
        for path in sources
        for name in re.findall(r"docs/[\w/-]+\.md", path.read_text("utf-8"))
    }

    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
