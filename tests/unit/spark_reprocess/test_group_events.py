"""What an archive remembers of groups: files that are created once, and how few are opened."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.group_events import add_event, read_memory, with_notes, write_seen
from spark_reprocess.archive.local import LocalArchive
from spark_reprocess.triage.events import EventKind, GroupEvent
from spark_reprocess.triage.status import FailedOn, Found, GroupMemory, Status, outcome

START = datetime(2026, 11, 1, tzinfo=UTC)
GROUP, OTHER = "g-0123456789", "g-abcdefabcd"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path))


@dataclass(frozen=True, slots=True)
class CountedReads(LocalArchive):
    """An archive that keeps the paths that were read."""

    paths: list[str] = field(default_factory=list)

    def read(self, path: str) -> bytes | None:
        self.paths.append(path)
        return LocalArchive.read(self, path)


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def event(group_id: str, number: float, kind: EventKind, **values: Any) -> GroupEvent:
    return GroupEvent(group_id, kind, day(number), "ada@desk", **values)


def found(group_id: str, number: float, version: str | None = "7") -> Found:
    sent = day(number)
    return Found(group_id, 3, sent, sent, (FailedOn(version, 3, sent),))


def analyze(archive: Archive, number: float, *groups: Found) -> GroupMemory:
    report_id, now = f"{day(number):%Y%m%dT%H%M%SZ}-aaaaaa", day(number)
    after = outcome(read_memory(archive), report_id, now, groups).memory
    write_seen(archive, report_id, now, after)
    return after


def test_an_archive_without_events_remembers_nothing(archive: Archive) -> None:
    assert read_memory(archive) == GroupMemory()


def test_what_is_written_is_what_is_read(archive: Archive) -> None:
    said = [
        add_event(archive, event(GROUP, 1, EventKind.DECIDED, action="redrive", plan_id="p-1")),
        add_event(archive, event(GROUP, 2, EventKind.NOTED, text="why 🎉", owner="ada", ticket="")),
        add_event(archive, event(GROUP, 3, EventKind.SNOOZED, until=day(9))),
        add_event(archive, event(GROUP, 4, EventKind.RESOLVED, version="9")),
        add_event(archive, event(GROUP, 5, EventKind.SNOOZED)),
    ]
    before = read_memory(archive)
    written = analyze(archive, 6, found(GROUP, 5), found(OTHER, 5, None))
    after = read_memory(archive)

    kept = tuple(replace(one, text=None, has_text=one.text is not None) for one in said)
    assert before.events == {GROUP: kept}
    assert after == written
    assert (after.events, after.groups[GROUP].status) == (before.events, Status.RESOLVED)
    assert with_notes(archive, after, [GROUP, OTHER]) == {GROUP: "why 🎉"}


def test_two_people_at_the_same_moment_do_not_overwrite_each_other(archive: Archive) -> None:
    for who in ("ada", "bob"):
        add_event(archive, event(GROUP, 1, EventKind.NOTED, text=f"by {who}", owner=who))

    assert {one.owner for one in read_memory(archive).events[GROUP]} == {"ada", "bob"}


def test_what_is_said_later_counts_also_where_an_earlier_speaker_s_clock_is_ahead(
    archive: Archive,
) -> None:
    add_event(archive, event(OTHER, 30, EventKind.NOTED, owner="ada"))
    add_event(archive, event(GROUP, 3, EventKind.NOTED, owner="ada"))
    add_event(archive, event(GROUP, 3, EventKind.SNOOZED, until=day(9)))
    said = add_event(archive, event(GROUP, 2, EventKind.NOTED, owner="bob"))
    add_event(archive, event(GROUP, 2, EventKind.SNOOZED))

    state = read_memory(archive).state(GROUP)

    assert (state.owner, state.snoozed_until) == ("bob", None)
    assert said.time == day(2)


@dataclass(frozen=True, slots=True)
class BeforeTheOther(LocalArchive):
    """An archive whose lists are older than what somebody else is writing."""

    def list(self, folder: str) -> list[str]:
        del folder
        return []


def test_an_event_whose_name_is_taken_gets_another_one(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["aaaaaa", "aaaaaa", "bbbbbb"])
    monkeypatch.setattr("secrets.token_hex", lambda _: next(names))
    at_once = BeforeTheOther(archive.root)

    one, other = (add_event(at_once, event(GROUP, 1, EventKind.SNOOZED)) for _ in range(2))

    assert one.event_id != other.event_id
    assert next(names, None) is None
    assert len(read_memory(archive).events[GROUP]) == 2


def test_few_files_are_opened_however_many_there_are(archive: Archive) -> None:
    groups = [f"g-{number:010x}" for number in range(1000)]
    for number, group_id in enumerate(groups[:50]):
        add_event(archive, event(group_id, 1, EventKind.DECIDED, action="leave"))
        if number % 5 == 0:
            add_event(archive, event(group_id, 2, EventKind.NOTED, text="why"))
    for number in range(3, 13):
        analyze(archive, number, *(found(one, 1) for one in groups))
    add_event(archive, event(groups[0], 30, EventKind.RESOLVED, version="9"))
    counted = CountedReads(archive.root)

    memory = read_memory(counted)
    opened = len(counted.paths)
    notes = with_notes(counted, memory, groups)

    assert (len(memory.groups), len(memory.events), len(notes)) == (1000, 50, 10)
    assert (opened, len(counted.paths)) == (2, 12)


def test_analyses_at_the_same_time_are_both_read(archive: Archive) -> None:
    analyze(archive, 1, found(GROUP, 1))
    memory = read_memory(archive)
    for number, group in ((2.0, found(GROUP, 2, "8")), (2.1, found(OTHER, 2, "9"))):
        report_id = f"{day(number):%Y%m%dT%H%M%SZ}-aaaaaa"
        result = outcome(memory, report_id, day(number), [group], is_whole=False)
        write_seen(archive, report_id, day(number), result.memory)
    counted = CountedReads(archive.root)

    after = read_memory(counted)

    assert (len(counted.paths), len(after.reports)) == (2, 3)
    assert after.groups[GROUP].versions == ("7", "8")
    assert after.groups.keys() == {GROUP, OTHER}


def test_a_file_of_an_analysis_has_no_text_of_a_note(archive: Archive) -> None:
    add_event(archive, event(GROUP, 1, EventKind.NOTED, text="about Mona Lisa"))
    analyze(archive, 2, found(GROUP, 1))
    (seen,) = archive.list("groups/seen")

    assert b"Mona" not in (archive.read(seen) or b"")


def test_a_note_whose_file_was_removed_is_gone_and_nothing_else_is(archive: Archive) -> None:
    add_event(archive, event(GROUP, 1, EventKind.RESOLVED, version="9"))
    add_event(archive, event(GROUP, 2, EventKind.NOTED, text="about Mona Lisa", owner="ada"))
    analyze(archive, 3, found(GROUP, 1))
    archive.remove(archive.list(f"groups/{GROUP}")[-1])

    memory = read_memory(archive)

    assert (with_notes(archive, memory, [GROUP]), memory.unreadable) == ({}, ())
    assert (memory.state(GROUP).resolved_in, memory.state(GROUP).owner) == ("9", "ada")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"kind": "noted"}', b'{"kind": "?", "time": 1}', b"null"]
)
def test_a_damaged_file_is_named_and_stops_nothing(archive: Archive, content: bytes) -> None:
    add_event(archive, event(GROUP, 1, EventKind.RESOLVED, version="9"))
    analyze(archive, 2, found(GROUP, 1))
    event_path, seen_path = f"groups/{GROUP}/20261109T000000000000Z-x.json", "groups/seen/3.json"
    archive.write(event_path, content)
    archive.write(seen_path, content)

    memory = read_memory(archive)

    assert set(memory.unreadable) == {event_path, seen_path}
    assert memory.state(GROUP).resolved_in == "9"
    assert GROUP in memory.groups
