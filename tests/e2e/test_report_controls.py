"""The report's controls in a reader's browser: search, sort, chart, links, keyboard, copying."""

import time
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.watched_browser import Write, opened
from tests.support.findings_builder import a_difference, a_group, a_sample, some_findings
from tests.support.incident import QUEUES, fleet_findings, incident_findings


def test_search_looks_through_what_came_from_messages(browser: Browser, write: Write) -> None:
    groups = (
        a_group(group_id="g-1", title="First", count=3, samples=(a_sample(body='{"a":"Needle"}'),)),
        a_group(
            group_id="g-2", title="Second", count=2, differences=(a_difference(value="needle"),)
        ),
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


def test_groups_of_one_queue_are_shown_alone_and_sorted_by_queue(
    browser: Browser, write: Write
) -> None:
    findings = fleet_findings()
    with opened(browser, write(findings)) as watched:
        page = watched.page
        queues = page.locator("details.group:visible .what > .queue")
        names = page.locator("#queue option").all_inner_texts()
        assert names == ["all", *sorted([*QUEUES, "not known"])]
        expect(page.locator(".queues tbody tr")).to_have_count(7)
        numbers = findings.queues["stock"]
        expect(page.locator(".queues tr", has_text="stock")).to_contain_text(
            f"{numbers.messages:,}{numbers.groups}{numbers.new}"
        )

        page.locator("#queue").select_option("stock")
        expect(page.locator("#matches")).to_have_text("7 of 43 groups")
        expect(queues).to_have_text(["queue stock"] * 7)
        page.locator("#chips button").click()
        expect(page.locator("#matches")).to_have_text("43 groups")
        expect(page.locator("#queue")).to_have_value("")

        page.locator("#queue").select_option("not known")
        expect(page.locator("details.group:visible h3")).to_have_text(["everything else"])
        page.locator("#search").fill("nothing")
        page.get_by_role("button", name="Clear the filters").click()
        expect(page.locator("#matches")).to_have_text("43 groups")

        page.locator("#sort").select_option("queue")
        sorted_names = [text.removeprefix("queue ") for text in queues.all_inner_texts()]
        assert sorted_names == sorted(sorted_names)
        counts = [group.count for group in findings.groups if group.queue == "invoices"]
        shown = page.locator("details.group[data-queue=invoices]").evaluate_all(
            "(groups) => groups.map((group) => Number(group.dataset.count))"
        )
        assert shown == counts
        watched.assert_quiet()


def test_one_queue_has_no_filter(browser: Browser, write: Write) -> None:
    findings = incident_findings()
    groups = tuple(replace(group, queue="orders") for group in findings.groups)
    with opened(browser, write(replace(findings, groups=groups))) as watched:
        expect(watched.page.locator("#queue, .queue, .queues")).to_have_count(0)
        expect(watched.page.locator("#sort option[value=queue]")).to_have_count(0)
        watched.page.locator("#sort").select_option("last")
        watched.assert_quiet()


def test_the_theme_is_kept(browser: Browser, write: Write) -> None:
    with opened(browser, write(incident_findings()), color_scheme="light") as watched:
        page = watched.page
        background = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(background)
        page.locator("#theme").click()
        page.locator("#theme").click()

        expect(page.locator("#theme")).to_have_text("Theme: dark")
        dark = page.evaluate(background)
        assert dark != light

        reload_until_stored(page, "report-theme")

        expect(page.locator("body")).to_have_css("background-color", dark)


STORED_SECONDS = 60


def reload_until_stored(page: Page, key: str) -> None:
    """Reload *page* until its storage has *key*.

    Chromium writes what a page stores after the call that stores it: on a busy machine the next
    document may read its storage before that, and does not read it again.
    """
    deadline = time.monotonic() + STORED_SECONDS
    page.reload()
    while page.evaluate("key => localStorage.getItem(key)", key) is None:
        assert time.monotonic() < deadline, f"{key} is not stored after {STORED_SECONDS} s"
        page.wait_for_timeout(200)
        page.reload()


def test_commands_are_copied_as_they_read_with_the_reader_s_queue(
    browser: Browser, write: Write
) -> None:
    group = a_group(differences=(a_difference(condition="tenant = 'a'"),))
    with opened(
        browser, write(some_findings(group)), permissions=["clipboard-read", "clipboard-write"]
    ) as watched:
        page = watched.page
        page.locator("details.group > summary").click()
        page.locator("details.group .installation input").fill("https://sqs/it's")

        copied = []
        for button in page.locator("details.group .copy").all():
            button.click()
            expect(button).to_have_text("Copied")
            copied.append(page.evaluate("navigator.clipboard.readText()"))

        assert copied == page.locator("details.group .command code").all_inner_texts()
        queue = """--main-queue-url 'https://sqs/it'"'"'s'"""
        for command, end in zip(copied, ("", " --execute --reason 'WHY'"), strict=False):
            assert command.startswith("dlq redrive --archive ")
            assert command.endswith(f" --group {group.group_id} {queue}{end}")
        assert copied[2].startswith("dlq decide --archive ")
        assert copied[2].endswith(f" {group.group_id} redrive --note 'WHY'")
        assert copied[3] == "--where \"tenant = 'a'\""
        expect(page.locator("#redrive .slot").first).to_contain_text("https://sqs/it")


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


@pytest.mark.parametrize("fragment", ["#%00", "#search"])
def test_an_address_that_names_no_group_does_no_harm(
    browser: Browser, write: Write, fragment: str
) -> None:
    with opened(browser, write(incident_findings()), fragment) as watched:
        expect(watched.page.locator("details.group[open]")).to_have_count(0)
        watched.page.locator("#search").fill("coupon")
        expect(watched.page.locator("details.group:visible")).to_have_count(1)
        watched.assert_quiet()


def test_a_small_group_can_be_shown_alone_in_the_chart(browser: Browser, write: Write) -> None:
    with opened(browser, write(incident_findings())) as watched:
        page = watched.page
        last = page.locator("details.group").last
        last.locator("summary").first.click()
        last.get_by_role("button", name="Show in the chart").click()
        expect(page.locator("details.group:visible")).to_have_count(1)
        expect(page.locator("#chips")).to_contain_text("empty body")
        page.locator("#chart").focus()
        page.keyboard.press("End")
        expect(page.locator("#said")).not_to_contain_text("other groups")


def test_group_ids_cannot_stand_for_parts_of_the_page(browser: Browser, write: Write) -> None:
    names = ("redrive", "rows", "search", "chart", "report-data", "said")
    groups = [a_group(group_id=name, title=name) for name in names]
    with opened(browser, write(some_findings(*groups))) as watched:
        page = watched.page
        page.get_by_role("button", name="Expand all").click()
        page.locator("#search").fill("said")
        expect(page.locator("details.group:visible h3")).to_have_text(["said"])
        command = page.locator("details.group:visible code", has_text="--group said").first
        expect(command).to_be_visible()
        watched.assert_quiet()
