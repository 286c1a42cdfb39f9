"""The memory of groups: statements of people, observations of analyses, and the status. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from dlq.errors import InputError

REMEMBERED_GROUPS = 10_000
"""Groups that are remembered without a statement: those that were seen last."""

NOTE_CHARACTERS = 2_000

EDIT = "edit"
"""Disposition of a group whose edit nobody has carried out."""

HALTED = "halted"
"""Disposition of a group of which too much failed again: no rule and no redrive sends more of it
until a person decides again."""

BINDING_DISPOSITIONS = ("discard", EDIT, "leave", HALTED)
"""Dispositions of a group that a policy must not go against, the strictest last."""


def is_group_id(text: str) -> bool:
    """Return whether *text* is an id as analyses make it."""
    return re.fullmatch(r"g-[0-9a-f]{10}", text) is not None


def is_group_start(text: str) -> bool:
    """Return whether *text* is an id of a group, or its beginning."""
    return re.fullmatch(r"g-[0-9a-f]{0,10}", text) is not None


def note_of(text: str) -> str:
    """Return a note as it is stored.

    Raises:
        InputError: it is too long.
    """
    if len(text) > NOTE_CHARACTERS:
        raise InputError(f"the note has {len(text):,} characters; at most {NOTE_CHARACTERS:,}")
    # A shell may pass on half a character.
    return text.encode("utf-8", "replace").decode()


class Status(StrEnum):
    """A group's status, in the order of the report's headline.

    docs/analysis.md says when a group has which, under "Groups live on".
    """

    HALTED = HALTED
    REGRESSED = "regressed"
    NEW = "new"
    KNOWN = "known"
    RESOLVED = "resolved"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of one person about a group at one time; None for what it is not about.

    Attributes:
        time: in UTC, by that person's clock.
        who: ``user@host``; see ``actor``.
        action: the group's new action in the plan *plan_id*.
        text: the note, in the user's own words; empty takes an earlier one away.
        is_resolved: True: the group is resolved from *time* on; False: it is not.
        is_edited: whether that plan's entry has an edit.
        halted: why a ramp halted the group.
    """

    time: datetime
    who: str
    action: str | None = None
    plan_id: str | None = None
    text: str | None = None
    is_resolved: bool | None = None
    is_edited: bool = False
    halted: str | None = None


@dataclass(frozen=True, slots=True)
class GroupState:
    """The state of a group after all statements about it; None for what no statement says.

    Attributes:
        number: of statements; each has its number, from 1.
        action: the last decision, in the plan *plan_id*.
        note_in: number of the statement with the note.
        edited_at: the time of the last decision, if it came with an edit.
        halts: how often it was halted.
    """

    number: int = 0
    action: str | None = None
    note_in: int | None = None
    resolved_at: datetime | None = None
    plan_id: str | None = None
    edited_at: datetime | None = None
    halted: str | None = None
    halts: int = 0

    def after(self, statement: Statement) -> "GroupState":
        """Return the state after the next statement."""
        number = self.number + 1
        note_in = self.note_in
        if statement.text is not None:
            note_in = number if statement.text else None

        resolved_at = self.resolved_at
        if statement.is_resolved is not None:
            resolved_at = statement.time if statement.is_resolved else None

        plan_id = self.plan_id
        edited_at = self.edited_at
        if statement.plan_id is not None:
            plan_id = statement.plan_id
            edited_at = statement.time if statement.is_edited else None

        halts = self.halts
        halted = self.halted
        if statement.halted is not None:
            halts += 1
            halted = statement.halted or self.halted
        if statement.action:
            halted = None
        return GroupState(
            number=number,
            action=statement.action or self.action,
            note_in=note_in,
            resolved_at=resolved_at,
            plan_id=plan_id,
            edited_at=edited_at,
            halted=halted,
            halts=halts,
        )

    def disposition(self, first_parked_at: datetime | None = None) -> str | None:
        """Return which of ``BINDING_DISPOSITIONS`` a group has; None if a policy may decide.

        *first_parked_at* is the time of the group's oldest pending message, None if unknown. An
        edit is carried out when no message from before it is left.
        """
        if self.halted is not None:
            return HALTED
        if self.edited_at is not None:
            is_left = first_parked_at is None or first_parked_at <= self.edited_at
            return EDIT if is_left else None
        return self.action if self.action in BINDING_DISPOSITIONS else None


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """The observations that analyses made of a group, first and last.

    Attributes:
        report_id: of the last report about all messages that lists it, else of the first one.
        count: its pending messages at that time.
        last_parked_at: the time at which the last message that was ever seen was sent to the parked
            queue.
        status: in the last analysis that could tell.
    """

    group_id: str
    first_seen_at: datetime
    last_seen_at: datetime
    report_id: str
    count: int
    last_parked_at: datetime | None
    status: Status


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """The memory that an archive has of its groups, by id; *unreadable* files are missing in it."""

    groups: Mapping[str, SeenGroup] = field(default_factory=dict)
    states: Mapping[str, GroupState] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()

    @property
    def halted(self) -> dict[str, str]:
        """The groups of which nothing is sent, by id: why.

        Also those whose last statement cannot be read, because it may have halted them.
        """
        halted = {}
        for group_id, state in self.states.items():
            reason = state.halted
            if reason is not None:
                halted[group_id] = reason
        for path in self.unreadable:
            group_id = path.split("/")[1]
            if is_group_id(group_id):
                halted.setdefault(group_id, f"{path} cannot be read")
        return halted

    def state(self, group_id: str) -> GroupState:
        """Return the state of a group after all statements about it."""
        return self.states.get(group_id, GroupState())


