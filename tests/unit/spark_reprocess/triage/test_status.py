"""What an analysis makes of a group that it finds, or finds no longer."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_reprocess.triage.events import EventKind, GroupEvent
from spark_reprocess.triage.status import (
    FailedOn,
    Found,
    GroupMemory,
    Outcome,
    Status,
    merged,
    outcome,
)

START = datetime(2026, 11, 1, tzinfo=UTC)
GROUP, OTHER = "g-0123456789", "g-abcdefabcd"


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def found(*versions: str | None, group_id: str = GROUP, sent: float = 0.0, count: int = 1) -> Found:
    failed_on = tuple(FailedOn(version, count, day(sent)) for version in versions or (None,))
    return Found(group_id, count, day(sent), day(sent), failed_on)


def analyzed(memory: GroupMemory, number: float, *groups: Found, **options: Any) -> Outcome:
    return outcome(memory, f"r-{number:05.1f}", day(number), groups, **options)


def resolved(memory: GroupMemory, number: float, version: str) -> GroupMemory:
    event = GroupEvent(
        GROUP, EventKind.RESOLVED, day(number), "ada@desk", f"e-{number:05.1f}", version=version
    )
    return merged(memory, GroupMemory(events={GROUP: (event,)}))


def test_a_group_is_new_then_known_then_gone_and_then_not_mentioned() -> None:
    first = analyzed(GroupMemory(), 1, found())
    second = analyzed(first.memory, 2, found())
    third = analyzed(second.memory, 3)
    fourth = analyzed(third.memory, 4)

    assert first.statuses == {GROUP: Status.NEW}
    assert second.statuses == {GROUP: Status.KNOWN}
    assert (third.statuses, third.gone) == ({}, (GROUP,))
    assert (fourth.statuses, fourth.gone) == ({}, ())


def test_a_group_that_was_gone_is_seen_again_and_known_from_then_on() -> None:
    gone = analyzed(analyzed(GroupMemory(), 1, found()).memory, 2)
    back = analyzed(gone.memory, 3, found())

    assert back.statuses == {GROUP: Status.SEEN_AGAIN}
    assert analyzed(back.memory, 4, found()).statuses == {GROUP: Status.KNOWN}
    assert back.memory.groups[GROUP].first_seen_at == day(1)


@pytest.mark.parametrize(
    ("versions", "status"),
    [
        (["7"], Status.RESOLVED),
        (["7", "8"], Status.RESOLVED),
        (["9"], Status.REGRESSED),
        (["7", "10"], Status.REGRESSED),
        (["7", None], Status.SEEN_AGAIN),
        ([None], Status.SEEN_AGAIN),
        (["1.2.3"], Status.SEEN_AGAIN),
        (["$LATEST"], Status.SEEN_AGAIN),
        ([None, "9"], Status.REGRESSED),
    ],
)
def test_versions_say_what_messages_that_arrive_after_the_fix_mean(
    versions: Sequence[str | None], status: Status
) -> None:
    memory = resolved(analyzed(GroupMemory(), 1, found("7")).memory, 2, "9")

    assert analyzed(memory, 3, found(*versions, sent=2.5)).statuses == {GROUP: status}


@pytest.mark.parametrize("version", ["1", "8", "1.2.3", "$LATEST", None])
def test_messages_from_before_the_fix_never_bring_a_group_back(version: str | None) -> None:
    memory = resolved(analyzed(GroupMemory(), 1, found(version)).memory, 2, "9")

    assert analyzed(memory, 3, found(version, sent=1)).statuses == {GROUP: Status.RESOLVED}


def test_a_message_of_an_old_version_that_arrives_late_does_not_bring_a_group_back() -> None:
    memory = resolved(analyzed(GroupMemory(), 1, found("7")).memory, 2, "9")
    gone = analyzed(memory, 3)

    assert analyzed(gone.memory, 4, found("8", sent=3.9)).statuses == {GROUP: Status.RESOLVED}


def test_a_regressed_group_stays_so_until_a_later_version_resolves_it() -> None:
    memory = resolved(analyzed(GroupMemory(), 1, found("7")).memory, 2, "9")
    regressed = analyzed(memory, 3, found("7", "9", sent=2.5))
    # The messages that failed on 9 were redriven.
    still = analyzed(regressed.memory, 4, found("7"))
    again = analyzed(resolved(still.memory, 5, "12"), 6, found("7", "9", "11", sent=5.5))

    assert regressed.statuses == {GROUP: Status.REGRESSED}
    assert still.statuses == {GROUP: Status.REGRESSED}
    assert again.statuses == {GROUP: Status.RESOLVED}


def test_the_verb_can_say_that_a_resolved_version_failed_already() -> None:
    memory = analyzed(GroupMemory(), 1, found("7", "8", "1.2.3", None)).memory

    assert memory.failed_since(GROUP, "8") == ("8",)
    assert memory.failed_since(GROUP, "9") == ()
    assert memory.failed_since(OTHER, "1") == ()


def test_releases_without_an_order_of_their_own_are_ordered_by_first_sight() -> None:
    first = analyzed(GroupMemory(), 1, found("aaa"))
    second = analyzed(first.memory, 2, found("aaa"), found("bbb", group_id=OTHER))
    memory = resolved(second.memory, 2.5, "bbb")

    old = analyzed(memory, 3, found("aaa", sent=2.9))
    later = analyzed(old.memory, 4, found("ccc", sent=3.5))

    assert old.statuses[GROUP] is Status.RESOLVED
    assert later.statuses[GROUP] is Status.REGRESSED


def test_a_release_that_was_never_seen_to_fail_has_no_order() -> None:
    memory = resolved(analyzed(GroupMemory(), 1, found("aaa")).memory, 2, "bbb")

    assert analyzed(memory, 3, found("aaa")).statuses[GROUP] is Status.RESOLVED
    assert analyzed(memory, 3, found("ccc", sent=2.5)).statuses[GROUP] is Status.SEEN_AGAIN
    assert analyzed(memory, 3, found("bbb", sent=2.5)).statuses[GROUP] is Status.REGRESSED


def test_a_group_is_gone_only_where_all_messages_were_looked_at() -> None:
    memory = analyzed(GroupMemory(), 1, found(), found(group_id=OTHER)).memory

    part = analyzed(memory, 2, found(group_id=OTHER), is_whole=False)
    unlisted = analyzed(memory, 2, found(group_id=OTHER), unlisted={GROUP})
    whole = analyzed(part.memory, 3, found(group_id=OTHER))

    assert (part.gone, unlisted.gone, whole.gone) == ((), (), (GROUP,))


def test_an_analysis_that_is_repeated_after_a_kill_says_the_same() -> None:
    memory = resolved(analyzed(GroupMemory(), 1, found("7")).memory, 2, "9")

    killed = analyzed(memory, 3, found("9", sent=2.5), found(group_id=OTHER))
    repeated = analyzed(memory, 4, found("9", sent=2.5), found(group_id=OTHER))

    assert repeated.statuses == killed.statuses


def test_analyses_at_the_same_time_are_both_remembered() -> None:
    memory = analyzed(GroupMemory(), 1, found("7")).memory
    one = analyzed(memory, 2, found("8"))
    other = analyzed(memory, 2.1, found("9"), found("9", group_id=OTHER))

    both = merged(one.memory, other.memory)

    assert set(both.groups[GROUP].versions) == {"7", "8", "9"}
    assert both.groups.keys() == {GROUP, OTHER}
    assert both.reports == ("r-001.0", "r-002.0", "r-002.1")
    assert both.first_seen == {"7": "r-001.0", "8": "r-002.0", "9": "r-002.1"}


def test_memory_is_bounded_but_for_groups_that_people_spoke_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spark_reprocess.triage.status.REMEMBERED_GROUPS", 2)
    memory = resolved(analyzed(GroupMemory(), 1, found("7")).memory, 2, "9")

    later = analyzed(memory, 3, *(found(group_id=f"g-{n:010x}") for n in range(5))).memory
    many = analyzed(later, 4, found(*map(str, range(1000, 1300)))).memory.groups[GROUP]

    assert GROUP in later.groups
    assert len(later.groups) == 3
    assert len(many.versions) == 100
    assert many.versions[-1] == "1299"
