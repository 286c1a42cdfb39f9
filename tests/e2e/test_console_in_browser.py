"""The console in a reader's browser: what people do there, how it looks, what it must not do."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from dlq.archive.storage.files import Archive
from dlq.console.site import Console
from tests.e2e.watched_browser import Watched, assert_fits_and_is_accessible
from tests.support.console_world import archive_from, console_of, plan_of, running
from tests.support.findings_builder import many_findings
from tests.support.incident import fleet_findings, incident_findings

ROOT = Path(__file__).resolve().parents[2]
BODY = '{"zip": 1, "vat": null, "password": "hunter2", "customer": {"region": "eu-west-3"}}'
WIDTHS = (360, 1280)


@dataclass
class Desk(Watched):
    """One person's browser at one console."""

    base: str = ""

    def go(self, path: str) -> Page:
        """Open a page, and wait for what it asks for by itself when it is opened."""
        self.page.goto(f"{self.base}{path}")
        expect(self.page.locator(".htmx-request")).to_have_count(0)
        return self.page

    def assert_quiet(self) -> None:
        """Nothing ran, nothing of elsewhere was asked for."""
        assert (self.requests, self.messages, self.dialogs) == ([], [], [])
        assert self.page.evaluate("'hostile' in window") is False


@contextmanager
def desk(browser: Browser, console: Console, **context: Any) -> Iterator[Desk]:
    """Start a console and open its printed address in a profile of its own."""
    with (
        running(console) as session,
        browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context}) as profile,
    ):
        page = profile.new_page()
        base = f"http://127.0.0.1:{session.port}{session.base}"
        it = Desk(page, base=base)

        def note(request: Any) -> None:
            if not request.url.startswith((f"{base}/", "data:")):
                it.requests.append(request.url)

        page.goto(session.address)
        page.wait_for_url(f"{base}/")
        profile.on("request", note)
        yield it


def incident(folder: Path) -> Archive:
    findings = incident_findings()
    statuses = ("regressed", "new", "known", "resolved")
    groups = tuple(
        replace(group, group_id=f"g-{place:010x}", status=statuses[place % 4])
        for place, group in enumerate(findings.groups)
    )
    return archive_from(folder, replace(findings, groups=groups), lambda *_: BODY, 60)


NEW_ZIP = '[{"op": "replace", "path": "/zip", "value": "10115"}]'
_IS_UNCOVERED = """() => [...document.activeElement.getClientRects()].every((line) => {
    const seen = document.elementFromPoint(line.left + line.width / 2, line.top + line.height / 2);
    return document.activeElement.contains(seen);
})"""
"""Whether each line of what has the focus is seen."""

PATHS = (
    "/",
    "/groups/g-0000000001",
    "/groups/g-0000000001/messages",
    "/groups/g-0000000001/edit",
    "/messages/m-0070",
    "/messages/nothing",
    "/find?value=eu-west-3",
)


def test_each_page_fits_and_is_accessible(browser: Browser, tmp_path: Path) -> None:
    with desk(
        browser, console_of(incident(tmp_path)), viewport={"width": 360, "height": 900}
    ) as it:
        for path in PATHS:
            page = it.go(path)
            if path.endswith("/edit"):
                page.get_by_label("JSON Patch").fill(NEW_ZIP)
                expect(page.locator(".patch ins").first).to_be_visible()
            assert_fits_and_is_accessible(page, WIDTHS)
        failed = [message for message in it.messages if "422" not in message]
        assert (failed, it.requests, it.dialogs) == ([], [], [])


def test_groups_of_several_queues_fit_and_are_filtered(browser: Browser, tmp_path: Path) -> None:
    archive = archive_from(tmp_path, fleet_findings(), lambda *_: BODY, 1)
    with desk(browser, console_of(archive), viewport={"width": 360, "height": 900}) as it:
        page = it.go("/")
        page.locator("#find select[name=queue]").select_option("stock")
        expect(page.locator("#list .matches")).to_contain_text("7 of 43 groups")
        expect(page).to_have_url(re.compile(r"queue=stock"))
        expect(page.locator("#list tbody .narrow.queue:visible")).to_have_text(["stock"] * 7)
        expect(page.locator("#list .of-queue:visible")).to_have_count(0)
        assert_fits_and_is_accessible(page, WIDTHS)

        expect(page.locator("#list td.of-queue:visible")).to_have_text(["stock"] * 7)
        page.locator(".queues").get_by_role("link", name="returns").click()
        expect(page.locator("#list td.of-queue")).to_have_text(["returns"] * 7)
        page.locator("#list tbody a").first.click()
        page.get_by_role("link", name="returns", exact=True).click()
        expect(page.locator("#list .matches")).to_contain_text("7 of 43 groups")
        it.assert_quiet()


