"""The console's page of a fleet. AWS is asked in ``test_fleet_status.py``."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dlq.archive.storage.files import Archive
from dlq.console.fleet_reading import FleetReading
from dlq.console.site import Console
from dlq.stack.fleet import FleetStatus
from dlq.stack.fleet_rows import Need
from tests.support.console_world import (
    BASE,
    Browser,
    a_dead_letter,
    archive_with,
    assert_page,
    console_of,
    opened,
)
from tests.support.fleet_readings import fleet_of, large_fleet, member

VALUES = {
    "queue-tag": "shop",
    "parked-queue-url": "http://localhost/123456789012/parked",
    "sweep-rule": "sweep-rule",
}
FRAGMENT = {"hx-request": "true"}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return archive_with(tmp_path, [a_dead_letter(1)])


def console_with(archive: Archive, fleet: FleetStatus | None) -> Console:
    return console_of(archive, values=VALUES, stack="shop-dlq", fleet=FleetReading(fleet))


def listed(browser: Browser, query: str = "") -> list[str]:
    """The names of the listed DLQs."""
    answer = browser.get(f"/fleet{query}", headers=FRAGMENT)
    assert answer.status_code == 200
    return re.findall(r'<th scope="row"><b>([^<]+)</b>', answer.text)


def test_page_comes_before_anybody_asks_aws(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever asks AWS fails.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    browser = opened(console_with(archive, None))

    page = browser.get("/fleet?q=orders&need=limit&page=2")

    assert page.status_code == 200
    assert (
        f'hx-get="{BASE}/fleet?q=orders&amp;need=limit&amp;page=2" hx-trigger="load"' in page.text
    )
    assert "dlq status --stack shop-dlq" in page.text


def test_list_of_the_members(archive: Archive) -> None:
    fleet = replace(
        fleet_of(
            member(
                "orders-dlq",
                "orders",
                "orders-bulk",
                need=Need.EXPIRY,
                oldest_seconds=800_000,
                expires_seconds=90_000,
                waiting=1_204,
                held=60,
                pending=12,
                new_groups=2,
            ),
            member("mails-dlq", "mails", need=Need.LIMIT, limit=20, replayed=None, failed=None),
            member("old-dlq", need=Need.TAGS, waiting=4),
            member("wide-dlq", *[f"wide-{number:02}" for number in range(12)]),
        ),
        sweep="disabled",
        unknown=[f"asking about queue-{number}: AccessDenied" for number in range(12)],
    )

    fragment = opened(console_with(archive, fleet)).get("/fleet", headers=FRAGMENT).text

    assert_page("fleet", fragment, archive)
    assert f'<a href="{BASE}/?queue=orders-bulk">orders-bulk</a>' in fragment


def test_members_are_found_by_names_and_by_what_to_look_at(archive: Archive) -> None:
    fleet = fleet_of(
        member("orders-dlq", "orders", "orders-bulk", need=Need.FAILURES),
        member("mails-dlq", "mails", need=Need.LIMIT),
        member("refunds-dlq", "Refunds-EU"),
    )
    browser = opened(console_with(archive, fleet))

    assert listed(browser) == ["orders-dlq", "mails-dlq", "refunds-dlq"]
    assert listed(browser, "?q=BULK+orders") == ["orders-dlq"]
    assert listed(browser, "?q=refunds-eu") == ["refunds-dlq"]
    assert listed(browser, "?need=limit") == ["mails-dlq"]
    assert listed(browser, "?need=limit&q=orders") == []
    assert "No queue matches" in browser.get("/fleet?q=nothing", headers=FRAGMENT).text


def test_three_hundred_members_are_in_pages(archive: Archive) -> None:
    browser = opened(console_with(archive, large_fleet()))

    first = browser.get("/fleet", headers=FRAGMENT).text
    names = listed(browser)
    for number in range(2, 7):
        names += listed(browser, f"?page={number}")

    assert len(listed(browser)) == 50
    assert names == [row.queue for row in large_fleet().queues]
    assert f'<a rel="next" href="{BASE}/fleet?page=2">' in first
    # What is sought stays from page to page.
    of_team = browser.get("/fleet?q=queue", headers=FRAGMENT).text
    assert f'<a rel="next" href="{BASE}/fleet?q=queue&amp;page=2">' in of_team


def test_fleet_without_members_says_how_to_join(archive: Archive) -> None:
    page = opened(console_with(archive, fleet_of())).get("/fleet", headers=FRAGMENT).text

    assert "dlq doctor --all --stack shop-dlq" in page
    assert "<table" not in page


def test_console_of_one_queue_has_no_such_page(archive: Archive) -> None:
    browser = opened(console_of(archive))

    assert "Fleet" not in browser.get("/jobs").text
    refused = browser.get("/fleet")
    assert refused.status_code == 422
    assert "this console is not of a fleet" in refused.text
