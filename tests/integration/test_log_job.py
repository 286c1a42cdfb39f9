"""Reasons that only a consumer's log has."""

import itertools
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.storage.files import Archive
from dlq.cli.command import main
from dlq.engine import Engine
from dlq.erase.erase import EraseRequest, erase
from dlq.explain import groups, log_search
from dlq.explain.findings import Findings, GroupFinding
from dlq.explain.logs.log_reading import LogReading
from dlq_replay.rules.failures import Failure
from dlq_replay.wire.context import FailureError
from tests.integration.spark_world import analyzed, archive_of, counts_of, parked
from tests.support.builders import NOW, context, message

SENT = str(NOW * 1000)
LINES = (
    (
        "s-1",
        (
            "ERROR failed last-0002\n"
            "com.shop.NoVatException: no VAT for anna@example.com\n\tat com.A.b(A)"
        ),
    ),
    ("s-2", "INFO order ORD-00004"),
    ("s-2", "ERROR failed ORD-00004 com.shop.NoVatException: no VAT for bob@example.com"),
    ("s-2", "ERROR failed ORD-00006"),
)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    letters = []
    for n in (2, 4, 6):
        body = json.dumps({"order": f"ORD-0000{n}", "customer": "CUST-0001"})
        too_old = context(first_id=f"first-000{n}", reason="too_old", last_id=f"last-000{n}")
        letters.append(message(f"m-{n}", body, too_old, SentTimestamp=SENT))
    return archive_of(tmp_path / "archive", [*letters, parked(1, SentTimestamp=SENT)])


def group_without_vat(findings: Findings) -> GroupFinding:
    """The group of the error that the log has."""
    error = "com.shop.NoVatException"
    [group] = [group for group in findings.groups if group.title.startswith(error)]
    return group


@pytest.fixture
def log(tmp_path: Path) -> str:
    events = []
    for place, (stream, line) in enumerate(LINES):
        timestamp = NOW * 1000 - 900 + place
        events.append({"logStreamName": stream, "timestamp": timestamp, "message": line})
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return str(path)