def test_a_slash_goes_to_the_search_and_types_elsewhere(browser: Browser, tmp_path: Path) -> None:
    with desk(browser, console_of(incident(tmp_path))) as it:
        page = it.page
        page.keyboard.press("/")
        page.keyboard.type("a/b")
        expect(page.locator("#search-all")).to_have_value("a/b")
        page.locator("#search-all").fill("m-0070")
        page.keyboard.press("Enter")

        page.wait_for_url("**/find?value=m-0070")
        page.get_by_role("link", name="m-0070").click()
        expect(page.locator("h1")).to_contain_text("Message m-0070")


def test_keys_go_from_row_to_row_and_say_what_they_do(browser: Browser, tmp_path: Path) -> None:
    with desk(browser, console_of(incident(tmp_path))) as it:
        page = it.page
        links = page.locator("#list tbody a")
        for key, place in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
            page.keyboard.press(key)
            expect(links.nth(place)).to_be_focused()
        page.keyboard.press("?")
        expect(page.locator("#keys")).to_be_visible()
        assert_fits_and_is_accessible(page, WIDTHS)
        page.keyboard.press("Escape")
        expect(page.locator("#keys")).to_be_hidden()
        page.keyboard.press("Enter")
        page.wait_for_url("**/groups/**")
        it.assert_quiet()


def test_many_groups_are_decided_with_the_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    archive = archive_from(tmp_path, many_findings(120), lambda *_: "{}", 1)
    with desk(browser, console_of(archive)) as it:
        page = it.page
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the content")).to_be_focused()
        page.locator("#search").focus()
        page.keyboard.type("v7")
        expect(page.locator("#list .matches")).to_contain_text("11 of 120 groups")
        expect(page).to_have_url(re.compile(r"q=v7"))
        # To leave the search does not load the list again, which would take the ticks away.
        for key in ("ArrowDown", *"xjjxd"):
            page.keyboard.press(key)
        expect(page.locator("#decide input[name=note]")).to_be_focused()
        page.keyboard.type("by hand")
        # Enter sends the form with its first button.
        page.keyboard.press("Enter")
        expect(page.get_by_role("status").first).to_contain_text("Decided: redrive for 2 groups")

        decided = [group.group_id for group in plan_of(archive).groups if group.action == "redrive"]
        assert decided == ["g-0000000007", "g-0000000047"]
        it.assert_quiet()


def test_the_bar_covers_no_row_that_has_the_focus_and_moves_none(
    browser: Browser, tmp_path: Path
) -> None:
    archive = archive_from(tmp_path, many_findings(60), lambda *_: "{}", 1)
    with desk(browser, console_of(archive), reduced_motion="reduce") as it:
        page = it.page
        bar = page.locator(".bar-of-actions")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 600})
            page.goto(f"{it.base}/")
            expect(bar).to_be_hidden()
            page.keyboard.press("j")
            row = page.locator("#list tbody tr").first
            before = row.bounding_box()
            page.keyboard.press("x")
            expect(bar).to_be_visible()
            assert row.bounding_box() == before

            for key in [*"j" * 30, *"k" * 12]:
                page.keyboard.press(key)
                expect(page.locator(":focus")).to_be_in_viewport(ratio=1)
                assert page.evaluate(_IS_UNCOVERED), (width, key)

            # What is last on the page can be scrolled up from behind the bar.
            page.keyboard.press("End")
            expect(bar if width == 390 else page.locator("footer")).to_be_in_viewport()
            button = page.get_by_role("button", name="Keys: ?")
            button.focus()
            expect(button).to_be_in_viewport(ratio=1)
            assert page.evaluate(_IS_UNCOVERED), width
            assert_fits_and_is_accessible(page, [width])


def test_a_range_of_the_chart_filters_the_list(browser: Browser, tmp_path: Path) -> None:
    with desk(browser, console_of(incident(tmp_path))) as it:
        page = it.page
        expect(page.locator("#chart canvas")).to_be_visible()
        page.locator("#chart").focus()
        page.keyboard.press("Home")
        expect(page.locator("#said")).to_contain_text("2025-11-18 22:30")
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#said")).to_contain_text("2025-11-20 09:30 to 10:00: ")
        page.keyboard.press("Enter")
        expect(page.locator("#chips")).to_contain_text("2025-11-20 09:30 to 10:00")
        expect(page.locator("#list .matches")).to_contain_text("of 7 groups")
        page.keyboard.press("Escape")
        expect(page.locator("#list .matches")).to_have_text("7 groups")
        page.locator("#legend button").first.click()
        page.locator("select[name=status]").select_option("new")
        expect(page.locator("#list .matches")).to_have_text("2 of 7 groups")
        it.assert_quiet()


