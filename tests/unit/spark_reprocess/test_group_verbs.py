"""The verbs that say something about a group: what they write, answer and refuse."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.group_events import read_memory, with_notes, write_seen
from spark_reprocess.archive.local import LocalArchive
from spark_reprocess.command_line.cli import main
from spark_reprocess.errors import ArchiveError
from spark_reprocess.triage.status import FailedOn, Found, GroupMemory, outcome

GROUP, OTHER = "g-0123456789", "g-abcdefabcd"
PLAN = f"""\
version: 1
plan_id: 20261101T000000Z-aaaaaa
archive: somewhere
snapshot:
  drain_ids: [d-1]
  messages: 1
  sha256: {"a" * 64}
groups:
  - id: {OTHER}
    title: TimeoutError
    count: 1
    action: leave
"""


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An archive that remembers one group, and has a plan with another one."""
    archive = open_archive(str(tmp_path / "archive"))
    now = datetime(2026, 11, 1, tzinfo=UTC)
    group = Found(GROUP, 1, now, now, (FailedOn("7", 1, now), FailedOn("12", 1, now)))
    write_seen(archive, "r-1", now, outcome(GroupMemory(), "r-1", now, [group]).memory)
    archive.write("reports/20261101T000000Z-aaaaaa/plan.yaml", PLAN.encode())
    return archive


def run(archive: Archive, verb: str, *words: str) -> int:
    return main([verb, "--archive", archive.root, *words])


def answer(
    capsys: pytest.CaptureFixture[str], archive: Archive, verb: str, *words: str
) -> dict[str, Any]:
    assert run(archive, verb, *words, "--json") == 0
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def test_what_is_said_is_remembered_and_answered(
    archive: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, archive, "note", GROUP, "address service", "--owner", "ada", "--ticket", "T-1")
    answer(capsys, archive, "resolve", GROUP, "--in-version", "13")
    last = answer(capsys, archive, "snooze", GROUP, "--until", "2999-12-01")

    memory = read_memory(archive)
    state = memory.state(GROUP)
    assert last["event_id"] == memory.events[GROUP][-1].event_id
    assert (last["owner"], last["ticket"]) == (state.owner, state.ticket) == ("ada", "T-1")
    assert last["resolved_in"] == state.resolved_in == "13"
    assert last["snoozed_until"] == "2999-12-01T00:00:00+00:00"
    assert state.snoozed_until == datetime(2999, 12, 1, tzinfo=UTC)
    assert with_notes(archive, memory, [GROUP]) == {GROUP: "address service"}


def test_resolve_says_if_messages_failed_on_that_version_already(
    archive: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(capsys, archive, "resolve", GROUP, "--in-version", "9")["failed_since"] == ["12"]
    assert run(archive, "resolve", GROUP, "--in-version", "9") == 0
    assert "failed on 12 already" in capsys.readouterr().out
    assert answer(capsys, archive, "resolve", GROUP, "--in-version", "13")["failed_since"] == []


def test_a_snooze_has_a_length_and_can_be_ended(archive: Archive) -> None:
    assert run(archive, "snooze", GROUP, "--for", "3d") == 0
    until = read_memory(archive).state(GROUP).snoozed_until
    assert until is not None
    assert timedelta(days=2.9) < until - datetime.now(UTC) < timedelta(days=3.1)

    assert run(archive, "snooze", GROUP, "--end") == 0
    assert read_memory(archive).state(GROUP).snoozed_until is None


def test_a_group_of_the_newest_plan_is_known_without_any_analysis_that_remembers(
    archive: Archive,
) -> None:
    assert run(archive, "note", OTHER, "why") == 0
    assert with_notes(archive, read_memory(archive), [OTHER]) == {OTHER: "why"}


def test_a_decision_is_remembered_with_the_group(
    archive: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, archive, "decide", OTHER, "discard", "--note", "nobody wants them")

    memory = read_memory(archive)
    (event,) = memory.events[OTHER]
    assert (event.action, event.plan_id) == ("discard", "20261101T000000Z-aaaaaa")
    assert with_notes(archive, memory, [OTHER]) == {OTHER: "nobody wants them"}


@pytest.mark.parametrize(
    ("verb", "words", "rule"),
    [
        ("note", ["g-1111111111", "why"], "no analysis lists group"),
        ("note", ["seen", "why"], "is no id of a group"),
        ("note", ["g-../../../x", "why"], "is no id of a group"),
        ("note", [GROUP], "say something"),
        ("note", [GROUP, "x" * 2001], "at most 2,000"),
        ("note", [GROUP, "--owner", "x" * 201], "at most 200"),
        ("resolve", [GROUP], "--in-version"),
        ("resolve", [GROUP, "--in-version", "$LATEST"], "its code changes"),
        ("resolve", [GROUP, "--in-version", ""], "printable"),
        ("resolve", [GROUP, "--in-version", "x" * 65], "1 to 64"),
        ("snooze", [GROUP], "required"),
        ("snooze", [GROUP, "--until", "2001-01-01"], "must be in the future"),
        ("snooze", [GROUP, "--until", "tomorrow"], "must be a date"),
        ("snooze", [GROUP, "--for", "3"], "length of time"),
        ("snooze", [GROUP, "--for", "999999w"], "year 9999"),
        ("snooze", [GROUP, "--for", "0d"], "must be in the future"),
        ("snooze", [GROUP, "--for", "3d", "--end"], "not allowed with"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_written(
    archive: Archive,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    words: list[str],
    rule: str,
) -> None:
    before = archive.list("groups")

    assert run(archive, verb, *words) == 2
    assert rule in capsys.readouterr().err
    assert archive.list("groups") == before


def test_a_decision_whose_event_is_not_written_is_repeated_by_the_same_command(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(LocalArchive, "create", _refuse)
        assert run(archive, "decide", OTHER, "discard") == 2
    plan = "reports/20261101T000000Z-aaaaaa/plan.yaml"
    assert b"action: discard" in (archive.read(plan) or b"")
    assert OTHER not in read_memory(archive).events

    assert run(archive, "decide", OTHER, "discard") == 0
    assert read_memory(archive).state(OTHER).action == "discard"


def _refuse(self: LocalArchive, path: str, content: bytes) -> bool:
    raise ArchiveError(f"archive {self.root}: cannot write {path}: disk full")


def test_a_decision_that_somebody_else_overtook_is_not_remembered(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalArchive, "replace", lambda *_: False)

    assert run(archive, "decide", OTHER, "discard") == 2
    assert OTHER not in read_memory(archive).events
