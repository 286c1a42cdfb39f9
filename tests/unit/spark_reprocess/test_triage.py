"""What people said about a group, and what an analysis makes of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_reprocess.errors import InputError
from spark_reprocess.groups import triage
from spark_reprocess.groups.triage import (
    Found,
    GroupMemory,
    GroupState,
    Outcome,
    Statement,
    Status,
    note_of,
    outcome,
)

START = datetime(2026, 11, 1, tzinfo=UTC)
GROUP, OTHER = "g-0123456789", "g-abcdefabcd"


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def said(number: float, **values: Any) -> Statement:
    return Statement(day(number), "ada@desk", **values)


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([], GroupState()),
        ([said(1, action="redrive", plan_id="p-1")], GroupState(1, "redrive", None, None, "p-1")),
        ([said(1, action="redrive"), said(2, action="discard")], GroupState(2, "discard")),
        ([said(1, text="why"), said(2, action="leave")], GroupState(2, "leave", note_in=1)),
        ([said(1, text="why"), said(2, text="because")], GroupState(2, note_in=2)),
        ([said(1, text="why"), said(2, text="")], GroupState(2)),
        ([said(1, is_resolved=True), said(2, text="x")], GroupState(2, None, 2, day(1))),
        ([said(1, is_resolved=True), said(3, is_resolved=True)], GroupState(2, None, None, day(3))),
        ([said(1, is_resolved=True), said(2, is_resolved=False)], GroupState(2)),
        (
            [said(1, action="redrive"), said(2, stopped="3 came back")],
            GroupState(2, "redrive", stopped="3 came back", stops=1),
        ),
        (
            [said(1, stopped="3 came back"), said(2, text=""), said(3, stopped="4 came back")],
            GroupState(3, stopped="4 came back", stops=2),
        ),
        (
            [said(1, stopped="3 came back"), said(2, action="redrive")],
            GroupState(2, "redrive", stops=1),
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
    ("action", "is_edited", "oldest", "word"),
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
    action: str, oldest: int | None, word: str | None, *, is_edited: bool
) -> None:
    state = GroupState().after(said(2, action=action, plan_id="p-1", is_edited=is_edited))

    assert state.word(None if oldest is None else day(oldest)) == word
    assert state.after(said(2, stopped="3 came back")).word() == "stopped"


def test_a_note_has_a_limit_and_is_text_that_can_be_written() -> None:
    assert note_of("why \ud800") == "why ?"
    with pytest.raises(InputError, match="2,001 characters; at most 2,000"):
        note_of("x" * 2001)


def found(group_id: str = GROUP, sent: float | None = 0.0) -> Found:
    return Found(group_id, 1, None if sent is None else day(sent))


def analyzed(memory: GroupMemory, number: float, *groups: Found, **options: Any) -> Outcome:
    return outcome(memory, f"r-{number:05.1f}", day(number), groups, **options)


def statuses(analysis: Outcome) -> dict[str, Status]:
    """The status of each group that is not gone."""
    groups = analysis.memory.groups
    return {one: seen.status for one, seen in groups.items() if seen.status is not Status.GONE}


def resolved(memory: GroupMemory, number: float) -> GroupMemory:
    state = memory.state(GROUP).after(said(number, is_resolved=True))
    return replace(memory, said={GROUP: state})


def test_a_group_is_new_then_known_then_gone_and_then_not_mentioned_until_it_is_back() -> None:
    first = analyzed(GroupMemory(), 1, found())
    second = analyzed(first.memory, 2, found())
    third = analyzed(second.memory, 3)
    fourth = analyzed(third.memory, 4)
    fifth = analyzed(fourth.memory, 5, found())

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
    memory = resolved(analyzed(GroupMemory(), 1, found()).memory, 2)

    assert statuses(analyzed(memory, 3, found(sent=sent))) == {GROUP: status}


def test_a_regressed_group_stays_so_until_it_is_resolved_again_or_is_not_resolved() -> None:
    memory = resolved(analyzed(GroupMemory(), 1, found()).memory, 2)
    regressed = analyzed(memory, 3, found(sent=2.5))
    # The message that was sent after the fix was redriven.
    before = analyzed(regressed.memory, 3.5, found())
    still = analyzed(before.memory, 4, found())
    again = analyzed(resolved(still.memory, 5), 6, found(sent=2.5))
    reopened = analyzed(replace(still.memory, said={}), 7, found())

    assert statuses(regressed) == statuses(still) == {GROUP: Status.REGRESSED}
    assert statuses(again) == {GROUP: Status.RESOLVED}
    assert statuses(reopened) == {GROUP: Status.KNOWN}


def test_a_stopped_group_stays_so_until_somebody_decides_again() -> None:
    memory = resolved(analyzed(GroupMemory(), 1, found()).memory, 1)
    stopped = memory.state(GROUP).after(said(2, stopped="3 came back"))
    decided = stopped.after(said(3, action="redrive", is_resolved=False))
    first = analyzed(replace(memory, said={GROUP: stopped}), 3, found())
    second = analyzed(first.memory, 4, found())
    after = analyzed(replace(second.memory, said={GROUP: decided}), 5, found())

    assert statuses(first) == statuses(second) == {GROUP: Status.STOPPED}
    assert statuses(after) == {GROUP: Status.KNOWN}


def test_a_group_is_gone_only_where_all_messages_were_looked_at() -> None:
    memory = analyzed(GroupMemory(), 1, found(), found(OTHER)).memory

    part = analyzed(memory, 2, found(OTHER), is_whole=False)
    unlisted = analyzed(memory, 2, found(OTHER), unlisted={GROUP})
    whole = analyzed(part.memory, 3, found(OTHER))

    assert (part.gone, unlisted.gone, whole.gone) == ((), (), (GROUP,))
    report_ids = [one.memory.groups[OTHER].report_id for one in (part, whole)]
    assert report_ids == ["r-001.0", "r-003.0"], "the last report about all messages"


def test_memory_is_bounded_but_for_groups_that_people_spoke_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(triage, "REMEMBERED_GROUPS", 2)
    memory = resolved(analyzed(GroupMemory(), 1, found()).memory, 2)

    later = analyzed(memory, 3, *(found(f"g-{n:010x}") for n in range(5))).memory

    assert GROUP in later.groups
    assert len(later.groups) == 3