def test_an_edit_is_made_and_seen_while_it_is_typed(browser: Browser, tmp_path: Path) -> None:
    archive = incident(tmp_path)
    with desk(browser, console_of(archive)) as it:
        page = it.go("/groups/g-0000000001")
        page.get_by_text("Discard, edit, note").click()
        page.get_by_role("link", name="Edit the messages").click()

        typed = page.get_by_label("JSON Patch")
        fields = page.locator(".body-fields button")
        fields.filter(has_text="1").first.click()
        page.keyboard.type('"10115"')
        typed.evaluate("(area) => area.value = area.value.replace('10115', '1.10')")
        fields.filter(has_text="eu-west-3").click()
        assert '"value": "1.10"}' in typed.input_value()
        expect(page.locator(".patch ins").first).to_contain_text('"1.10"')
        assert "hunter2" not in page.locator(".beside").inner_text()

        typed.fill(NEW_ZIP[:-1])
        expect(page.get_by_role("alert").filter(has_text="the text")).to_be_visible()

        typed.fill(NEW_ZIP)
        expect(page.locator(".patch ins").first).to_contain_text('"10115"')

        secret = '{"op": "replace", "path": "/password", "value": "new secret"}'
        typed.fill(f"{NEW_ZIP[:-1]}, {secret}]")
        expect(page.locator("#preview .command")).to_contain_text("/password")
        patches = page.locator(".patches").inner_text()
        assert '"10115"' in patches
        assert "new secret" not in patches

        page.get_by_role("button", name="Save into the plan").click()
        expect(page.get_by_role("status").first).to_contain_text("The edit is in the plan")

        edit = plan_of(archive).groups[1].edit
        assert edit is not None
        assert edit.patch is not None
        assert len(edit.patch.operations) == 2
        it.assert_quiet()


def test_what_no_page_of_the_console_wrote_is_not_parsed(browser: Browser, tmp_path: Path) -> None:
    """Trusted Types: markup that came from anywhere but this server's answers is refused."""
    with desk(browser, console_of(incident(tmp_path))) as it:
        refused = it.page.evaluate(
            """() => ["innerHTML", "outerHTML", "srcdoc"].map((name) => {
                const element = document.createElement(name === "srcdoc" ? "iframe" : "div");
                document.body.append(element);
                try { element[name] = "<img src=x onerror='window.hostile = 1'>"; return "parsed"; }
                catch (error) { return error.name; }
                finally { element.remove(); }
            })"""
        )
        scripts = it.page.evaluate(
            """() => {
                const script = document.createElement("script");
                try { script.text = "window.hostile = 2"; } catch (error) { return error.name; }
                document.body.append(script);
                return "ran";
            }"""
        )

        assert refused == ["TypeError"] * 3
        assert scripts == "TypeError"
        assert it.page.evaluate("'hostile' in window") is False


def test_without_scripts_everything_works(browser: Browser, tmp_path: Path) -> None:
    archive = incident(tmp_path)
    with desk(browser, console_of(archive), java_script_enabled=False) as it:
        page = it.go("/?q=timeout")
        expect(page.locator("#list tbody tr")).to_have_count(1)
        page.locator("#list tbody a").first.click()
        page.get_by_role("link", name="List its messages").click()
        expect(page.locator(".messages tbody tr")).to_have_count(50)
        page.get_by_role("link", name="Next").click()
        expect(page.locator(".messages tbody tr")).to_have_count(10)
        it.go("/groups/g-0000000002/edit")
        page.get_by_label("JSON Patch").fill(NEW_ZIP)
        page.get_by_role("button", name="Save into the plan").click()
        expect(page.get_by_role("status").first).to_contain_text("The edit is in the plan")


def test_a_console_that_was_stopped_says_so(browser: Browser, tmp_path: Path) -> None:
    with browser.new_context() as profile:
        page = profile.new_page()
        with running(console_of(incident(tmp_path))) as session:
            page.goto(session.address)
            page.wait_for_url(f"**{session.base}/")
        page.locator("#search").fill("x")
        expect(page.locator("#notice")).to_contain_text("was stopped")


def test_the_browser_s_command_holds_no_token(browser: Browser, tmp_path: Path) -> None:
    """Every user of this machine reads the words of every command, while the browser starts."""
    words, end, program = (tmp_path / name for name in ("words", "end", "browser"))
    program.write_text(
        f'#!/bin/sh\necho "$@" > {words}.new && mv {words}.new {words}\n'
        f"while [ ! -e {end} ]; do sleep 0.1; done\n"
    )
    program.chmod(0o700)

    terminal, its_end = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "dlq", "console", "--archive", incident(tmp_path).root],
        cwd=ROOT,
        env={
            **os.environ,
            "BROWSER": f"{program} %s",
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "layers" / "core"))),
        },
        stdout=its_end,
    )

    try:
        while not words.exists():
            assert process.poll() is None
            time.sleep(0.05)
        address = words.read_text().strip()
        assert re.fullmatch(r"file:///\S+/open\.html", address)

        file = Path(address.removeprefix("file://"))
        modes = [path.stat().st_mode & 0o777 for path in (file, file.parent)]
        assert modes == [0o600, 0o700]

        with browser.new_context() as profile:
            page = profile.new_page()
            page.goto(address)
            page.wait_for_url(re.compile(r"127\.0\.0\.1:\d+/[0-9a-f]{32}/$"))
            expect(page.locator("#groups-title")).to_be_visible()

        while file.parent.exists():
            time.sleep(0.05)
    finally:
        end.touch()
        process.send_signal(signal.SIGINT)
        process.wait()
        os.close(terminal)
        os.close(its_end)
