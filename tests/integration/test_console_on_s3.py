"""On S3 each call takes tens of milliseconds: a page must not need more of them than it says here.

The numbers are of an archive of one drain with forty files; they do not grow with its files.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dlq.archive.messages.message_index import shown_table
from dlq.archive.storage.files import Archive, open_archive
from tests.support.console_world import a_dead_letter, archive_with, console_of, opened, plan_of
from tests.support.s3_server import S3Server, serve_s3

FILES = 40


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with serve_s3() as running:
        yield running


@pytest.fixture
def archive(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Archive:
    """An archive on S3, copied from one on disk: its plan says where it was made."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
    local = archive_with(tmp_path, [a_dead_letter(n) for n in range(200)], files=FILES)
    remote = open_archive(
        f"s3://{server.make_bucket(f'console-{tmp_path.name}'.replace('_', '-'))}/x"
    )
    for path in local.list(""):
        content = local.read(path)
        assert content is not None
        remote.write(path, content)
    shown_table.cache_clear()  # a new process has none
    return remote


def calls_of(server: S3Server, archive: Archive, path: str) -> list[str]:
    """The calls that one page takes in a new console."""
    browser = opened(console_of(archive))
    before = len(server.requests)
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    return server.requests[before:]


def opened_files(calls: list[str]) -> set[str]:
    return {call for call in calls if "part-" in call and "drain_id" in call}


PAGES = {
    # List reports, memory, ledger, erasures; read plan, summary, open set, the table's two files.
    # The open set says which result files need not be read. List runs, for those that are open.
    "/": 10,
    # List reports, ledger, erasures; read the plan, the table's manifest and part.
    "/groups/{group}/messages?q=01": 7,
    # Twice list messages and reports, read the table, and one file; list the ledger. And read the
    # table of groups, for the pattern by which errors are grouped.
    "/messages/m-0077": 13,
}


@pytest.mark.parametrize(("path", "most"), PAGES.items())
def test_a_page_takes_few_calls(server: S3Server, archive: Archive, path: str, most: int) -> None:
    group = plan_of(archive).groups[0].group_id

    calls = calls_of(server, archive, path.format(group=group))

    assert len(calls) <= most
    assert len(opened_files(calls)) <= 1


def test_a_preview_of_an_edit_opens_four(server: S3Server, archive: Archive) -> None:
    group = plan_of(archive).groups[0].group_id
    browser = opened(console_of(archive))
    patch = '[{"op": "replace", "path": "/order/zip", "value": 1}]'
    form = {"plan": plan_of(archive).plan_id, "patch": patch}
    before = len(server.requests)
    page = browser.post(f"/groups/{group}/edit/preview", form)

    assert page.text.count('class="sample"') == 20
    assert len(opened_files(server.requests[before:])) <= 4