def after_analysis(
    memory: GroupMemory,
    report_id: str,
    now: datetime,
    rows: Iterable[Mapping[str, Any]],
    unlisted: Collection[str] = (),
    *,
    is_whole: bool = True,
) -> tuple[GroupMemory, tuple[SeenGroup, ...]]:
    """Return the memory after an analysis, and the groups of *memory* that are gone since.

    Args:
        memory: the memory before the analysis.
        report_id: of this analysis.
        now: the time of this analysis.
        rows: the groups that it lists: ``group_id``, ``count``, and ``last_parked_at``, which may
            be None.
        unlisted: groups that have pending messages, too.
        is_whole: whether it looked at all messages. Only then a group can be gone.
    """
    listed = {}
    for row in rows:
        seen = _seen(memory, row, report_id, now, is_whole=is_whole)
        listed[seen.group_id] = seen

    pending_ids = {*listed, *unlisted}
    gone = []
    for group_id, seen in sorted(memory.groups.items()):
        was_there = seen.status is not Status.GONE
        if is_whole and was_there and group_id not in pending_ids:
            gone.append(seen)

    groups = dict(memory.groups)
    for seen in gone:
        groups[seen.group_id] = replace(seen, status=Status.GONE)
    groups.update(listed)

    by_age = sorted(groups, key=lambda group_id: (groups[group_id].last_seen_at, group_id))
    remembered_ids = {*memory.states, *by_age[-REMEMBERED_GROUPS:]}
    remembered = {group_id: groups[group_id] for group_id in groups if group_id in remembered_ids}
    return replace(memory, groups=remembered), tuple(gone)


def _seen(
    memory: GroupMemory, row: Mapping[str, Any], report_id: str, now: datetime, *, is_whole: bool
) -> SeenGroup:
    group_id = row["group_id"]
    before = memory.groups.get(group_id)
    # A message that was sent after the fix disproves it, also once that message is decided.
    times = [row["last_parked_at"]]
    if before is not None:
        times.append(before.last_parked_at)
    last_parked_at = max(filter(None, times), default=None)

    return SeenGroup(
        group_id=group_id,
        first_seen_at=before.first_seen_at if before else now,
        last_seen_at=now,
        report_id=before.report_id if before and not is_whole else report_id,
        count=row["count"],
        last_parked_at=last_parked_at,
        status=_status(memory.state(group_id), last_parked_at, is_new=before is None),
    )


def _status(state: GroupState, last_parked_at: datetime | None, *, is_new: bool) -> Status:
    if state.halted is not None:
        return Status.HALTED
    if state.resolved_at is None:
        return Status.NEW if is_new else Status.KNOWN
    is_back = last_parked_at is not None and last_parked_at > state.resolved_at
    return Status.REGRESSED if is_back else Status.RESOLVED
