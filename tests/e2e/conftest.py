from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from dlq.explain.findings import Findings
from dlq.report.page import render_page
from tests.e2e.watched_browser import Write, launched

# How long a page takes on a busy machine is not what these tests are about.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(findings: Findings) -> Path:
        path = tmp_path / "report.html"
        path.write_text(render_page(findings), encoding="utf-8")
        return path

    return write
