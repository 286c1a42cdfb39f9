"""A person who has never opened YAML, in the demo's world: all of it in the browser.

Drains, understands, edits one group, puts it back by ramp.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from spark_reprocess.figures import counted
from tests.e2e.console_browser import ADDRESS, ROOT, WORK_MS, wait_for_state
from tests.small_jobs import QUICK_SPARK

pytestmark = pytest.mark.timeout(2400)

MESSAGES = 60

HALF = """
import sys
from demo.__main__ import main
from demo.story import Run

Run._explain = Run._try_too_early = lambda self: None
sys.exit(main(sys.argv[1:]))
"""
"""The demo without what its own operator does: nothing is drained yet when the console opens."""


@contextmanager
def world(kept: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    words = ["--console", "--messages", str(MESSAGES), "--keep", str(kept)]
    with subprocess.Popen(
        [sys.executable, "-c", HALF, *words],
        cwd=ROOT,
        env={**os.environ, **QUICK_SPARK},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout
            lines = iter(process.stdout.readline, "")
            yield next(found[0] for line in lines if (found := ADDRESS.search(line))), process
        finally:
            process.send_signal(signal.SIGINT)


def test_person_drains_understands_edits_and_puts_back_by_ramp(
    browser: Browser, tmp_path: Path
) -> None:
    with world(tmp_path / "kept") as (address, process):
        with browser.new_context(viewport={"width": 1280, "height": 900}) as profile:
            page = profile.new_page()
            page.goto(address)
            page.wait_for_url(re.compile(r"/works\b"))
            drain_and_analyze(page)
            count = understand(page)
            edit(page, count)
            put_back(page, count)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=600)
    numbers = json.loads(out.splitlines()[-1])

    assert process.returncode == 0, out
    assert numbers["lost"] == 0
    assert numbers["redriven"] == numbers["altered"] == count


def drain_and_analyze(page: Page) -> None:
    # Nobody has analyzed the archive, so the console begins here.
    expect(page.get_by_text("First drain the parked queue, then analyze")).to_be_visible()
    expect(page.locator("#counts")).to_contain_text("in the parked queue", timeout=WORK_MS)
    page.get_by_role("button", name="Drain").click()
    wait_for_state(page, "done")
    page.get_by_role("button", name="Analyze").click()
    wait_for_state(page, "done")
    page.get_by_role("link", name="Look at the groups").click()


def understand(page: Page) -> int:
    page.get_by_role("link", name=re.compile("ValueError")).first.click()
    expect(page.locator("#found")).to_contain_text("weight_grams")
    text = page.locator(".figures dd").first.inner_text()
    return int(text.split()[0])


def edit(page: Page, count: int) -> None:
    page.get_by_role("link", name="Edit the messages").click()
    page.get_by_role("textbox", name="Place").first.fill("/weight_grams")
    page.get_by_role("textbox", name="Value").first.fill("1200")
    expect(page.locator("#preview")).to_contain_text("1200", timeout=WORK_MS)
    page.get_by_role("button", name="Save into the plan").click()
    expect(page.get_by_text("The edit is in the plan")).to_be_visible()


def put_back(page: Page, count: int) -> None:
    page.get_by_role("link", name="Put this group back").click()
    page.get_by_role("button", name="Dry run").click()
    wait_for_state(page, "done")
    expect(page.locator(".result")).to_contain_text(f"{counted(count, 'message')} would go to")
    expect(page.locator(".difference ins").first).to_contain_text("1200")
    page.get_by_label("Why").fill("the consumer takes plain numbers")
    page.get_by_role("button", name="Send by ramp").click()
    wait_for_state(page, "done")
    expect(page.locator(".verdict")).to_have_text("sent")
    expect(page.locator(".result")).to_contain_text(f"{counted(count, 'message')} sent to")
