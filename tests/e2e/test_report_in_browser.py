"""The report in a reader's browser: what it does, how it looks, what it must not do."""

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.watched_browser import Write, assert_fits, assert_fits_and_is_accessible, opened
from tests.support.findings_builder import ANALYZED_AT, a_group, hostile_findings, some_findings
from tests.support.incident import incident_findings

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
    for by in ("last", "first", "trend", "score", "age", "count"):
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


# What is drawn on the canvas, and whether all of it is within.
_RECORD_LABELS = """() => {
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const half = this.textAlign === "center" ? this.measureText(text).width / 2 : 0;
        const middle = this.getTransform().e + x;
        const isWhole = middle - half >= 0 && middle + half <= this.canvas.width;
        window.labels.push([middle, text, isWhole]);
        return draw.apply(this, arguments);
    };
}"""

# Labels of two widths are not one row of labels.
_IS_CHART_FITTED = """() => {
    const chart = document.querySelector("#chart");
    return chart.querySelector(".uplot").clientWidth === Math.max(240, chart.clientWidth);
}"""


@pytest.mark.parametrize("seconds", [1, 30, 60, 1_800, 86_400])
def test_the_chart_s_times_differ_and_none_is_cut(
    browser: Browser, write: Write, seconds: int
) -> None:
    buckets = 59
    starts = tuple(ANALYZED_AT + timedelta(seconds=seconds * n) for n in range(buckets))
    group = a_group(arrivals=(3,) * buckets)
    path = write(some_findings(group, bucket_starts=starts, bucket_seconds=float(seconds)))
    with opened(browser, path) as watched:
        page = watched.page
        page.evaluate(_RECORD_LABELS)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(_IS_CHART_FITTED)
            page.evaluate("window.labels = []")
            # The chart is drawn again.
            page.locator("#legend button").click()
            expect(page.locator("#chips")).to_be_visible()
            labels = page.evaluate("window.labels")
            page.locator("#legend button").click()
            expect(page.locator("#chips")).to_be_hidden()

            # From left to right; what was drawn twice stands once.
            drawn = {middle: text for middle, text, _ in labels if ":" in text or seconds >= 86_400}
            times = [drawn[middle] for middle in sorted(drawn)]
            assert len(times) >= 2
            assert all(one != following for one, following in pairwise(times))
            assert [text for _, text, is_whole in labels if not is_whole] == []


def test_without_scripts_everything_can_be_read(browser: Browser, write: Write) -> None:
    with opened(browser, write(incident_findings()), java_script_enabled=False) as watched:
        page = watched.page
        expect(page.locator(".needs-js:visible")).to_have_count(0)
        page.locator(".numbers > summary").click()
        expect(page.locator(".numbers tbody tr").last).to_be_visible()
        page.locator("details.group > summary").first.click()
        expect(page.locator("details.group[open] .leads li")).to_have_count(3)
        expect(page.locator("details.group[open] .sample pre").first).to_be_visible()
        expect(page.locator("#redrive .command")).to_have_count(3)


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


def test_motion_is_left_out_where_it_is_not_wanted(browser: Browser, write: Write) -> None:
    for preference, behavior in (("reduce", "auto"), ("no-preference", "smooth")):
        with opened(browser, write(incident_findings()), reduced_motion=preference) as watched:
            style = "getComputedStyle(document.documentElement).scrollBehavior"
            assert watched.page.evaluate(style) == behavior
