"""The documents' site in a browser: people paste messages into its search; its colours."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from scripts.messages import GAP, messages
from tests.support.built_site import build_site
from tests.support.served import served


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The first page of the site. In the end it has asked for nothing from elsewhere."""
    folder = tmp_path_factory.mktemp("site")
    build_site(folder)

    requests: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(folder)))
    with served(server), browser.new_page() as page:
        address = f"http://127.0.0.1:{server.server_port}/"
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{address}index.html")
        yield page
    assert [url for url in requests if not url.startswith(address)] == []


def first_section(page: Page, words: str) -> str:
    """Return the heading of the section that the search shows first."""
    field = page.locator("[data-md-component=search-query]")
    results = page.locator("[data-md-component=search-result]")
    field.click()
    field.fill("")
    field.press("Backspace")
    expect(results.locator("h2")).to_have_count(0)

    field.fill(words)
    field.press("End")
    return first_heading(page)


def first_heading(page: Page) -> str:
    results = page.locator("[data-md-component=search-result]")
    heading = results.locator("h2").first
    heading.wait_for(state="attached", timeout=20_000)
    return heading.text_content() or ""


@pytest.mark.parametrize(
    "words",
    [
        "has no archive, because it was deployed",
        "its host names no Region",
        "the AWS configuration has no such profile",
        "each look counts as a receive",
        "no destination: give --main-queue-url",
        "is being carried out by",
        "somebody has decided something else",
        "holds no messages; collect some first",
        "this store ignores If-None-Match",
        "Spark did not start",
    ],
)
def test_a_message_with_its_values_is_found_first(page: Page, words: str) -> None:
    [message] = [message for message in messages() if words in message.text]
    printed = f"dlq: {message.text.replace(GAP, 'zebra-7f3')}"

    assert first_section(page, printed) == message.text


@pytest.mark.parametrize(
    ("question", "heading"),
    [
        ("safe to run twice", "Is it safe to run twice?"),
        ("ParkedExpiryAlarm", "ParkedExpiryAlarm"),
        ("Slack", "Slack"),
        ("300 queues", "I have 300 queues"),
        ("order id", "I have an order id or a message id. Where is the message?"),
        (
            "10,000 messages in the DLQ",
            "Incident: the consumer is down, 10,000 messages in the DLQ, nothing installed",
        ),
        ('ALARM: "orders-ParkedGrowingAlarm-1A2B" in EU (Ireland)', "ParkedGrowingAlarm"),
    ],
)
def test_what_people_look_for_is_found_first(page: Page, question: str, heading: str) -> None:
    assert first_section(page, question) == heading


@pytest.mark.parametrize(
    ("printed", "heading"),
    [
        (
            "dlq: halted: g-53cb1ad25b: more failed again than allowed, and the rest was not sent",
            "halted: …: more failed again than allowed, and the rest was not sent",
        ),
        ("SQS still counts about 12 in flight", "SQS still counts about … in flight"),
        ("waiting for the breaker", "waiting for the breaker"),
        ("returns of a redrive are not counted", "returns of a redrive are not counted"),
    ],
)
def test_a_line_of_a_run_or_a_log_is_found_first(page: Page, printed: str, heading: str) -> None:
    assert first_section(page, printed) == heading


@pytest.mark.parametrize(
    ("typed", "searched"),
    [
        ("a redrive: is it safe to run twice", "  redrive  is it safe to run twice"),
        ("10,000 messages", "10,000 messages"),
    ],
)
def test_words_can_be_typed_into_the_search(page: Page, typed: str, searched: str) -> None:
    field = page.locator("[data-md-component=search-query]")
    field.click()
    field.fill("")

    field.press_sequentially(typed, delay=20)

    expect(field).to_have_value(searched)
    assert first_heading(page)


PAGES = ["index", "first-week", "troubleshooting", "reference", "growth", "real-account"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_pages_are_accessible(page: Page, name: str, scheme: Literal["light", "dark"]) -> None:
    site = page.url.rpartition("/")[0]
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{site}/{name}.html")

    # docs/site.js completes what the theme leaves out, once it is there.
    expect(page.locator(".md-search")).to_have_attribute("aria-label", "Search")
    results = Axe().run(page)

    assert results.violations_count == 0, results.generate_report()
