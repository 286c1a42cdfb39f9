"""The whole way of a body into a reader's browser: archive, ``analyze``, report.

Hostile texts stand wherever a message can hold one; beside them are events of many kinds, and
bodies that are not valid anything.
"""

import base64
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, expect

from dlq_replay.context import FailureError
from dlq_replay.message import Message
from tests.builders import context, message, text
from tests.e2e.watched_browser import launched, opened
from tests.event_faults import dead_letters
from tests.findings_builder import HOSTILE_TEXTS
from tests.integration.spark_world import archive_of
from tests.small_jobs import QUICK_SPARK

ROOT = Path(__file__).parents[2]
WIDTHS = (360, 768, 1280)
OF_EACH = 12


def storable(value: str) -> bool:
    """Whether a message can hold it: SQS takes no half characters, and no empty body."""
    return bool(value) and "\ud800" not in value


TEXTS = [*filter(storable, HOSTILE_TEXTS)]


def bodies_of(hostile: str) -> Iterator[str]:
    """A hostile text as a body, and in all that a body may be."""
    inside = json.dumps({"note": hostile, "type": "x", "nested": {hostile: [hostile]}})
    yield hostile
    yield inside
    yield json.dumps({hostile[:200]: 1, "action": hostile[:60]})
    yield json.dumps({"TopicArn": f"arn:aws:sns:{hostile}", "Message": inside})
    yield json.dumps({"detail-type": hostile, "source": hostile, "detail": {"a": hostile}})
    yield base64.b64encode(hostile.encode()).decode()
    yield base64.b64encode(gzip.compress(inside.encode())).decode()


ODD_BODIES = (
    '{"cut": "emoji \\ud83d"}',
    '{"\\udc00": {"\\ud83d": "\\ud83d\\ude00"}}',
    '["\\ud800"]',
    '{"a": 1, "a": 2}',
    '{"n": 1e999, "m": 12345678901234567890123, "l": -0.0}',
    "[" * 100_000,
    "\x1f\x8b\x08 not gzip",
    "NaN",
    "x" * 900_000,
    json.dumps({"rows": [{"n": n} for n in range(50_000)]}),
    base64.b64encode(os.urandom(100_000)).decode(),
)


def messages() -> Iterator[Message]:
    numbers = iter(range(1_000_000))

    def one(body: str, attributes: Any = None, error: FailureError | None = None) -> Message:
        return message(
            f"m-{next(numbers):05d}",
            body,
            {**(attributes or {}), **context(reason="too_old", error=error)},
            SentTimestamp="1700000000000",
            SenderId="AROA:me",
        )

    for hostile in TEXTS:
        error = FailureError(hostile[:60], hostile[:200])
        for _ in range(OF_EACH):
            yield one(json.dumps({"note": hostile}), {"tenant": text(hostile[:2000])}, error)
        for body in bodies_of(hostile):
            yield one(body, {"tenant": text(hostile[:2000])})
    for body in ODD_BODIES:
        yield one(body)
    for delivery in dead_letters(0, healthy=170):
        yield one(json.dumps(delivery.body))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a whole analysis wrote, as an operator starts it."""
    folder = tmp_path_factory.mktemp("analyzed")
    archive = archive_of(folder / "archive", list(messages()))
    argv = ["analyze", "--archive", archive.root, "--out", str(folder / "report")]
    finished = subprocess.run(
        [sys.executable, "-m", "spark_reprocess", *argv],
        cwd=ROOT,
        env={**os.environ, **QUICK_SPARK},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert all(line.isprintable() for line in finished.stdout.splitlines())
    return folder / "report"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as started:
        yield started


def test_every_message_is_in_a_group(report: Path) -> None:
    groups = pq.read_table(report / "groups.parquet").to_pylist()
    summary = json.loads((report / "summary.json").read_text())

    assert summary["messages"] == len(list(messages()))
    assert summary["unlisted_groups"] == 0
    assert sum(group["count"] for group in groups) == summary["messages"]
    assert all(group["title"].isprintable() and group["title"] for group in groups)
    assert all(1 <= len(group["samples"]) <= 5 for group in groups)
    titles = {group["title"] for group in groups}
    assert "too_old: broken JSON {a, …}" not in titles
    assert {"too_old: JSON {cut:string}", "too_old: JSON array of string"} <= titles
    assert {"too_old: JSON {rows:array}", "too_old: base64 of bytes, up to 256 KiB"} <= titles


def test_what_strangers_sent_is_shown_and_never_run(
    report: Path, browser: Browser, tmp_path: Path
) -> None:
    with opened(browser, report / "report.html") as watched:
        page = watched.page
        page.get_by_role("button", name="Expand all").click()
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        page.locator("#search").fill("<script>window.hostile")
        expect(page.locator("details.group:visible").first).to_be_visible()
        page.locator("#search").fill("")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.screenshot(path=tmp_path / f"{width}.png")
            assert page.evaluate("document.documentElement.scrollWidth") <= width

        watched.assert_quiet()
        assert page.evaluate("'hostile' in window") is False
        assert page.locator("script").count() == 3
        for tag in ("img", "iframe", "object", "embed", "[onerror]", "[onmouseover]", "[onload]"):
            assert page.locator(tag).count() == 0
