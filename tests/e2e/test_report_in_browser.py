"""The report in a reader's browser: what it does, how it looks, what it must not do."""

from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.e2e.watched_browser import Write, assert_fits, assert_fits_and_is_accessible, opened
from tests.support.findings_builder import hostile_findings
from tests.support.incident import fleet_findings, incident_findings

ROOT = Path(__file__).parents[2]
WIDTHS = (360, 768, 1280)


def use_everything(page: Page) -> None:
    """Touch each control once, and open everything."""
    for button in page.locator("#legend button").all():
        button.hover()
    page.locator("#legend button").first.click()
    page.locator("#chips button").last.click()
    chart = page.locator("#chart .u-over")
    chart.hover()
    page.locator("#search").fill("<script> alert")
    page.locator("#search").fill("")
    for by in ("last", "first", "trend", "score", "age", "queue", "count"):
        page.locator("#sort").select_option(by)
    page.get_by_role("button", name="Expand all").click()
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    for _ in range(3):
        page.locator("#theme").click()
    page.locator(".installation input").first.fill("https://sqs/'\"><script>alert(1)</script>")
    page.locator(".copy:visible").first.click()


def test_hostile_texts_stay_texts(browser: Browser, write: Write) -> None:
    with opened(browser, write(hostile_findings())) as watched:
        use_everything(watched.page)

        watched.assert_quiet()
        assert watched.page.evaluate("'hostile' in window") is False
        assert watched.page.locator("script").count() == 3
        for tag in ("img", "iframe", "object", "embed", "b script", "[onerror]", "[onmouseover]"):
            assert watched.page.locator(tag).count() == 0
        for width in WIDTHS:
            assert_fits(watched.page, width)


def test_it_fits_and_is_accessible(browser: Browser, write: Write) -> None:
    path = write(incident_findings())
    with opened(browser, path, viewport={"width": 360, "height": 900}) as watched:
        page = watched.page
        page.locator("details.group > summary").first.click()
        page.locator(".numbers > summary").click()

        watched.assert_quiet()
        for width in WIDTHS:
            assert_fits(page, width)
        # A row for each piece of time: they are alike, and axe looks at each cell.
        rows = page.locator(".numbers tbody tr")
        rows.evaluate_all("(rows) => rows.slice(8).forEach((row) => row.remove())")
        assert_fits_and_is_accessible(page, WIDTHS)


def test_report_of_several_queues_fits_and_is_accessible(browser: Browser, write: Write) -> None:
    findings = fleet_findings()
    # The widest names among few groups: axe looks at each of them.
    few = replace(findings, groups=findings.groups[:10])
    with opened(browser, write(few)) as watched:
        watched.page.locator("#queue").select_option("stock")

        watched.assert_quiet()
        assert_fits_and_is_accessible(watched.page, WIDTHS)


def test_report_of_a_look_works_without_commands(browser: Browser, write: Write) -> None:
    findings = replace(incident_findings(), archive="", plan_path="", queue="orders-dlq")
    with opened(browser, write(findings)) as watched:
        page = watched.page
        page.locator("details.group > summary").first.click()

        watched.assert_quiet()
        expect(page.locator("#chart canvas")).to_be_visible()
        expect(page.locator(".redrive")).to_have_count(0)
        expect(page.locator(".origin")).to_contain_text("orders-dlq: looked at, nothing moved")
        expect(page.locator(".status:visible")).to_have_count(0)
        assert_fits_and_is_accessible(page, WIDTHS)


def test_without_scripts_everything_can_be_read(browser: Browser, write: Write) -> None:
    with opened(browser, write(incident_findings()), java_script_enabled=False) as watched:
        page = watched.page
        expect(page.locator(".needs-js:visible")).to_have_count(0)
        page.locator(".numbers > summary").click()
        expect(page.locator(".numbers tbody tr").last).to_be_visible()
        page.locator("details.group > summary").first.click()
        expect(page.locator("details.group[open] .differences li")).to_have_count(3)
        expect(page.locator("details.group[open] .sample pre").first).to_be_visible()
        expect(page.locator("#redrive .command")).to_have_count(3)


def test_without_scripts_each_group_names_its_queue(browser: Browser, write: Write) -> None:
    with opened(browser, write(fleet_findings()), java_script_enabled=False) as watched:
        page = watched.page
        expect(page.locator(".needs-js:visible")).to_have_count(0)
        expect(page.locator("details.group .what > .queue:visible")).to_have_count(43)
        expect(page.locator(".queues tbody tr:visible")).to_have_count(7)


def test_paper_has_what_was_open_and_no_controls(
    browser: Browser, write: Write, tmp_path: Path
) -> None:
    with opened(browser, write(incident_findings()), color_scheme="dark") as watched:
        page = watched.page
        page.locator("details.group > summary").first.click()
        printed = page.pdf(path=tmp_path / "report.pdf", format="A4")
        page.emulate_media(media="print")

        assert printed.startswith(b"%PDF")
        expect(
            page.locator("#theme, .toolbar, .copy, .installation").locator("visible=true")
        ).to_have_count(0)
        expect(page.locator(".sample:visible")).to_have_count(1)
        assert (
            page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(252, 252, 251)"
        )
        page.emulate_media(media="screen")
        watched.assert_quiet()
