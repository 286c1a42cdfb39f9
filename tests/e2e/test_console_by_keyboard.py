"""A morning with the console by keyboard alone: nothing is clicked, no script moves the focus."""

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.test_console_in_browser import desk
from tests.support.console_world import plan_of
from tests.support.story_world import open_shop

MOST_STOPS = 25
"""Stops of the Tab key that a person puts up with."""

_FOCUS = """() => {
    const element = document.activeElement;
    const name = element.id || element.innerText || element.getAttribute("aria-label") || "";
    const style = getComputedStyle(element);
    return {
        tag: element.tagName,
        name: name.trim().slice(0, 40),
        isMarked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    };
}"""


@dataclass
class Keyboard:
    """The keys of a page, and what has the focus."""

    page: Page

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)

    def assert_focus_is_visible(self) -> None:
        """A person sees where they are. ``main`` is where reading begins, and no stop of Tab."""
        # What has the focus may still be on its way into the window.
        expect(self.page.locator("html:has(:focus)")).to_have_count(1)
        if self.page.locator("main:focus").count() == 0:
            expect(self.page.locator(":focus")).to_be_in_viewport()
            focus = self.page.evaluate(_FOCUS)
            assert focus["isMarked"], (self.page.url, focus)

    def go_to(self, target: Locator, key: str = "Tab") -> int:
        """Press the key until *target* has the focus; return how often it was pressed."""
        stops: list[str] = []
        while not target.evaluate("element => element === document.activeElement"):
            self.press(key)
            self.assert_focus_is_visible()
            focus = self.page.evaluate(_FOCUS)
            stops.append(f"{focus['tag']} {focus['name']}")
            assert len(stops) <= MOST_STOPS, (self.page.url, stops)
        return len(stops)

    def open(self, key: str = "Enter") -> None:
        """Press a key that leads to another page; the focus is on it then, and not lost."""
        before = self.page.url
        self.press(key)
        self.page.wait_for_url(lambda url: url != before)
        self.page.wait_for_load_state()
        self.assert_focus_is_visible()


def test_the_story_by_keyboard_alone(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_shop(tmp_path, monkeypatch) as shop, desk(browser, shop.console) as it:
        keys = Keyboard(it.page)

        _find_the_group_of_an_order(keys)
        _redrive_it(keys)
        # A minute and a little later.
        shop.shift = timedelta(seconds=90)
        _see_that_it_worked(keys)

        _edit_the_second_group(keys)
        edit = plan_of(shop.archive).groups[1].edit
        assert edit is not None

        keys.press("j")
        keys.open()
        for name, action in (("Discard", "discard"), ("Leave", "leave")):
            _decide(keys, name)
            expect(it.page.get_by_role("status").first).to_contain_text(f"Decided: {action}")
            assert plan_of(shop.archive).groups[2].action == action

        _write_a_note(keys)
        it.assert_quiet()


def _find_the_group_of_an_order(keys: Keyboard) -> None:
    page = keys.page
    keys.press("/")
    keys.type("4703")
    keys.open()

    keys.press("j")
    expect(page.get_by_role("link", name="m-4703")).to_be_focused()
    keys.press("Tab")
    keys.open()

    expect(page.locator("h1")).to_have_text("KeyError: 'vat'")
    expect(page.locator(".differences")).to_contain_text("HR")


def _redrive_it(keys: Keyboard) -> None:
    page = keys.page
    assert keys.go_to(page.get_by_role("button", name="Redrive", exact=True)) <= 3
    keys.open()

    # The dry run: the page fills itself while the focus stays.
    why = page.get_by_label("Why")
    expect(why).to_be_visible()
    expect(page.locator("#job-state")).to_contain_text("18 messages would go to")
    expect(page).to_have_title(re.compile(r"^dlq redrive: done · orders"))
    assert keys.go_to(why) <= 8
    keys.type("the tax table has HR")
    keys.open()

    expect(page.locator(".step-row [aria-current]")).to_be_visible()
    assert keys.go_to(page.get_by_role("button", name="Stop")) <= 5
    expect(page.locator("#job-state")).to_contain_text("18 of 18 messages sent")
    expect(page.locator(".badge")).to_have_text("done")
    # The button is gone, and has not taken the focus along.
    expect(page.locator("#job-state")).to_be_focused()
    keys.assert_focus_is_visible()


def _see_that_it_worked(keys: Keyboard) -> None:
    outcome = keys.page.locator(".works")
    expect(outcome).to_have_text("18 of 18 did not fail again; a failure takes 2 s")
    keys.go_to(_link_to_groups(keys.page), "Shift+Tab")
    keys.open()


def _edit_the_second_group(keys: Keyboard) -> None:
    """Edit it, and go back to the list, where its row has the focus then."""
    page = keys.page
    row = page.locator("#list tbody a").nth(1)
    keys.press("j", "j", "j", "k")
    expect(row).to_be_focused()
    keys.open()

    menu = page.locator("details.menu")
    keys.go_to(menu.locator("summary"))
    keys.press("Enter")
    expect(menu).to_have_attribute("open", "")
    keys.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    expect(menu.locator("summary")).to_be_focused()
    keys.press("ArrowDown")
    keys.go_to(menu.get_by_role("link", name="Edit the messages"), "ArrowDown")
    keys.open()

    keys.go_to(page.locator(".body-fields button", has_text="1011"))
    keys.press("Enter")
    expect(page.get_by_label("JSON Patch")).to_be_focused()
    keys.type('"10115"')
    expect(page.locator(".patch ins").first).to_contain_text('"10115"')
    keys.go_to(page.get_by_role("button", name="Save into the plan"))
    keys.open()
    expect(page.get_by_role("status").first).to_contain_text("The edit is in the plan")

    keys.go_to(_link_to_groups(page))
    keys.open()
    expect(row).to_be_focused()


def _decide(keys: Keyboard, name: str) -> None:
    menu = keys.page.locator("details.menu")
    keys.go_to(menu.locator("summary"))
    keys.press("ArrowDown")
    keys.go_to(menu.get_by_role("button", name=name), "ArrowDown")
    keys.open()


def _write_a_note(keys: Keyboard) -> None:
    page = keys.page
    menu = page.locator("details.menu")
    keys.go_to(menu.locator("summary"))
    keys.press("ArrowDown")
    keys.go_to(menu.get_by_role("link", name="Write a note"), "ArrowDown")
    keys.press("Enter")
    expect(page.get_by_label("Note")).to_be_focused()
    # The menu does not hide what has the focus.
    expect(menu).not_to_have_attribute("open", "")
    keys.type("the shop asked to wait")
    keys.go_to(page.get_by_role("button", name="Save note"))
    keys.open()
    expect(page.locator(".history")).to_contain_text("the shop asked to wait")


def _link_to_groups(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Where you are").get_by_role("link").first
