"""What a new analysis makes of a group: its status, and what is remembered of it. Pure.

Versions are compared, not clocks: messages that failed on an older version than the one that
resolved a group never make it regressed, whenever they arrive.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from spark_reprocess.triage.events import GroupEvent, GroupState, fold

REMEMBERED_GROUPS = 10_000
"""Groups that are remembered though nobody said anything about them: those that were seen last."""

REMEMBERED_REPORTS = 200
_VERSIONS_OF_A_GROUP = 100
_VERSIONS = 1_000

_LATEST = "$LATEST"
"""What Lambda calls code that has no version: it changes under the same name."""

VERSION_CHARACTERS = 64
"""Of a version at most; it is printable ASCII."""

_NUMBER = re.compile(r"[0-9]{1,6}")
"""Longer ones may be commits: seven hex digits are all decimal in one of thirty."""

_NUMERIC = r"0|[1-9][0-9]*"
_IDENTIFIER = rf"(?:{_NUMERIC}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMANTIC = re.compile(
    rf"v?(?P<core>(?:{_NUMERIC})\.(?:{_NUMERIC})\.(?:{_NUMERIC}))"
    rf"(?:-(?P<pre>{_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+[0-9A-Za-z.-]+)?"
)

_Key = tuple[tuple[int, ...], tuple[tuple[int, int, str], ...]]


class Status(StrEnum):
    """A group's status in a report, in the order of the report's headline.

    Attributes:
        REGRESSED: messages failed on the version that resolved it, or on a later one.
        NEW: no earlier analysis listed it.
        SEEN_AGAIN: it is back after it was gone, or messages arrived after it was resolved, and
            nothing tells whether they failed on a version with the fix.
        KNOWN: an earlier analysis listed it, and nobody said that it is resolved.
        RESOLVED: all that is left of it failed before the version that resolved it.
        GONE: the analysis before listed it, and no message of it is undecided.
    """

    REGRESSED = "regressed"
    NEW = "new"
    SEEN_AGAIN = "seen again"
    KNOWN = "known"
    RESOLVED = "resolved"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class FailedOn:
    """Undecided messages of a group that failed on one version.

    Attributes:
        version: as the consumer recorded it; None where it recorded none.
        last_sent_at: when the last of them was sent to the parked queue; None if unknown.
    """

    version: str | None
    count: int
    last_sent_at: datetime | None


@dataclass(frozen=True, slots=True)
class Found:
    """A group as one analysis finds it."""

    group_id: str
    count: int
    first_sent_at: datetime | None
    last_sent_at: datetime | None
    failed_on: tuple[FailedOn, ...] = ()


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """What analyses saw of a group.

    Attributes:
        first_seen_at: when an analysis first listed it.
        last_seen_at: when one last did.
        report_id: of the last report that lists it.
        count: its undecided messages then.
        first_sent_at: when the first of all its messages that were seen was sent to the parked
            queue; None if unknown.
        last_sent_at: likewise the last.
        versions: on which messages failed, the last seen at the end; at most 100.
        status: in the last analysis that could tell.
    """

    group_id: str
    first_seen_at: datetime
    last_seen_at: datetime
    report_id: str
    count: int
    first_sent_at: datetime | None
    last_sent_at: datetime | None
    versions: tuple[str, ...]
    status: Status


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """What an archive remembers of its groups.

    Attributes:
        groups: by id, those that analyses saw.
        events: by group id, what people said; without the texts of notes.
        first_seen: by version, the first analysis that saw a message which failed on it.
        reports: ids of the analyses that are in here, ascending; the last 200.
        unreadable: paths of files that could not be read; what they say is missing.
    """

    groups: Mapping[str, SeenGroup] = field(default_factory=dict)
    events: Mapping[str, tuple[GroupEvent, ...]] = field(default_factory=dict)
    first_seen: Mapping[str, str] = field(default_factory=dict)
    reports: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    def state(self, group_id: str) -> GroupState:
        """Return what people say of a group."""
        return fold(self.events.get(group_id, ()))

    def knows(self, group_id: str) -> bool:
        """Whether an analysis saw the group, or somebody said anything about it."""
        return group_id in self.groups or group_id in self.events

    def failed_since(self, group_id: str, version: str) -> tuple[str, ...]:
        """Return the versions at or after *version* on which messages of the group failed."""
        seen = self.groups.get(group_id)
        return _at_or_after(version, seen.versions if seen else (), self.first_seen)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an analysis makes of all groups.

    Attributes:
        statuses: of the groups that it lists, by id.
        gone: ids of those that are gone since the analysis before, ascending.
        memory: what is remembered from now on.
    """

    statuses: Mapping[str, Status]
    gone: tuple[str, ...]
    memory: GroupMemory


