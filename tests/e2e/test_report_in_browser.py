"""The report in a reader's browser: what it does, how it looks, what it must not do."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from spark_reprocess.findings import Findings
from spark_reprocess.report.page import render_page
from tests.e2e.watched_browser import launched, opened
from tests.findings_builder import (
    BUCKETS,
    a_group,
    a_lead,
    a_sample,
    hostile_findings,
    many_findings,
    some_findings,
)
from tests.incident import incident_findings

WEBHOOKS = Path("/work/shared/data/github-webhooks.jsonl")
WIDTHS = (360, 768, 1280)

pytestmark = pytest.mark.e2e

Write = Callable[[Findings], Path]


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


def webhook_findings() -> Findings:
    """Real payloads, grouped by their event."""
    bodies: dict[str, list[str]] = defaultdict(list)
    for line in WEBHOOKS.read_text(encoding="utf-8").splitlines():
        delivery = json.loads(line)
        bodies[delivery["event"]].append(delivery["body"])
    groups = [
        a_group(
            group_id=f"g-{event}",
            title=f"attempts_exhausted: JSON {event}",
            count=len(of_event),
            arrivals=tuple(len(of_event) * (n % 7 == 0) for n in range(BUCKETS)),
            leads=(a_lead(field="body.repository.full_name", value="Codertocat/Hello-World"),),
            samples=tuple(
                a_sample(message_id=f"{event}-{n}", body=body)
                for n, body in enumerate(of_event[:5])
            ),
        )
        for event, of_event in bodies.items()
    ]
    return some_findings(*sorted(groups, key=lambda group: -group.count))


def use_everything(page: Page) -> None:
    """Touch each control once, with everything open."""
    page.get_by_role("button", name="Expand all").click()
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
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
    for _ in range(3):
        page.locator("#theme").click()
    page.locator(".queue input").first.fill("https://sqs/'\"><script>alert(1)</script>")
    page.locator(".copy:visible").first.click()


def assert_fits(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


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


@pytest.mark.skipif(not WEBHOOKS.exists(), reason="the sample of real webhooks is not here")
def test_real_webhooks_are_shown_and_nothing_is_fetched(browser: Browser, write: Write) -> None:
    with opened(browser, write(webhook_findings())) as watched:
        use_everything(watched.page)

        watched.assert_quiet()
        for width in WIDTHS:
            assert_fits(watched.page, width)
        watched.page.locator("#search").fill("check_run Octocoders-linter")
        expect(watched.page.locator("#g-check_run")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_is_accessible(
    browser: Browser, write: Write, tmp_path: Path, scheme: Any, width: int
) -> None:
    path = write(incident_findings())
    with opened(
        browser, path, color_scheme=scheme, viewport={"width": width, "height": 900}
    ) as watched:
        page = watched.page
        page.screenshot(path=tmp_path / f"{scheme}-{width}.png", full_page=True)
        page.locator("details.group > summary").first.click()
        page.locator(".numbers > summary").click()
        page.screenshot(path=tmp_path / f"{scheme}-{width}-open.png", full_page=True)

        assert_fits(page, width)
        watched.assert_quiet()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


def test_the_page_does_not_move_while_it_loads(browser: Browser, write: Write) -> None:
    with opened(browser, write(incident_findings())) as watched:
        shift = watched.page.evaluate(
            """() => new Promise((done) => {
                new PerformanceObserver((list) =>
                    done(list.getEntries().reduce((sum, one) => sum + one.value, 0))
                ).observe({ type: "layout-shift", buffered: true });
                setTimeout(() => done(0), 500);
            })"""
        )

        assert shift < 0.01


def test_search_looks_through_what_came_from_messages(browser: Browser, write: Write) -> None:
    groups = (
        a_group(group_id="g-1", title="First", count=3, samples=(a_sample(body='{"a":"Needle"}'),)),
        a_group(group_id="g-2", title="Second", count=2, leads=(a_lead(value="needle"),)),
        a_group(group_id="g-3", title="Third copy samples", count=1),
    )
    with opened(browser, write(some_findings(*groups))) as watched:
        page = watched.page
        for words, shown in (
            ("NEEDLE", ["First", "Second"]),
            ("needle second", ["Second"]),
            ("g-3", ["Third copy samples"]),
            ("redrive", []),
            ("", ["First", "Second", "Third copy samples"]),
        ):
            page.locator("#search").fill(words)
            expect(page.locator("details.group:visible h3")).to_have_text(shown)
        page.locator("#search").fill("nothing")
        expect(page.locator("#matches")).to_have_text("0 of 3 groups")
        page.get_by_role("button", name="Clear the filters").click()
        expect(page.locator("#matches")).to_have_text("3 groups")


def test_sorting_reorders_the_list(browser: Browser, write: Write) -> None:
    with opened(browser, write(incident_findings())) as watched:
        page = watched.page
        titles = page.locator("details.group h3")
        page.locator("#sort").select_option("score")
        expect(titles.first).to_contain_text("RefundRequested")
        page.locator("#sort").select_option("trend")
        expect(titles.nth(1)).to_contain_text("RefundRequested")
        page.locator("#sort").select_option("count")
        expect(titles.first).to_contain_text("GatewayTimeout")


def test_the_theme_is_kept(browser: Browser, write: Write) -> None:
    with opened(browser, write(incident_findings()), color_scheme="light") as watched:
        page = watched.page
        background = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(background)
        page.locator("#theme").click()
        page.locator("#theme").click()

        expect(page.locator("#theme")).to_have_text("Theme: dark")
        dark = page.evaluate(background)
        page.reload()

        assert dark != light
        assert page.evaluate(background) == dark


def test_commands_are_copied_as_they_read_with_the_reader_s_queue(
    browser: Browser, write: Write
) -> None:
    group = a_group(leads=(a_lead(condition="tenant = 'a'"),))
    with opened(
        browser,
        write(some_findings(group)),
        permissions=["clipboard-read", "clipboard-write"],
    ) as watched:
        page = watched.page
        page.locator("details.group > summary").click()
        page.locator("details.group .queue input").fill("https://sqs/it's")

        copied = []
        for button in page.locator("details.group .copy").all():
            button.click()
            expect(button).to_have_text("Copied")
            copied.append(page.evaluate("navigator.clipboard.readText()"))

        assert copied == page.locator("details.group .command code").all_inner_texts()
        assert copied[0].startswith("sed -E -i.bak ")
        assert copied[1].endswith(""" --to-queue-url 'https://sqs/it'"'"'s'""")
        assert copied[2].endswith(""" 'https://sqs/it'"'"'s' --execute --reason 'WHY'""")
        assert copied[3] == "--where \"tenant = 'a'\""
        expect(page.locator("#put-back .slot").first).to_contain_text("https://sqs/it")


def test_the_chart_filters_by_legend_and_by_brush(browser: Browser, write: Write) -> None:
    early = a_group(group_id="g-1", title="Early", arrivals=(5,) * 10, count=50)
    late = a_group(group_id="g-2", title="Late", arrivals=(0,) * 60 + (3,) * 12, count=36)
    with opened(browser, write(some_findings(early, late))) as watched:
        page = watched.page
        shown = page.locator("details.group:visible h3")
        page.locator("#legend button").nth(1).click()
        expect(shown).to_have_text(["Late"])
        expect(page.locator("#legend button").nth(1)).to_have_attribute("aria-pressed", "true")
        page.locator("#legend button").nth(1).click()
        expect(shown).to_have_count(2)

        box = page.locator("#chart .u-over").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 2, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 12, box["y"] + 20, steps=4)
        page.mouse.up()
        expect(shown).to_have_text(["Early"])
        expect(page.locator("#chips")).to_contain_text("2025-11-18 22:30 to 2025-11-19")
        page.locator("#chips button").first.click()
        expect(shown).to_have_count(2)


def test_the_chart_is_read_with_the_keyboard(browser: Browser, write: Write) -> None:
    with opened(browser, write(incident_findings())) as watched:
        page = watched.page
        page.locator("#chart").focus()
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#said")).to_contain_text("2025-11-20 09:30 to 10:00: ")
        page.keyboard.press("Enter")
        expect(page.locator("#chips")).to_contain_text("2025-11-20 09:30 to 10:00")
        page.keyboard.press("Escape")
        expect(page.locator("#chips")).to_be_hidden()


def test_the_list_is_walked_with_the_keyboard(browser: Browser, write: Write) -> None:
    with opened(browser, write(incident_findings())) as watched:
        page = watched.page
        page.locator("details.group > summary").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        opened_group = page.locator("details.group[open]")
        expect(opened_group.locator("h3")).to_contain_text("coupon.kind")
        assert page.url.endswith(f"#{opened_group.get_attribute('id')}")
        page.keyboard.press("End")
        page.keyboard.press("ArrowUp")
        expect(page.locator("details.group > summary:focus h3")).to_contain_text(
            "Decimal", ignore_case=True
        )


def test_a_link_opens_its_group(browser: Browser, write: Write) -> None:
    findings = incident_findings()
    group = findings.groups[4]
    with opened(browser, write(findings), f"#{group.group_id}") as watched:
        page = watched.page
        expect(page.locator("details.group[open]")).to_have_attribute("id", group.group_id)
        expect(page.locator("details.group[open]")).to_be_in_viewport()
        page.locator("#search").fill("coupon")
        page.locator(".lede a").click()
        expect(page.locator(f"#{findings.groups[0].group_id}")).to_have_attribute("open", "")


def test_without_scripts_everything_can_be_read(browser: Browser, write: Write) -> None:
    with opened(browser, write(incident_findings()), java_script_enabled=False) as watched:
        page = watched.page
        expect(page.locator(".needs-js:visible")).to_have_count(0)
        page.locator(".numbers > summary").click()
        expect(page.locator(".numbers tbody tr").last).to_be_visible()
        page.locator("details.group > summary").first.click()
        expect(page.locator("details.group[open] .leads li")).to_have_count(3)
        expect(page.locator("details.group[open] .sample pre").first).to_be_visible()
        expect(page.locator("#put-back .command")).to_have_count(2)


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
            page.locator("#theme, .toolbar, .copy, .queue").locator("visible=true")
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


def test_a_thousand_groups_can_be_searched_and_opened(browser: Browser, write: Write) -> None:
    with opened(browser, write(many_findings(1_000))) as watched:
        page = watched.page
        page.locator("#search").fill("ValidationError 777:")
        expect(page.locator("details.group:visible")).to_have_count(1)
        page.locator("details.group:visible > summary").click()
        expect(page.locator("details.group[open] .copy").first).to_be_visible()
        watched.assert_quiet()


def test_nothing_to_decide_is_a_quiet_page(browser: Browser, write: Write) -> None:
    with opened(browser, write(some_findings(messages=9, decided=9))) as watched:
        expect(watched.page.locator("h1")).to_have_text("Nothing is left to decide.")
        watched.assert_quiet()