@pytest.mark.both_engines
def test_a_group_is_known_by_the_error_of_the_log_and_stays_so(
    engine: Engine,
    archive: Archive,
    log: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = {group.title: group.count for group in analyzed(engine, archive).groups}
    assert before == {
        "too_old: JSON {customer:string, order:string}": 3,
        "TimeoutError: order <n> after <n>": 1,
    }

    findings = analyzed(engine, archive, logs=(log,))

    assert findings.logs == "2 of 3 messages have an error in the logs, 1 by id, 1 by value"
    group = group_without_vat(findings)
    assert (group.title, group.count) == ("com.shop.NoVatException: no VAT for ***", 2)
    logged = {sample.message_id: sample.logged for sample in group.samples}
    assert logged["m-2"] == f"found by id in {log}, s-1, 2023-11-14 22:13:19 UTC\ncom.A.b(A)"
    page = (Path(findings.plan_path).parent / "report.html").read_text()
    assert "found by value in" in page
    assert "anna@" not in page

    again = analyzed(engine, archive)

    assert counts_of(again) == counts_of(findings)
    assert main(["show", "m-2", "--archive", archive.root]) == 0
    printed = capsys.readouterr().out
    assert "error type     com.shop.NoVatException" in printed
    assert "error message  no VAT for ***" in printed
    assert "found by id" in printed


@pytest.mark.parametrize(
    ("first_id", "note"),
    [
        ("another", "1 of 3 messages have an error in the logs, 1 by id"),
        ("first-0004", "2 of 3 messages have an error in the logs, 1 by id, 1 by value"),
    ],
    ids=["of another dead letter", "of a copy"],
)
@pytest.mark.both_engines
def test_a_value_that_an_explained_dead_letter_has_too_counts_as_nothing(
    engine: Engine, archive: Archive, log: str, first_id: str, note: str
) -> None:
    explained = context(first_id=first_id, error=FailureError("TimeoutError", "too slow"))
    other = message("m-8", json.dumps({"of": "ORD-00004"}), explained, SentTimestamp=SENT)
    archive_of(Path(archive.root), [other], "20231121T041502Z-ab12cd")

    assert analyzed(engine, archive, logs=(log,)).logs == note


def test_of_too_many_messages_the_newest_are_searched_for(
    engine: Engine, archive: Archive, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "MOST_LETTERS", 2)
    # Each is a part of its own.
    monkeypatch.setattr(groups, "_MESSAGES_AT_ONCE", 1)
    old = context(first_id="first-0009", reason="too_old", last_id="last-0009")
    letter = message("m-0", "{}", old, SentTimestamp=str(NOW * 1000 - 1))
    archive_of(Path(archive.root), [letter], "20231121T041502Z-ab12cd")

    # Of equally new ones those with the least ids: m-2 and m-4, but not m-6.
    assert analyzed(engine, archive, logs=(log,)).logs == (
        "2 of 2 messages have an error in the logs, 1 by id, 1 by value; "
        "2 older ones were not searched for"
    )


@pytest.mark.both_engines
def test_beyond_the_limit_only_times_of_the_newest_messages_are_read(
    engine: Engine, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class _Log:
        """Has an error just now, and any number of pages without events before."""

        def get_paginator(self, _: str) -> Any:
            return self

        def paginate(self, **request: Any) -> Iterator[Any]:
            asked.append((request["startTime"] - NOW * 1000, request["endTime"] - NOW * 1000))
            if len(asked) == 1:
                yield from itertools.repeat({"nextToken": "more"}, 20)
            event = {"logStreamName": "s", "timestamp": NOW * 1000, "message": LINES[0][1]}
            yield {"events": [event]}

    clock = itertools.count(step=60)
    reading = partial(LogReading, sleep=lambda _: None, clock=lambda: next(clock))
    monkeypatch.setattr(log_search, "LogReading", reading)
    monkeypatch.setattr(log_search, "aws_client", lambda *_: _Log())
    monkeypatch.setattr(log_search, "reads_backwards", lambda _: False)

    findings = analyzed(engine, archive, logs=("arn:aws:logs:here:1:log-group:/shop/orders:*",))

    assert findings.logs == (
        "1 of 3 messages have an error in the logs, 1 by id; --logs-limit: read until 2023-11-14 "
        "20:13 UTC, beyond that only around the newest 200 messages of each group"
    )
    assert asked[1:] == [(-3_600_000, 1)]
    samples = [sample for group in findings.groups for sample in group.samples]
    logged = {sample.message_id: sample.logged for sample in samples}
    assert logged["m-2"].startswith("found by id in /shop/orders, s, 2023")
    assert "#logsV2:log-groups/log-group/$252Fshop$252Forders/log-events/s" in logged["m-2"]


def test_a_group_shows_where_the_code_of_consumers_failed(
    engine: Engine,
    archive: Archive,
    log: str,
    dynamodb: Any,
    failure_table: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamodb.meta.endpoint_url)
    frames = "/var/task/tax.py:17 in rate\n/var/task/app.py:3 in handle"
    failure = Failure("last-0004", "com.shop.NoVatException", frames=frames)
    dynamodb.put_item(TableName=failure_table, Item=failure.to_item())
    findings = analyzed(engine, archive, logs=(log,))
    group = group_without_vat(findings)
    table = ["--archive", archive.root, "--failure-table", failure_table]

    assert main(["show", group.group_id, *table]) == 0
    printed = capsys.readouterr().out
    assert f"{group.group_id}: 2 places in the code of consumers" in printed
    assert "  com.A.b(A) (1 message)\n" in printed
    assert "  /var/task/tax.py:17 in rate (1 message)\n" in printed
    assert main(["show", "m-4", *table]) == 0
    assert (
        "frames         /var/task/tax.py:17 in rate\n    /var/task/app" in capsys.readouterr().out
    )


def test_an_erase_removes_what_is_kept_of_a_log(engine: Engine, archive: Archive, log: str) -> None:
    analyzed(engine, archive, logs=(log,))
    reasons = list(Path(archive.root).rglob("reasons/*.parquet"))
    assert any(b"NoVat" in path.read_bytes() for path in reasons)

    erase(None, archive, EraseRequest(["m-2"], execute=True, reason="asked to"))

    paths = [path for path in Path(archive.root).rglob("*") if path.is_file()]
    assert not [path for path in paths if path.parent.name == "reasons"]
    assert not [path for path in paths if b"NoVat" in path.read_bytes()]
    assert {group.title for group in analyzed(engine, archive).groups} == {
        "too_old: JSON {customer:string, order:string}",
        "TimeoutError: order <n> after <n>",
    }