def status_of(
    before: SeenGroup | None,
    state: GroupState,
    failed_on: Sequence[FailedOn],
    first_seen: Mapping[str, str],
) -> Status:
    """Return the status of a group that has undecided messages, *failed_on* by version.

    *before* is what earlier analyses saw of it, *state* what people say of it; *first_seen* as for
    ``compare``.
    """
    if state.resolved_in is None or state.resolved_at is None:
        if before is None:
            return Status.NEW
        return Status.SEEN_AGAIN if before.status is Status.GONE else Status.KNOWN
    # A failure on the fixed version disproves the fix, also after its message was decided.
    versions = [one.version for one in failed_on if one.version is not None]
    ever = [*(before.versions if before else ()), *versions]
    if _at_or_after(state.resolved_in, ever, first_seen):
        return Status.REGRESSED
    for one in failed_on:
        has_order = compare(one.version, state.resolved_in, first_seen) is not None
        if not has_order and one.last_sent_at is not None and one.last_sent_at > state.resolved_at:
            return Status.SEEN_AGAIN
    return Status.RESOLVED


def _at_or_after(
    version: str, others: Iterable[str], first_seen: Mapping[str, str]
) -> tuple[str, ...]:
    orders = {one: compare(one, version, first_seen) for one in others}
    return tuple(one for one, order in orders.items() if order is not None and order >= 0)


def outcome(
    memory: GroupMemory,
    report_id: str,
    now: datetime,
    found: Iterable[Found],
    unlisted: Collection[str] = (),
    *,
    is_whole: bool = True,
) -> Outcome:
    """Return the statuses, and what is remembered after this analysis.

    Args:
        memory: what was remembered before.
        report_id: of this analysis.
        now: when it runs.
        found: the groups that it lists.
        unlisted: groups of *memory* that have undecided messages and are not listed.
        is_whole: whether it looked at all messages; only then a group can be gone.
    """
    listed = {one.group_id: one for one in found}
    first_seen = _first_seen(memory.first_seen, report_id, listed.values())
    statuses = {
        group_id: status_of(
            memory.groups.get(group_id), memory.state(group_id), one.failed_on, first_seen
        )
        for group_id, one in listed.items()
    }
    there = {*listed, *unlisted}
    gone = tuple(
        group_id
        for group_id, seen in sorted(memory.groups.items())
        if is_whole and seen.status is not Status.GONE and group_id not in there
    )
    groups = dict(memory.groups)
    groups.update((one, replace(groups[one], status=Status.GONE)) for one in gone)
    groups.update(
        (one.group_id, _seen(groups.get(one.group_id), one, statuses[one.group_id], report_id, now))
        for one in listed.values()
    )
    after = GroupMemory(
        groups=_kept(groups, memory.events),
        events=memory.events,
        first_seen=first_seen,
        reports=tuple(sorted({*memory.reports, report_id}))[-REMEMBERED_REPORTS:],
        unreadable=memory.unreadable,
    )
    return Outcome(statuses, gone, after)


def merged(one: GroupMemory, other: GroupMemory) -> GroupMemory:
    """Return what two memories say together, whichever comes first."""
    groups = dict(one.groups)
    for group_id, seen in other.groups.items():
        groups[group_id] = _merged(groups[group_id], seen) if group_id in groups else seen
    events = dict(one.events)
    for group_id, added in other.events.items():
        by_id = {event.event_id: event for event in (*events.get(group_id, ()), *added)}
        events[group_id] = tuple(event for _, event in sorted(by_id.items()))
    first_seen = dict(one.first_seen)
    for version, report_id in other.first_seen.items():
        first_seen[version] = min(report_id, first_seen.get(version, report_id))
    return GroupMemory(
        groups=groups,
        events=events,
        first_seen=first_seen,
        reports=tuple(sorted({*one.reports, *other.reports}))[-REMEMBERED_REPORTS:],
        unreadable=(*one.unreadable, *other.unreadable),
    )


def _merged(one: SeenGroup, other: SeenGroup) -> SeenGroup:
    older, newer = sorted((one, other), key=lambda seen: (seen.last_seen_at, seen.report_id))
    return replace(
        newer,
        first_seen_at=min(older.first_seen_at, newer.first_seen_at),
        first_sent_at=_least(older.first_sent_at, newer.first_sent_at),
        last_sent_at=_greatest(older.last_sent_at, newer.last_sent_at),
        versions=_last_versions(older.versions, newer.versions),
    )


