"""What an archive on S3 remembers of groups, and how many calls it takes to read it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from spark_reprocess.archive.files import open_archive
from spark_reprocess.archive.group_records import add_statement, read_memory, read_notes, write_seen
from spark_reprocess.archive.s3 import S3Archive
from spark_reprocess.command_line.cli import main
from spark_reprocess.triage import Found, Statement, Status, outcome
from tests.s3_server import S3Server, serve_s3

START = datetime(2026, 11, 1, tzinfo=UTC)
GROUPS = [f"g-{number:010x}" for number in range(1000)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with serve_s3() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        yield server


def test_a_thousand_groups_take_few_calls(
    server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    root = f"s3://{server.make_bucket('groups')}/archive"
    archive = open_archive(root)
    for number in range(12):
        now = START + timedelta(days=number)
        if number:
            add_statement(archive, GROUPS[number], Statement(now, "ada@desk", text="why"))
        found = [Found(one, 1, START) for one in GROUPS]
        result = outcome(read_memory(archive), f"r-{number:02}", now, found)
        write_seen(archive, f"r-{number:02}", now, result.memory)
    assert main(["decide", "--archive", root, GROUPS[0], "--resolved"]) == 0
    assert f"group {GROUPS[0]}: resolved since 20" in capsys.readouterr().out
    server.requests.clear()

    memory = read_memory(archive)
    calls = len(server.requests)
    notes = read_notes(archive, memory, GROUPS)

    # The list, the newest analysis and the statement since; then a note each.
    assert (calls, len(server.requests)) == (3, 3 + 11)
    assert (len(memory.groups), len(notes)) == (1000, 11)
    assert memory.state(GROUPS[0]).resolved_at is not None
    assert memory.groups[GROUPS[0]].status is Status.KNOWN


def archive_answering(answer: Any) -> S3Archive:
    """An archive whose S3 answers every HeadObject so."""

    def head_object(**_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    archive = S3Archive.at("s3://bucket/archive")
    archive._client = SimpleNamespace(head_object=head_object)  # type: ignore[assignment]  # noqa: SLF001
    return archive


@pytest.mark.parametrize("age", [timedelta(0), timedelta(seconds=1), timedelta(hours=23.9)])
def test_the_lifetime_of_a_file_is_what_s3_says_of_its_lifecycle_rule(age: timedelta) -> None:
    """S3 adds the days of the rule to the time of creation and rounds up to the next midnight."""
    expiration = 'expiry-date="Wed, 02 Dec 2026 00:00:00 GMT", rule-id="thirty%20days"'
    archive = archive_answering({"LastModified": START + age, "Expiration": expiration})

    assert archive.lifetime("messages/x.parquet") == timedelta(days=30)


@pytest.mark.parametrize(
    "answer",
    [
        {"LastModified": START},
        {"LastModified": START, "Expiration": "NotImplemented"},
        {"LastModified": START, "Expiration": 'expiry-date="soon"'},
        ClientError({"Error": {"Code": "403"}}, "HeadObject"),
    ],
)
def test_a_lifetime_that_s3_does_not_say_is_unknown(answer: Any) -> None:
    assert archive_answering(answer).lifetime("messages/x.parquet") is None
