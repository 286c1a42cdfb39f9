"""Draws docs/images/console.png and report.png.

``PYTHONPATH=.:layers/core python scripts/draw_pages.py``: a real console in the machine's Chromium,
over the report of ``tests/support/incident.py``, and that report. Some groups are decided.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from playwright.sync_api import Browser, Page

from dlq.archive.storage.files import open_archive
from dlq.console.jobs import Jobs
from dlq.console.site import Console
from dlq.explain.outputs import summary_json
from dlq.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text
from dlq.report.page import render_page
from tests.e2e.watched_browser import launched
from tests.support.console_world import running
from tests.support.findings_builder import ANALYZED_AT
from tests.support.incident import incident_findings

IMAGES = Path(__file__).parents[1] / "docs" / "images"
CONSOLE = IMAGES / "console.png"
REPORT = IMAGES / "report.png"
PLAN_ID = "20251120T103000Z-004f2a"
SIZE = {"width": 1280, "height": 1560}


def main() -> None:
    """Start the console and photograph its first page, then the report."""
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        console = _console(Path(folder))
        with running(console) as session, _window(browser) as page:
            page.goto(session.address)
            page.wait_for_url(f"**{session.base}/")
            page.wait_for_load_state("networkidle")
            page.screenshot(path=CONSOLE)

        report = Path(folder) / "report.html"
        report.write_text(render_page(incident_findings()), "utf-8")
        with _window(browser) as page:
            page.clock.set_fixed_time(ANALYZED_AT + timedelta(minutes=4))
            page.goto(report.as_uri())
            page.wait_for_load_state("networkidle")
            page.screenshot(path=REPORT)
    sys.stdout.write(f"{CONSOLE}\n{REPORT}\n")


@contextmanager
def _window(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport=SIZE, device_scale_factor=1.25) as profile:  # type: ignore[arg-type]
        yield profile.new_page()


def _console(folder: Path) -> Console:
    archive = open_archive(str(folder / "archive"))
    findings = replace(incident_findings(), plan_id=PLAN_ID)
    actions = (Action.REDRIVE, Action.LEAVE, Action.REDRIVE, Action.DISCARD)
    groups = []
    for number, group in enumerate(findings.groups):
        action = actions[number] if number < len(actions) else Action.LEAVE
        groups.append(PlannedGroup(group.group_id, group.title, group.count, action))
    snapshot = Snapshot(("20251120T100000Z-000001",), findings.messages, "0" * 64)
    plan = Plan(PLAN_ID, archive.root, snapshot, tuple(groups))
    archive.write(f"reports/{PLAN_ID}/summary.json", summary_json(findings).encode())
    archive.write(f"reports/{PLAN_ID}/plan.yaml", plan_text(plan).encode())
    jobs = Jobs(folder / "job")
    console = Console(archive, lambda: ANALYZED_AT + timedelta(minutes=4), "ann@desk", jobs)
    return replace(console, stack="orders-replay")


if __name__ == "__main__":
    main()
