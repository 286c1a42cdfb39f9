"""SIGKILL in mid ramp and in mid redrive; then a person goes on from the page.

Nothing is lost, and nothing arrives twice but what the page called in doubt.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer
from playwright.sync_api import Browser, Page, expect

from dlq_replay.context import FailureError
from dlq_replay.errors import QueueError
from dlq_replay.message import Message
from dlq_replay.returns_table import ReturnsTable
from local_sqs.clock import VirtualClock
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import Ledger, attempt_names
from spark_reprocess.repeating import repeating
from tests.approved_plan import planned
from tests.builders import context, counter, message
from tests.e2e.console_browser import Desk, wait_for_state, wait_for_step
from tests.failure_table import create_failure_table
from tests.integration.ramp_world import RampWorld, ramp_world
from tests.integration.spark_world import archive_of
from tests.needs import needs_proc
from tests.small_jobs import QUICK_SPARK

pytestmark = [pytest.mark.timeout(2400), needs_proc]

MESSAGES = 300
TASKS = 2
"""Fewer than the three chunks of these messages, on every machine: one is left when work ends."""

CLAIM_TTL_SECONDS = 60
MINUTE_SECONDS = 10
"""Of a ramp. 15 of them have to be longer than from a kill until the next run looks."""

TABLE = "failures"


class SystemTime(VirtualClock):
    """Goes on by itself."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def time(self) -> float:
        return time.time()


def dead_letter(number: int) -> Message:
    error = FailureError("TimeoutError", "no answer")
    ours = context(first_id=f"first-{number}", reason="attempts_exhausted", error=error)
    return message(f"m-{number:03d}", json.dumps({"n": number}), {**ours, **counter("5")})


@dataclass
class Incident:
    """Messages in an archive, all of one group, whose consumer works again."""

    desk: Desk
    world: RampWorld
    archive: Archive

    def handled(self) -> Counter[int]:
        return Counter(int(json.loads(one.body)["n"]) for one in list(self.world.handled))

    def in_doubt(self) -> set[int]:
        """Messages whose claim has no result: their task was killed."""
        names = attempt_names(self.archive)
        attempts = [Ledger(self.archive, one.plan_id).attempt(one) for one in names]
        lost = [one for one in attempts if one and one.results is None]
        return {int(m.removeprefix("m-")) for one in lost for m in one.claim.message_ids}

    def wait_until_handled(self, count: int) -> None:
        deadline = time.monotonic() + 120
        while len(self.handled()) < count:
            assert time.monotonic() < deadline, len(self.handled())
            time.sleep(0.2)


@pytest.fixture
def moto_url() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def incident(tmp_path: Path, moto_url: str) -> Iterator[Incident]:
    client = boto3.client("dynamodb", "us-east-1", endpoint_url=moto_url)
    create_failure_table(client, TABLE)
    counters = ReturnsTable(client, TABLE, lambda: int(time.time()))
    with ramp_world(SystemTime(), counters.add) as world:

        def step() -> None:
            with suppress(QueueError):
                world.step()

        messages = [dead_letter(n) for n in range(MESSAGES)]
        archive = archive_of(tmp_path / "archive", messages, drained_from=world.parked.url)
        planned(archive)
        endpoint = world.main.url.rsplit("/", 2)[0]
        options = (
            *("--archive", archive.root, "--main-queue-url", world.main.url),
            *("--parked-queue-url", world.parked.url),
            *("--failure-table", TABLE),
        )
        environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ENDPOINT_URL_DYNAMODB": moto_url,
            "DLQ_MINUTE_SECONDS": str(MINUTE_SECONDS),
            "PYSPARK_SUBMIT_ARGS": f"--master local[{TASKS}] " + QUICK_SPARK["PYSPARK_SUBMIT_ARGS"],
        }
        desk = Desk(options, tmp_path / "state", environment)
        with repeating(step, 0.1, "world"):
            yield Incident(desk, world, archive)
        desk.kill_everything()


def dry_run(page: Page) -> None:
    page.get_by_role("link", name="Put back").click()
    page.get_by_label("Groups").select_option(index=2)
    page.get_by_role("button", name="Dry run").click()
    wait_for_state(page, "done")
    expect(page.locator("#answer-title")).to_have_text("What would happen")


def test_ramp_that_was_killed_goes_on_from_the_page(incident: Incident, browser: Browser) -> None:
    with incident.desk.console(browser) as (page, _):
        dry_run(page)
        page.get_by_label("Why").fill("the service is back")
        page.get_by_role("button", name="Send by ramp").click()
        wait_for_step(page, "ramp ")

        incident.desk.kill_work()

        wait_for_state(page, "died")
        expect(page.locator("#died-title")).to_have_text("What is known")
        incident.wait_until_handled(1)
        assert sum(incident.handled().values()) < MESSAGES

        page.get_by_role("button", name="Go on").click()
        wait_for_state(page, "done")
        expect(page.locator(".verdict")).to_have_text("sent")
    incident.wait_until_handled(MESSAGES)

    assert incident.handled() == Counter(range(MESSAGES))


def test_redrive_that_was_killed_with_its_console_goes_on_in_the_next_one(
    incident: Incident, browser: Browser
) -> None:
    with incident.desk.console(browser) as (page, _):
        dry_run(page)
        page.get_by_label("Why").fill("the service is back")
        page.get_by_label("At most so many messages a second").fill("15")
        page.get_by_text("More options").click()
        page.get_by_label("A killed run's claims expire after").fill(str(CLAIM_TTL_SECONDS))
        page.get_by_role("button", name="at once").click()
        wait_for_step(page, r"redriving .*[1-9]\d+ of 300 messages")

        incident.desk.kill_everything()
        killed_at = time.monotonic()

    with incident.desk.console(browser) as (page, _):
        page.get_by_role("link", name="Work", exact=True).click()
        page.get_by_role("link", name="dlq redrive --execute").click()
        wait_for_state(page, "died")
        expect(page.locator("#work-state")).to_contain_text("of 300 messages")
        in_doubt = incident.in_doubt()
        assert in_doubt

        page.get_by_role("button", name="Go on").click()
        wait_for_state(page, "some messages were not sent")
        assert incident.in_doubt() == in_doubt
        # All claims are from before the kill.
        time.sleep(max(0.0, killed_at + CLAIM_TTL_SECONDS + 1 - time.monotonic()))
        page.get_by_label("Also send what is in doubt").check()
        page.get_by_role("button", name="Go on").click()
        wait_for_state(page, "done")
    incident.wait_until_handled(MESSAGES)
    handled = incident.handled()

    assert set(handled) == set(range(MESSAGES))
    assert {n for n, count in handled.items() if count > 1} <= in_doubt
    assert max(handled.values()) <= 2


def test_closed_console_is_found_running_and_stopped_from_the_next_one(
    incident: Incident, browser: Browser
) -> None:
    with incident.desk.console(browser) as (page, _):
        dry_run(page)
        page.get_by_label("Why").fill("the service is back")
        page.get_by_label("At most so many messages a second").fill("5")
        page.get_by_role("button", name="at once").click()
        wait_for_step(page, r"redriving .*[1-9]\d+ of 300 messages")

    with incident.desk.console(browser) as (page, _):
        page.get_by_role("link", name="Work", exact=True).click()
        page.get_by_role("link", name="dlq redrive --execute").click()
        wait_for_state(page, "running")
        page.get_by_role("button", name="Stop").click()
        wait_for_state(page, "stopped")
        expect(page.locator("#work-state")).to_contain_text("not reached")
        assert not incident.in_doubt()
        sent = sum(incident.handled().values())

        assert 0 < sent < MESSAGES
