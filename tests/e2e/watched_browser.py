"""A headless Chromium that writes down everything a page should not do."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, Route, sync_playwright

from dlq.explain.findings import Findings

Write = Callable[[Findings], Path]
"""Writes a report's file and says where it is."""

_NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)


_SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@contextmanager
def launched() -> Iterator[Browser]:
    """Start the machine's Chromium; where there is none, skip."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("no Chromium here: run scripts/ensure-chromium.sh")
    with sync_playwright() as playwright:
        # Each name below .test is this machine, as a rebound name of an attacker is.
        rebound = "--host-resolver-rules=MAP *.test 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=path, args=[rebound])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """An open page and what it did that nobody asked for.

    Attributes:
        requests: addresses of elsewhere that it asked for.
        messages: what its console said, errors and policy violations included.
        dialogs: what it asked the reader.
    """

    page: Page
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def assert_quiet(self) -> None:
        """Nothing ran, nothing was asked for, nothing was left behind."""
        assert (self.requests, self.messages, self.dialogs) == ([], [], [])
        assert self.page.evaluate(_GLOBALS_BESIDE_A_BLANK_PAGE) == []


_TWO_FRAMES = """() => new Promise(
    (go) => requestAnimationFrame(() => requestAnimationFrame(go))
)"""


def assert_fits(page: Page, width: int) -> None:
    """The page does not scroll sideways at this width."""
    page.set_viewport_size({"width": width, "height": 900})
    # A chart takes its new width in the frame after that of the page.
    page.evaluate(_TWO_FRAMES)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, (page.url, width)


def assert_fits_and_is_accessible(page: Page, widths: Iterable[int]) -> None:
    """At each width the page fits, and axe finds nothing in either theme."""
    axe = Axe()
    for width in widths:
        assert_fits(page, width)
        for scheme in _SCHEMES:
            page.emulate_media(color_scheme=scheme)
            results = axe.run(page)
            assert results.violations_count == 0, (
                page.url,
                width,
                scheme,
                results.generate_report(),
            )
            axe = Axe("")  # The page has axe's script by now.


# The names that a page of its own origin has at birth are the browser's.
_GLOBALS_BESIDE_A_BLANK_PAGE = """() => {
    const frame = document.createElement("iframe");
    document.body.append(frame);
    const born = new Set(Object.getOwnPropertyNames(frame.contentWindow));
    frame.remove();
    return Object.getOwnPropertyNames(window).filter((name) => !born.has(name) && isNaN(name));
}"""


@contextmanager
def opened(browser: Browser, path: Path, fragment: str = "", **context: Any) -> Iterator[Watched]:
    """Open a file as a reader would, in a profile of its own; nothing else is let through."""
    with browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context}) as profile:
        page = profile.new_page()
        watched = Watched(page)

        def let_through_the_file(route: Route) -> None:
            if route.request.url.split("#")[0] == path.as_uri():
                route.continue_()
            else:
                watched.requests.append(route.request.url)
                route.abort()

        profile.route("**/*", let_through_the_file)
        page.goto(f"{path.as_uri()}{fragment}")
        yield watched
