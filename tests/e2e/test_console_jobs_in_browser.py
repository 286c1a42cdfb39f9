"""The pages of jobs in a reader's browser: whether they fit, can be read, and stay data."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from playwright.sync_api import Browser, expect

from dlq.archive.group_records import add_statement
from dlq.console.jobs import Jobs
from dlq.explain.triage import Statement
from local_sqs.server import serve_in_thread
from tests.e2e.test_console_in_browser import WIDTHS, desk
from tests.e2e.watched_browser import assert_fits_and_is_accessible
from tests.support.console_jobs import PARKED, QUEUES, DeadJobs, a_problem, redrive_answer
from tests.support.console_world import NOW, a_dead_letter, archive_with, console_of, opened

ROOT = Path(__file__).resolve().parents[2]

FORECAST = {"sizes": [1, 2, 6, 18, 54, 162, 486], "seconds": 1620}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeadJobs]:
    """A console with an archive of 20 messages and a parked queue, which pages count."""
    archive = archive_with(tmp_path, [a_dead_letter(n) for n in range(20)])
    jobs = Jobs(tmp_path / "state" / "jobs", process=("true",))
    console = console_of(archive, values=QUEUES, jobs=jobs)
    with serve_in_thread() as sqs:
        monkeypatch.setenv("AWS_ENDPOINT_URL", sqs.url)
        boto3.client("sqs").create_queue(QueueName=urlsplit(PARKED).path.rpartition("/")[2])
        yield DeadJobs(archive, console, opened(console))


def paths(world: DeadJobs, text: str) -> list[str]:
    """One page of each kind, with *text* wherever a message, a command or AWS has the word."""
    executed = [*world.preview_words, "--execute", "--reason", text]
    numbers = {"step": 2, "steps": 9, "sent": 3, "returned": 1, "allowed": 0}
    ramp = [{"group_id": world.group_id, "verdict": "bad", "reason": text, **numbers}]
    sample = {"group_id": world.group_id, "message_id": text, "lines": [f"-{text}", f"+{text}"]}
    seen: dict[str, Any] = {"problems": [a_problem(text)], "samples": [sample], "notes": [text]}
    dry_run = world.dry_run(**seen, forecast=FORECAST)
    at_once = world.dry_run(**seen)
    halted_answer = redrive_answer(world, {"sent": 3, "halted": 17}, run_id="r", ramp=ramp)
    halted = world.ended(executed, halted_answer, 3, f"dlq: {text}\n{text}\n")
    statement = Statement(NOW, "ada@desk", halted=text)
    add_statement(world.archive, world.group_id, statement)
    died = world.ended(executed, exit_code=None)
    died.folder.joinpath("progress.jsonl").write_text(
        json.dumps({"label": text, "seconds": 9, "text": text}) + "\n"
    )
    jobs = [job.job_id for job in (dry_run, at_once, halted, died)]
    return ["/jobs", "/redrive", *(f"/jobs/{job_id}" for job_id in jobs)]


def test_each_page_fits_and_is_accessible(browser: Browser, world: DeadJobs) -> None:
    with desk(browser, world.console, viewport={"width": 360, "height": 900}) as it:
        for path in paths(world, "a word of somebody"):
            page = it.go(path)
            if path == "/jobs":
                expect(page.locator("#counts")).to_contain_text("in the parked queue")
            for more in page.locator("details.more").all():
                more.locator("summary").click()
            assert_fits_and_is_accessible(page, WIDTHS)
        it.assert_quiet()


def test_enter_sends_by_ramp_and_never_everything(browser: Browser, world: DeadJobs) -> None:
    at_once = world.dry_run()
    dry_run = world.dry_run(forecast=FORECAST)
    with desk(browser, world.console) as it:
        page = it.go(f"/jobs/{at_once.job_id}")
        page.get_by_label("Why").fill("it is fixed")
        page.get_by_label("Why").press("Enter")
        page = it.go(f"/jobs/{dry_run.job_id}")
        assert world.jobs.all()[0].job_id == dry_run.job_id
        page.get_by_label("Why").fill("it is fixed")
        page.get_by_label("Why").press("Enter")
        page.wait_for_url(re.compile(f"/jobs/(?!{dry_run.job_id})"))
        expect(page.get_by_role("heading", level=1)).to_contain_text("Redrive KeyError")

    assert "--ramp" in world.jobs.all()[0].command


def test_page_follows_the_job_keeps_the_focus_and_shows_its_end(
    browser: Browser, world: DeadJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'layers' / 'core'}")
    process = (sys.executable, "-m", "tests.support.job_process")
    jobs = replace(world.jobs, process=process)
    job = jobs.start(jobs.make_id(), ["sleep"])
    with desk(browser, world.console) as it:
        page = it.page
        page.goto(f"{it.base}/jobs/{job.job_id}")
        expect(page.locator("#now")).to_contain_text("1 of 4 messages")
        page.get_by_role("button", name="Stop").focus()
        before = page.locator("#now").inner_text()
        expect(page.locator("#now")).not_to_have_text(before)
        expect(page.get_by_role("button", name="Stop")).to_be_focused()
        expect(page.locator("#said")).to_have_text("running: sleeping")

        page.keyboard.press("Enter")

        expect(page.locator(".state .badge")).to_have_text("stopped")
        it.assert_quiet()
