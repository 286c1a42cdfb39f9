"""What people say about a group, as events, and what they say of it together. Pure.

An event is never changed or taken back; a later one replaces what it says. So two people never
overwrite each other, and the history of a group stays.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

_GROUP_ID = re.compile(r"g-[0-9a-f]{10}")


def is_group_id(text: str) -> bool:
    """Whether *text* is an id as analyses make it."""
    return _GROUP_ID.fullmatch(text) is not None


class EventKind(StrEnum):
    """What an event is about."""

    DECIDED = "decided"
    NOTED = "noted"
    SNOOZED = "snoozed"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """One thing that somebody said about a group.

    Attributes:
        time: when, in UTC, by the clock of the one who said it.
        who: ``user@host``; see ``actor``.
        event_id: sorts by the order in which events were written; empty before it is written.
        action: decided: the group's new action in the plan *plan_id*.
        text: the note, in the user's own words; empty takes an earlier one away; None says nothing
            of it, or was not loaded: *has_text* tells.
        has_text: whether the event has a text.
        owner: noted: who looks after the group; empty for nobody; None says nothing of it.
        ticket: noted: likewise.
        until: snoozed: no notice names the group before; None ends an earlier snooze.
        version: resolved: the consumer's version that no longer fails.
    """

    group_id: str
    kind: EventKind
    time: datetime
    who: str
    event_id: str = ""
    action: str | None = None
    plan_id: str | None = None
    text: str | None = None
    has_text: bool = False
    owner: str | None = None
    ticket: str | None = None
    until: datetime | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class GroupState:
    """What the events of a group say together.

    Attributes:
        action: the last decision in a plan; None if there was none.
        decided_at: when.
        note: the text of the last note, if it was loaded.
        note_event: the event that has it; None without a note.
        owner: who looks after the group; empty for nobody.
        ticket: likewise.
        snoozed_until: None if it is not snoozed.
        resolved_in: the version that was said to resolve it last; None if nobody said so.
        resolved_at: when it was said.
    """

    action: str | None = None
    decided_at: datetime | None = None
    note: str = ""
    note_event: GroupEvent | None = None
    owner: str = ""
    ticket: str = ""
    snoozed_until: datetime | None = None
    resolved_in: str | None = None
    resolved_at: datetime | None = None

    def is_snoozed(self, now: datetime) -> bool:
        """Whether no notice names the group at *now*."""
        return self.snoozed_until is not None and self.snoozed_until > now


def fold(events: Iterable[GroupEvent]) -> GroupState:
    """Return what the *events* of one group say together, in whatever order they come.

    The last event of each kind counts. A group that is resolved after it was snoozed is snoozed no
    longer: if it fails again, somebody wants to know.
    """
    last: dict[EventKind, GroupEvent] = {}
    noted: GroupEvent | None = None
    owner = ticket = ""
    for event in sorted(events, key=lambda one: one.event_id):
        last[event.kind] = event
        if event.has_text:
            noted = event
        owner = owner if event.owner is None else event.owner
        ticket = ticket if event.ticket is None else event.ticket
    decided, snoozed = last.get(EventKind.DECIDED), last.get(EventKind.SNOOZED)
    resolved = last.get(EventKind.RESOLVED)
    if snoozed and resolved and snoozed.event_id < resolved.event_id:
        snoozed = None
    return GroupState(
        action=decided.action if decided else None,
        decided_at=decided.time if decided else None,
        note=(noted and noted.text) or "",
        note_event=noted,
        owner=owner,
        ticket=ticket,
        snoozed_until=snoozed.until if snoozed else None,
        resolved_in=resolved.version if resolved else None,
        resolved_at=resolved.time if resolved else None,
    )
