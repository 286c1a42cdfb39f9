"""What an archive remembers of groups: files that are created once, and how few are opened."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_reprocess.archive.group_records import (
    add_statement,
    read_memory,
    read_notes,
    read_statements,
    write_seen,
)
from spark_reprocess.archive.storage.files import Archive, open_archive
from spark_reprocess.archive.storage.local import LocalArchive
from spark_reprocess.groups.triage import Found, GroupMemory, GroupState, Statement, Status, outcome
from tests.support.ledgers import MemoryArchive

START = datetime(2026, 11, 1, tzinfo=UTC)
GROUP, OTHER = "g-0123456789", "g-abcdefabcd"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path))


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def say(archive: Archive, group_id: str, number: float, who: str = "ada", **values: Any) -> None:
    add_statement(archive, group_id, Statement(day(number), f"{who}@desk", **values))


def analyze(archive: Archive, number: float, *group_ids: str) -> GroupMemory:
    report_id, now = f"{day(number):%Y%m%dT%H%M%SZ}-aaaaaa", day(number)
    groups = [Found(one, 3, day(number - 1)) for one in group_ids]
    after = outcome(read_memory(archive), report_id, now, groups).memory
    write_seen(archive, report_id, after)
    return after


def test_an_archive_without_groups_remembers_nothing(archive: Archive) -> None:
    assert read_memory(archive) == GroupMemory()


def test_what_is_written_is_what_is_read(archive: Archive) -> None:
    say(archive, GROUP, 1, action="redrive", plan_id="p-1", is_edited=True)
    say(archive, GROUP, 2, text="why 🎉")
    say(archive, GROUP, 5, is_resolved=True)
    before = read_memory(archive)
    written = analyze(archive, 6, GROUP, OTHER)
    after = read_memory(archive)

    assert before.said == {GROUP: GroupState(3, "redrive", 2, day(5), "p-1", day(1))}
    assert after == written
    assert (after.said, after.groups[GROUP].status) == (before.said, Status.RESOLVED)
    assert read_notes(archive, after, [GROUP, OTHER]) == {GROUP: "why 🎉"}
    history = read_statements(archive, GROUP, 2)
    assert [(one.text, one.is_resolved, one.time) for one in history] == [
        (None, True, day(5)),
        ("why 🎉", None, day(2)),
    ]


@dataclass(frozen=True, slots=True)
class TakenFirst(LocalArchive):
    """An archive in which somebody else says something right before each of the first two calls."""

    others: list[Callable[[], None]] = field(default_factory=list)

    def create(self, path: str, content: bytes) -> bool:
        if self.others:
            self.others.pop()()
        return LocalArchive.create(self, path, content)


def test_two_people_at_the_same_moment_lose_nothing(archive: Archive) -> None:
    """Also where the clock of the first one is ahead."""
    others: list[Callable[[], None]] = [
        lambda: say(archive, GROUP, 9, "bob", is_resolved=True),
        lambda: say(archive, GROUP, 9, "eve", action="discard", plan_id="p-1"),
    ]

    say(TakenFirst(archive.root, others), GROUP, 1, text="why")

    memory = read_memory(archive)
    assert memory.state(GROUP) == GroupState(3, "discard", 3, day(9), "p-1")
    assert read_notes(archive, memory, [GROUP]) == {GROUP: "why"}


def test_few_files_are_opened_however_many_there_are() -> None:
    archive = MemoryArchive()
    groups = [f"g-{number:010x}" for number in range(1000)]
    for number, group_id in enumerate(groups[:50]):
        say(archive, group_id, 1, action="leave")
        if number % 5 == 0:
            say(archive, group_id, 2, text="why")
    for number in range(3, 6):
        analyze(archive, number, *groups)
    say(archive, groups[0], 30, is_resolved=True)
    archive.opened.clear()

    memory = read_memory(archive)
    opened = len(archive.opened)
    notes = read_notes(archive, memory, groups)

    assert (len(memory.groups), len(memory.said), len(notes)) == (1000, 50, 10)
    assert (opened, len(archive.opened)) == (2, 12)


def test_a_note_is_in_one_file_whose_removal_removes_it_and_nothing_else(archive: Archive) -> None:
    say(archive, GROUP, 1, is_resolved=True)
    say(archive, GROUP, 2, text="about Mona Lisa")
    say(archive, GROUP, 3, action="leave")
    analyze(archive, 4, GROUP)
    files = archive.list("groups")
    assert [path for path in files if b"Mona" in (archive.read(path) or b"")] == [files[1]]
    archive.remove(files[1])

    memory = read_memory(archive)

    assert (read_notes(archive, memory, [GROUP]), memory.unreadable) == ({}, ())
    assert (memory.state(GROUP).resolved_at, memory.state(GROUP).action) == (day(1), "leave")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"who": "ada"}', b"null"])
def test_a_damaged_file_is_named_and_stops_nothing(archive: Archive, content: bytes) -> None:
    say(archive, GROUP, 1, is_resolved=True)
    analyze(archive, 2, GROUP)
    damaged = {f"groups/{GROUP}/000002.json", "groups/seen/3.json"}
    for path in damaged:
        archive.write(path, content)

    memory = read_memory(archive)

    assert set(memory.unreadable) == damaged
    assert memory.state(GROUP).resolved_at == day(1)
    assert GROUP in memory.groups
    say(archive, GROUP, 3, action="leave")
    assert read_memory(archive).state(GROUP) == GroupState(3, "leave", None, day(1))
