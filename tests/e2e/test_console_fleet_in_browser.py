"""The page of a fleet in a reader's browser."""

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from dlq.console.fleet_reading import FleetReading
from tests.e2e.test_console_in_browser import BODY, WIDTHS, desk
from tests.e2e.watched_browser import assert_fits_and_is_accessible
from tests.support.console_world import archive_from, console_of
from tests.support.fleet_readings import fleet_of, large_fleet
from tests.support.incident import fleet_findings

VALUES = {"queue-tag": "shop"}


def test_three_hundred_queues_fit_and_are_found(browser: Browser, tmp_path: Path) -> None:
    archive = archive_from(tmp_path, fleet_findings(), lambda *_: BODY, 1)
    console = console_of(archive, values=VALUES, fleet=FleetReading(large_fleet()))
    with desk(browser, console, viewport={"width": 360, "height": 900}) as it:
        page = it.go("/")
        page.get_by_role("link", name="Fleet", exact=True).click()
        expect(page.locator("#queues .matches")).to_have_text("300 DLQs")
        expect(page.locator("#queues tbody .status.narrow:visible")).to_have_text(
            ["failures", "limit", "tags"]
        )
        assert_fits_and_is_accessible(page, WIDTHS)

        page.locator("#find-queues select").select_option("limit")
        expect(page.locator("#queues .matches")).to_have_text("1 of 300 DLQs")
        expect(page).to_have_url(re.compile(r"need=limit"))
        page.locator("#find-queues select").select_option("all")
        page.locator("#queue-search").fill("team-3")
        expect(page.locator("#queues .matches")).to_have_text("43 of 300 DLQs")
        page.locator("#queue-search").fill("")
        page.get_by_role("link", name="Next").click()
        expect(page.locator("#queues .pages")).to_contain_text("Page 2 of 6")

        page.goto(f"{it.base}/fleet?q=orders")
        page.get_by_role("link", name="orders", exact=True).click()
        expect(page.locator("#find select[name=queue]")).to_have_value("orders")
        it.assert_quiet()


def test_fault_of_aws_is_in_place_of_the_list(browser: Browser, tmp_path: Path) -> None:
    archive = archive_from(tmp_path, fleet_findings(), lambda *_: BODY, 1)
    with desk(browser, console_of(archive, values=VALUES)) as it:
        page = it.go("/fleet")
        # Nothing names a parked queue, so nobody knows the Region.
        expect(page.locator("#queues .fault")).to_contain_text("give --parked-queue-url")
        assert_fits_and_is_accessible(page, WIDTHS)


def test_fleet_without_a_member_fits(browser: Browser, tmp_path: Path) -> None:
    archive = archive_from(tmp_path, fleet_findings(), lambda *_: BODY, 1)
    console = console_of(archive, values=VALUES, fleet=FleetReading(fleet_of()))
    with desk(browser, console) as it:
        page = it.go("/fleet")
        expect(page.locator("#queues .empty")).to_contain_text("dlq doctor --all")
        assert_fits_and_is_accessible(page, WIDTHS)
        it.assert_quiet()
