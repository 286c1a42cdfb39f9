"""People's decisions on a group, their use in an analysis, and the memory of an archive.

Its files are created once, and few are opened.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from dlq.archive.group_records import (
    add_statement,
    read_memory,
    read_notes,
    read_statements,
    write_seen,
)
from dlq.archive.storage.files import Archive
from dlq.errors import InputError
from dlq.explain import triage
from dlq.explain.triage import (
    GroupMemory,
    GroupState,
    Statement,
    Status,
    after_analysis,
    note_of,
)
from tests.support.ledgers import DisturbedArchive, MemoryArchive

START = datetime(2026, 11, 1, tzinfo=UTC)
GROUP = "g-0123456789"
OTHER = "g-abcdefabcd"


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def stated(number: float, who: str = "ada", **values: Any) -> Statement:
    return Statement(day(number), f"{who}@desk", **values)


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([], GroupState()),
        ([stated(1, action="redrive", plan_id="p-1")], GroupState(1, "redrive", None, None, "p-1")),
        ([stated(1, action="redrive"), stated(2, action="discard")], GroupState(2, "discard")),
        ([stated(1, text="why"), stated(2, action="leave")], GroupState(2, "leave", note_in=1)),
        ([stated(1, text="why"), stated(2, text="because")], GroupState(2, note_in=2)),
        ([stated(1, text="why"), stated(2, text="")], GroupState(2)),
        ([stated(1, is_resolved=True), stated(2, text="x")], GroupState(2, None, 2, day(1))),
        (
            [stated(1, is_resolved=True), stated(3, is_resolved=True)],
            GroupState(2, None, None, day(3)),
        ),
        ([stated(1, is_resolved=True), stated(2, is_resolved=False)], GroupState(2)),
        (
            [stated(1, action="redrive"), stated(2, halted="3 failed again")],
            GroupState(2, "redrive", halted="3 failed again", halts=1),
        ),
        (
            [
                stated(1, halted="3 failed again"),
                stated(2, text=""),
                stated(3, halted="4 failed again"),
            ],
            GroupState(3, halted="4 failed again", halts=2),
        ),
        (
            [stated(1, halted="3 failed again"), stated(2, action="redrive")],
            GroupState(2, "redrive", halts=1),
        ),
    ],
)
def test_the_last_word_on_each_thing_counts(
    statements: list[Statement], expected: GroupState
) -> None:
    state = GroupState()
    for statement in statements:
        state = state.after(statement)

    assert state == expected


@pytest.mark.parametrize(
    ("action", "is_edited", "oldest", "disposition"),
    [
        ("leave", False, 9, "leave"),
        ("discard", False, 9, "discard"),
        ("redrive", False, 1, None),
        ("redrive", True, 2, "edit"),
        ("redrive", True, None, "edit"),
        ("redrive", True, 3, None),
    ],
)
def test_a_policy_is_free_once_an_edit_is_carried_out(
    action: str, oldest: int | None, disposition: str | None, *, is_edited: bool
) -> None:
    state = GroupState().after(stated(2, action=action, plan_id="p-1", is_edited=is_edited))

    assert state.disposition(None if oldest is None else day(oldest)) == disposition
    assert state.after(stated(2, halted="3 failed again")).disposition() == "halted"


def test_a_note_has_a_limit_and_is_text_that_can_be_written() -> None:
    assert note_of("why \ud800") == "why ?"
    with pytest.raises(InputError, match="2,001 characters; at most 2,000"):
        note_of("x" * 2001)


def listed_group(group_id: str = GROUP, sent: float | None = 0.0, count: int = 1) -> dict[str, Any]:
    last_parked_at = None if sent is None else day(sent)
    return {"group_id": group_id, "count": count, "last_parked_at": last_parked_at}


class Analysis(NamedTuple):
    memory: GroupMemory
    gone: tuple[str, ...]


def analyzed(
    memory: GroupMemory, number: float, *groups: dict[str, Any], **options: Any
) -> Analysis:
    after, gone = after_analysis(memory, f"r-{number:05.1f}", day(number), groups, **options)
    return Analysis(after, tuple(group.group_id for group in gone))


def statuses(analysis: Analysis) -> dict[str, Status]:
    """The status of each group that is not gone."""
    statuses: dict[str, Status] = {}
    for group_id, seen in analysis.memory.groups.items():
        if seen.status is not Status.GONE:
            statuses[group_id] = seen.status
    return statuses


def resolved(memory: GroupMemory, number: float) -> GroupMemory:
    state = memory.state(GROUP).after(stated(number, is_resolved=True))
    return replace(memory, states={GROUP: state})


def test_a_group_is_new_then_known_then_gone_and_then_not_mentioned_until_it_is_back() -> None:
    first = analyzed(GroupMemory(), 1, listed_group())
    second = analyzed(first.memory, 2, listed_group())
    third = analyzed(second.memory, 3)
    fourth = analyzed(third.memory, 4)
    fifth = analyzed(fourth.memory, 5, listed_group())

    assert (statuses(first), statuses(second)) == ({GROUP: Status.NEW}, {GROUP: Status.KNOWN})
    assert (statuses(third), third.gone) == ({}, (GROUP,))
    assert (statuses(fourth), fourth.gone) == ({}, ())
    assert statuses(fifth) == {GROUP: Status.KNOWN}
    assert fifth.memory.groups[GROUP].first_seen_at == day(1)
    assert fifth.memory.groups[GROUP].last_seen_at == day(5)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (1.0, Status.RESOLVED),
        (2.0, Status.RESOLVED),
        (2.1, Status.REGRESSED),
        (None, Status.RESOLVED),
    ],
)
def test_what_was_sent_after_the_moment_of_resolution_makes_a_group_regressed(
    sent: float | None, status: Status
) -> None:
    memory = resolved(analyzed(GroupMemory(), 1, listed_group()).memory, 2)

    assert statuses(analyzed(memory, 3, listed_group(sent=sent))) == {GROUP: status}


def test_a_regressed_group_stays_so_until_it_is_resolved_again_or_is_not_resolved() -> None:
    memory = resolved(analyzed(GroupMemory(), 1, listed_group()).memory, 2)
    regressed = analyzed(memory, 3, listed_group(sent=2.5))
    # The message that was sent after the fix was redriven.
    before = analyzed(regressed.memory, 3.5, listed_group())
    still = analyzed(before.memory, 4, listed_group())
    again = analyzed(resolved(still.memory, 5), 6, listed_group(sent=2.5))
    reopened = analyzed(replace(still.memory, states={}), 7, listed_group())

    assert statuses(regressed) == statuses(still) == {GROUP: Status.REGRESSED}
    assert statuses(again) == {GROUP: Status.RESOLVED}
    assert statuses(reopened) == {GROUP: Status.KNOWN}


def test_a_halted_group_stays_so_until_somebody_decides_again() -> None:
    memory = resolved(analyzed(GroupMemory(), 1, listed_group()).memory, 1)
    halted = memory.state(GROUP).after(stated(2, halted="3 failed again"))
    decided = halted.after(stated(3, action="redrive", is_resolved=False))
    first = analyzed(replace(memory, states={GROUP: halted}), 3, listed_group())
    second = analyzed(first.memory, 4, listed_group())
    after = analyzed(replace(second.memory, states={GROUP: decided}), 5, listed_group())

    assert statuses(first) == statuses(second) == {GROUP: Status.HALTED}
    assert statuses(after) == {GROUP: Status.KNOWN}


def test_a_group_is_gone_only_where_all_messages_were_looked_at() -> None:
    memory = analyzed(GroupMemory(), 1, listed_group(), listed_group(OTHER)).memory

    part = analyzed(memory, 2, listed_group(OTHER), is_whole=False)
    unlisted = analyzed(memory, 2, listed_group(OTHER), unlisted={GROUP})
    whole = analyzed(part.memory, 3, listed_group(OTHER))

    assert (part.gone, unlisted.gone, whole.gone) == ((), (), (GROUP,))
    # The last report about all messages.
    assert part.memory.groups[OTHER].report_id == "r-001.0"
    assert whole.memory.groups[OTHER].report_id == "r-003.0"


def test_memory_is_bounded_but_for_groups_that_people_spoke_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(triage, "REMEMBERED_GROUPS", 2)
    memory = resolved(analyzed(GroupMemory(), 1, listed_group()).memory, 2)

    later = analyzed(memory, 3, *(listed_group(f"g-{n:010x}") for n in range(5))).memory

    assert GROUP in later.groups
    assert len(later.groups) == 3


def say(archive: Archive, group_id: str, number: float, who: str = "ada", **values: Any) -> None:
    add_statement(archive, group_id, stated(number, who, **values))


def analyze(archive: Archive, number: float, *group_ids: str) -> GroupMemory:
    now = day(number)
    report_id = f"{now:%Y%m%dT%H%M%SZ}-aaaaaa"
    groups = [listed_group(group_id, number - 1, 3) for group_id in group_ids]
    after, _ = after_analysis(read_memory(archive), report_id, now, groups)
    write_seen(archive, report_id, after)
    return after


def test_what_is_written_is_what_is_read(archive: Archive) -> None:
    say(archive, GROUP, 1, action="redrive", plan_id="p-1", is_edited=True)
    say(archive, GROUP, 2, text="why 🎉")
    say(archive, GROUP, 5, is_resolved=True)
    before = read_memory(archive)
    written = analyze(archive, 6, GROUP, OTHER)
    after = read_memory(archive)

    assert before.states == {GROUP: GroupState(3, "redrive", 2, day(5), "p-1", day(1))}
    assert after == written
    assert (after.states, after.groups[GROUP].status) == (before.states, Status.RESOLVED)
    assert read_notes(archive, after, [GROUP, OTHER]) == {GROUP: "why 🎉"}
    newest, oldest = read_statements(archive, GROUP, 2)
    assert (newest.text, newest.is_resolved, newest.time) == (None, True, day(5))
    assert (oldest.text, oldest.is_resolved, oldest.time) == ("why 🎉", None, day(2))


def test_two_people_at_the_same_moment_lose_nothing(archive: Archive) -> None:
    """Also where the clock of the first one is ahead."""
    disturbed = DisturbedArchive(
        archive.root,
        [
            lambda: say(archive, GROUP, 9, "bob", is_resolved=True),
            lambda: say(archive, GROUP, 9, "eve", action="discard", plan_id="p-1"),
        ],
    )

    say(disturbed, GROUP, 1, text="why")

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

    assert (len(memory.groups), len(memory.states), len(notes)) == (1000, 50, 10)
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
    # It may have halted the group, so nothing of it is sent before somebody decides again.
    assert memory.halted == {GROUP: f"groups/{GROUP}/000002.json cannot be read"}
    say(archive, GROUP, 3, action="leave")
    memory = read_memory(archive)
    assert memory.state(GROUP) == GroupState(3, "leave", None, day(1))
    assert memory.halted == {}
