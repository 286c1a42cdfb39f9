"""What is remembered of groups: what people said, what analyses saw, and the status. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from dlq.errors import InputError

REMEMBERED_GROUPS = 10_000
"""Groups that are remembered though nobody said anything about them: those that were seen last."""

NOTE_CHARACTERS = 2_000

EDIT = "edit"
"""The word of a group whose edit nobody has carried out."""

STOPPED = "stopped"
"""The word of a group of which too much came back: no rule and no redrive sends more of it until a
person decides again."""

WORDS = ("discard", EDIT, "leave", STOPPED)
"""What holds for a group and a policy must not go against, the strictest last."""


def is_group_id(text: str) -> bool:
    """Whether *text* is an id as analyses make it."""
    return re.fullmatch(r"g-[0-9a-f]{10}", text) is not None


def is_group_start(text: str) -> bool:
    """Return whether *text* is an id of a group, or its beginning."""
    return re.fullmatch(r"g-[0-9a-f]{0,10}", text) is not None


def note_of(text: str) -> str:
    """Return a note as it is written down.

    Raises:
        InputError: it is too long.
    """
    if len(text) > NOTE_CHARACTERS:
        raise InputError(f"the note has {len(text):,} characters; at most {NOTE_CHARACTERS:,}")
    # What a shell passes on may hold half a character.
    return text.encode("utf-8", "replace").decode()


class Status(StrEnum):
    """A group's status, in the order of the report's headline.

    docs/analysis.md says when a group has which, under "Groups live on".
    """

    STOPPED = STOPPED
    REGRESSED = "regressed"
    NEW = "new"
    KNOWN = "known"
    RESOLVED = "resolved"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Statement:
    """What one person said about a group at one time; None for what it is not about.

    Attributes:
        time: in UTC, by that person's clock.
        who: ``user@host``; see ``actor``.
        action: the group's new action in the plan *plan_id*.
        text: the note, in the user's own words; empty takes an earlier one away.
        is_resolved: True: the group is resolved from *time* on; False: it is not.
        is_edited: whether that plan's entry has an edit.
        stopped: why a redrive of the group was stopped.
    """

    time: datetime
    who: str
    action: str | None = None
    plan_id: str | None = None
    text: str | None = None
    is_resolved: bool | None = None
    is_edited: bool = False
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class GroupState:
    """What all statements about a group say together; None for what nobody said.

    Attributes:
        number: of statements; each has its number, from 1.
        action: the last decision, in the plan *plan_id*.
        note_in: number of the statement with the note.
        edited_at: when the last decision was said, if it came with an edit.
        stops: how often it was stopped.
    """

    number: int = 0
    action: str | None = None
    note_in: int | None = None
    resolved_at: datetime | None = None
    plan_id: str | None = None
    edited_at: datetime | None = None
    stopped: str | None = None
    stops: int = 0

    def after(self, said: Statement) -> "GroupState":
        """Return the state after the next statement."""
        number = self.number + 1
        note_in, resolved_at = self.note_in, self.resolved_at
        if said.text is not None:
            note_in = number if said.text else None
        if said.is_resolved is not None:
            resolved_at = said.time if said.is_resolved else None
        plan_id, edited_at = self.plan_id, self.edited_at
        if said.plan_id is not None:
            plan_id, edited_at = said.plan_id, said.time if said.is_edited else None
        action = said.action or self.action
        stopped = None if said.action else said.stopped or self.stopped
        stops = self.stops + (said.stopped is not None)
        return GroupState(number, action, note_in, resolved_at, plan_id, edited_at, stopped, stops)

    def word(self, first_sent_at: datetime | None = None) -> str | None:
        """Return which of ``WORDS`` holds for a group; None if a policy is free.

        *first_sent_at* is the time of the group's oldest pending message, None if unknown. An
        edit is carried out when no message from before it is left.
        """
        if self.stopped is not None:
            return STOPPED
        if self.edited_at is not None:
            is_left = first_sent_at is None or first_sent_at <= self.edited_at
            return EDIT if is_left else None
        return self.action if self.action in WORDS else None


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """What analyses saw of a group, first and last.

    Attributes:
        report_id: of the last report about all messages that lists it, else of the first one.
        count: its pending messages then.
        last_sent_at: when the last message that was ever seen was sent to the parked queue.
        status: in the last analysis that could tell.
    """

    group_id: str
    first_seen_at: datetime
    last_seen_at: datetime
    report_id: str
    count: int
    last_sent_at: datetime | None
    status: Status


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """What an archive remembers of its groups, by id; *unreadable* files are missing in it."""

    groups: Mapping[str, SeenGroup] = field(default_factory=dict)
    said: Mapping[str, GroupState] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()

    @property
    def stopped(self) -> dict[str, str]:
        """The groups of which nothing is sent, by id: why.

        Also those whose last statement cannot be read, because it may have stopped them.
        """
        stopped = {
            group_id: state.stopped
            for group_id, state in self.said.items()
            if state.stopped is not None
        }
        for path in self.unreadable:
            group_id = path.split("/")[1]
            if is_group_id(group_id):
                stopped.setdefault(group_id, f"{path} cannot be read")
        return stopped

    def state(self, group_id: str) -> GroupState:
        """Return what people say of a group."""
        return self.said.get(group_id, GroupState())


def after_analysis(
    memory: GroupMemory,
    report_id: str,
    now: datetime,
    rows: Iterable[Mapping[str, Any]],
    unlisted: Collection[str] = (),
    *,
    is_whole: bool = True,
) -> tuple[GroupMemory, tuple[SeenGroup, ...]]:
    """Return what is remembered after an analysis, and groups of *memory* that are gone since.

    *rows* are those of the groups that it lists: ``group_id``, ``count``, and ``last_sent_at``,
    which may be None; *unlisted* have pending messages, too. Only where it looked at all messages
    (*is_whole*) a group can be gone.
    """
    listed = [_seen(memory, row, report_id, now, is_whole=is_whole) for row in rows]
    there = {*(one.group_id for one in listed), *unlisted}
    gone = tuple(
        seen
        for group_id, seen in sorted(memory.groups.items())
        if is_whole and seen.status is not Status.GONE and group_id not in there
    )
    groups = {
        **memory.groups,
        **{one.group_id: replace(one, status=Status.GONE) for one in gone},
        **{one.group_id: one for one in listed},
    }
    newest = sorted(groups.values(), key=lambda one: (one.last_seen_at, one.group_id))
    kept = {*memory.said, *(one.group_id for one in newest[-REMEMBERED_GROUPS:])}
    return replace(memory, groups={one: seen for one, seen in groups.items() if one in kept}), gone


def _seen(
    memory: GroupMemory, row: Mapping[str, Any], report_id: str, now: datetime, *, is_whole: bool
) -> SeenGroup:
    group_id = row["group_id"]
    before, state = memory.groups.get(group_id), memory.state(group_id)
    resolved_at = state.resolved_at
    # A message that was sent after the fix disproves it, also once that message is decided.
    times = filter(None, (before and before.last_sent_at, row["last_sent_at"]))
    last_sent_at = max(times, default=None)
    if state.stopped is not None:
        status = Status.STOPPED
    elif resolved_at is None:
        status = Status.KNOWN if before else Status.NEW
    else:
        is_back = last_sent_at is not None and last_sent_at > resolved_at
        status = Status.REGRESSED if is_back else Status.RESOLVED
    return SeenGroup(
        group_id=group_id,
        first_seen_at=before.first_seen_at if before else now,
        last_seen_at=now,
        report_id=before.report_id if before and not is_whole else report_id,
        count=row["count"],
        last_sent_at=last_sent_at,
        status=status,
    )
