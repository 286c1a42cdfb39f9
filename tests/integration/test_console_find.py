"""The console's search: the messages that have a value."""

from pathlib import Path

import pytest

from dlq.archive.storage.files import Archive
from dlq.explain.signature.mask import compile_masks
from tests.support.console_world import (
    BASE,
    Browser,
    a_dead_letter,
    archive_with,
    console_of,
    hostile_archive,
    opened,
)
from tests.support.findings_builder import HOSTILE_TEXTS


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return archive_with(tmp_path, [a_dead_letter(number) for number in range(5)])


def test_message_with_a_value_is_named_with_its_state_and_group(archive: Archive) -> None:
    page = opened(console_of(archive)).get("/find?value=3").text

    assert "1 message of 5 has" in page
    assert f'<a href="{BASE}/messages/m-0003">' in page
    assert "body.order.id" in page
    assert "pending" in page
    assert "KeyError: &#39;vat&#39;" in page


def test_what_is_nowhere_is_said(archive: Archive) -> None:
    page = opened(console_of(archive)).get("/find?value=nowhere").text

    assert "No archived message has it" in page


def test_every_page_has_the_search(archive: Archive) -> None:
    browser = opened(console_of(archive))

    for path in ("/", "/redrive", "/jobs", "/find"):
        assert 'id="search-all"' in browser.get(path).text


def test_pattern_that_is_none_is_a_sentence(archive: Archive) -> None:
    answer = opened(console_of(archive)).get("/find?value=(&regex=yes")

    assert answer.status_code == 422
    assert "is no regular expression of RE2" in answer.text


def test_errors_are_masked(tmp_path: Path) -> None:
    error = {"type": "E", "message": "no account ann@example.com"}
    archive = archive_with(tmp_path, [a_dead_letter(1, error=error)])
    console = console_of(archive, masks=compile_masks(()))

    assert "ann@example.com" not in opened(console).get("/find?value=1").text


def test_hostile_values_stay_texts(tmp_path: Path) -> None:
    browser: Browser = opened(console_of(hostile_archive(tmp_path)))

    for value in HOSTILE_TEXTS:
        sent = value.encode("utf-8", "replace").decode()
        page = browser.get("/find", params={"value": sent}).text
        assert "<script>window.hostile" not in page
        assert "<svg onload" not in page


def test_queue_is_shown_where_the_messages_are_of_several(tmp_path: Path, archive: Archive) -> None:
    messages = [a_dead_letter(number, src=f"queue-{number}") for number in range(3)]
    several = archive_with(tmp_path / "several", messages)

    of_one = opened(console_of(archive)).get("/find?value=acme").text
    of_several = opened(console_of(several))

    assert '<th scope="col">queue</th>' not in of_one
    assert "<td>queue-1</td>" in of_several.get("/find?value=acme").text
    assert "<dt>Came from</dt><dd>queue-1</dd>" in of_several.get("/messages/m-0001").text
