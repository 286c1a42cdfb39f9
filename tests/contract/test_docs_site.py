"""The site of the documents: what it loads, what its search finds, where its links lead."""

import html
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dlq.cli.command import main
from scripts import messages
from scripts.docs_site import ELSEWHERE, with_links_of_site
from tests.contract.cloudformation import Stack
from tests.contract.template import ALL_OF_A_FLEET, ALL_PARTS, ROOT, TEMPLATE
from tests.support.built_site import build_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build_site(folder)
    return folder


@pytest.fixture(scope="module")
def searched(site: Path) -> str:
    """All that the search of the site looks through, as a reader sees it."""
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    texts = [f"{section['title']} {section['text']}" for section in index["docs"]]
    return html.unescape(re.sub(r"<[^>]+>", "", "\n".join(texts)))


class Loads(HTMLParser):
    """Collects the addresses that a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = ("href",) if tag == "link" else ("src", "srcset", "data", "poster")
        self.addresses += [value for name, value in attrs if name in names and value]


def loads_of(page: Path) -> Iterator[str]:
    text = page.read_text("utf-8")
    if page.suffix == ".html":
        parser = Loads()
        parser.feed(text)
        yield from parser.addresses
    else:
        yield from re.findall(r"url\(['\"]?([^'\")]+)|@import ['\"]([^'\"]+)", text)


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    foreign = []
    for page in pages:
        for address in loads_of(page):
            if re.match(r"[a-z]+://|//", str(address)):
                foreign.append(f"{page.relative_to(site)}: {address}")

    assert len(pages) > 40
    assert foreign == []


def test_no_page_needs_what_the_theme_would_load_while_it_is_read(site: Path) -> None:
    """Diagrams of Mermaid, and the numbers of a repository on GitHub."""
    for page in site.rglob("*.html"):
        assert not re.search(r'class="mermaid|data-md-component="source"', page.read_text("utf-8"))


MESSAGES = messages.messages()


def test_each_message_of_a_command_is_found_by_the_search(searched: str) -> None:
    missing = [message for message in MESSAGES if message.longest_part not in searched]

    assert len(MESSAGES) > 150
    assert missing == []


def test_what_the_documents_say_of_a_message_stands_below_it() -> None:
    page = messages.page()
    section = page.partition("### `message …: not in the … of archive")[2].partition("\n### ")[0]
    line = page.partition("### `halted: …: more failed again than allowed")[2].partition("\n### ")[
        0
    ]

    assert "\nFix: " in section
    assert "](redrive.md#" in line


def test_a_saying_is_about_the_message_that_has_its_words_with_any_values() -> None:
    saying = messages.Saying("look.md", "this machine reads 10,000 of …", "Fix: ask for less.")

    assert saying.is_of("plan …: by default this machine reads … of all; see --engine")
    assert not saying.is_of("this machine reads …")


@pytest.mark.parametrize(
    "command",
    [
        "look",
        "find ''",
        "show g-1 --limit 3",
        "decide g-1",
        "doctor --tag",
        "redrive --execute",
        "collect --only drain",
        "status --archive s3://",
        "look queue --open",
    ],
)
def test_the_words_of_a_mistake_are_found_by_the_search(
    command: str,
    searched: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As people copy them: what the command prints, not what the code has."""
    monkeypatch.setenv("DLQ_ARCHIVE", str(tmp_path))
    arguments = [argument.strip("'") for argument in command.split()]

    assert main(arguments) == 2
    error = " ".join(capsys.readouterr().err.split())
    longest_parts = [message.longest_part for message in MESSAGES if message.longest_part in error]
    assert any(part in searched for part in longest_parts), error


@pytest.mark.parametrize("parts", [ALL_PARTS, ALL_OF_A_FLEET], ids=["one queue", "fleet"])
def test_each_alarm_is_found_by_the_search(parts: dict[str, str], searched: str) -> None:
    alarms = Stack.of(TEMPLATE, parts).of_type("AWS::CloudWatch::Alarm")

    assert len(alarms) > 8
    assert [name for name in alarms if name not in searched] == []


def test_the_notice_in_chat_is_as_the_function_publishes_it() -> None:
    notices = (ROOT / "tests" / "golden" / "follow_ups.txt").read_text("utf-8").splitlines()
    page = (ROOT / "docs" / "chat.md").read_text("utf-8")
    quoted = [line.removeprefix("> ") for line in re.findall(r"^> .+$", page, re.MULTILINE)]
    lines = [line for line in quoted if not re.match(r"```|\*\*|  first seen|Groups", line)]

    assert len(lines) > 5
    assert [line for line in lines if line not in notices] == []


def test_a_message_is_read_with_gaps_for_its_values() -> None:
    source = """
HINT = "look at it"
raise InputError(f"plan {name!r}: " f"is gone; {HINT}")
raise ArchiveError(broken.text)
raise ValueError("nobody reads this")
"""

    assert list(messages.texts_of(source)) == ["plan …: is gone; look at it", "…"]


@pytest.mark.parametrize(
    ("page", "text", "on_site"),
    [
        ("index.md", "[look](docs/look.md#rights)", "[look](look.md#rights)"),
        ("look.md", "[first](../README.md)", "[first](index.md)"),
        ("decisions/0005-ramp.md", "[it](../redrive.md)", "[it](../redrive.md)"),
        (
            "look.md",
            "[a policy](../templates/a.json)",
            "[a policy](HOME/blob/main/templates/a.json)",
        ),
        ("look.md", "[here](#rights)", "[here](#rights)"),
        ("look.md", "[AWS](https://aws.amazon.com)", "[AWS](https://aws.amazon.com)"),
        ("index.md", '<img src="docs/images/a.png">', '<img src="images/a.png">'),
        ("faq.md", "[erase.md](erase.md)", "[Erase a person's data](erase.md)"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site_that_has_the_file(
    page: str, text: str, on_site: str
) -> None:
    assert with_links_of_site(text, page, "HOME") == on_site


def test_a_link_out_of_the_site_is_text_while_the_project_has_no_home_page() -> None:
    text = "See [the policy](../templates/a.json) and [b.json](../templates/b.json)."

    on_site = with_links_of_site(text, "look.md", None)

    assert on_site == "See the policy (`templates/a.json`) and b.json."


def test_pages_from_outside_the_folder_of_documents_are_there() -> None:
    assert all((ROOT / path).exists() for path in ELSEWHERE)
    # On GitHub the folder has no such page, or the site would have two.
    assert not any((ROOT / "docs" / page).exists() for page in ELSEWHERE.values())


def test_the_architecture_names_files_and_folders_that_there_are() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    names = {name.strip("/") for name in re.findall(r"`([\w/]+(?:\.py|\.yaml|/))`", text)}
    folders = ("dlq", "spark_reprocess", "functions", "layers")
    there = {path.as_posix() for folder in folders for path in (ROOT / folder).rglob("*")}

    assert len(names) > 10
    gone = [name for name in names if not any(path.endswith(f"/{name}") for path in there)]
    assert [name for name in gone if not (ROOT / name).exists()] == []