def _seen(
    before: SeenGroup | None, found: Found, status: Status, report_id: str, now: datetime
) -> SeenGroup:
    failed_on = sorted(found.failed_on, key=lambda one: (str(one.last_sent_at), str(one.version)))
    versions = tuple(one.version for one in failed_on if one.version and is_version(one.version))
    seen = SeenGroup(
        group_id=found.group_id,
        first_seen_at=now,
        last_seen_at=now,
        report_id=report_id,
        count=found.count,
        first_sent_at=found.first_sent_at,
        last_sent_at=found.last_sent_at,
        versions=_last_versions((), versions),
        status=status,
    )
    if before is None:
        return seen
    return replace(
        seen,
        first_seen_at=before.first_seen_at,
        first_sent_at=_least(before.first_sent_at, found.first_sent_at),
        last_sent_at=_greatest(before.last_sent_at, found.last_sent_at),
        versions=_last_versions(before.versions, versions),
    )


def _last_versions(earlier: Iterable[str], later: Iterable[str]) -> tuple[str, ...]:
    # Of equal ones the last place counts.
    newest_first = dict.fromkeys(reversed([*earlier, *later]))
    return tuple(reversed([*newest_first][:_VERSIONS_OF_A_GROUP]))


def _first_seen(
    before: Mapping[str, str], report_id: str, found: Iterable[Found]
) -> dict[str, str]:
    versions = {one.version for group in found for one in group.failed_on if one.version}
    known = {**{one: report_id for one in versions if is_version(one)}, **before}
    newest = sorted(known.items(), key=lambda pair: (pair[1], pair[0]))[-_VERSIONS:]
    return dict(newest)


def _kept(
    groups: Mapping[str, SeenGroup], events: Mapping[str, tuple[GroupEvent, ...]]
) -> dict[str, SeenGroup]:
    newest = sorted(groups.values(), key=lambda one: (one.last_seen_at, one.group_id))
    kept = {one.group_id for one in newest[-REMEMBERED_GROUPS:]}
    return {one: seen for one, seen in groups.items() if one in kept or one in events}


def _least(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((time for time in (one, other) if time is not None), default=None)


def _greatest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((time for time in (one, other) if time is not None), default=None)


def is_version(text: str) -> bool:
    """Whether *text* can be the version of a consumer: ``$LATEST`` names none."""
    is_printable = text.isascii() and text.isprintable() and text == text.strip()
    return is_printable and 0 < len(text) <= VERSION_CHARACTERS and text != _LATEST


def compare(one: str | None, other: str | None, first_seen: Mapping[str, str]) -> int | None:
    """Compare two versions.

    As whole numbers if both are (a Lambda version, a build number), else as semantic versions if
    both are, else by the analyses that first saw messages which failed on them. Where none of these
    gives an order, there is none: nobody guesses.

    Args:
        one: a version; None and ``$LATEST`` have no order.
        other: another.
        first_seen: by version, the id of the analysis that first saw a message which failed on it.
            The ids sort by time.

    Returns:
        A number below, equal to or above 0 as *one* comes before *other*, is the same or comes
        after it; None if no order is known.
    """
    if one is None or other is None or not is_version(one) or not is_version(other):
        return None
    if one == other:
        return 0
    if _NUMBER.fullmatch(one) and _NUMBER.fullmatch(other):
        return int(one) - int(other)
    keys = _semantic_key(one), _semantic_key(other)
    if keys[0] is not None and keys[1] is not None:
        # Equal ones differ in their build, which has no order.
        return _sign(keys[0] > keys[1], keys[0] < keys[1]) or None
    seen = first_seen.get(one), first_seen.get(other)
    if seen[0] is not None and seen[1] is not None:
        return _sign(seen[0] > seen[1], seen[0] < seen[1]) or None
    return None


def _sign(is_above: bool, is_below: bool) -> int:
    return int(is_above) - int(is_below)


def _semantic_key(text: str) -> _Key | None:
    found = _SEMANTIC.fullmatch(text)
    if found is None:
        return None
    core = tuple(map(int, found["core"].split(".")))
    # A release comes after all of its pre-releases; numbers come before words.
    parts = found["pre"].split(".") if found["pre"] else []
    pre = tuple((0, int(one), "") if one.isdecimal() else (1, 0, one) for one in parts)
    return core, (pre or ((2, 0, ""),))
