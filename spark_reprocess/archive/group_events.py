"""What an archive remembers of its groups: ``groups/``.

- ``groups/<group id>/<event id>.json``: what one person said about one group, created if absent and
  never changed: two people never overwrite each other. See ``triage.events``.
- ``groups/seen/<report id>.json``: one file per analysis, written after its report. It has all that
  was remembered then: what analyses saw of each group, and the events that were read, without the
  texts of notes, which stay in one file each.

So a reader lists ``groups/``, opens the newest file of an analysis, and then only what is newer:
the events since, and files of analyses that ran at the same time. That is one file for 1,000
groups, and does not grow with the number of analyses or of events.

An analysis that is killed leaves no file here: the next one repeats what it would have said.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from spark_reprocess.archive.files import RECORD_DAMAGE, Archive, new_id
from spark_reprocess.triage.events import EventKind, GroupEvent
from spark_reprocess.triage.status import (
    REMEMBERED_REPORTS,
    GroupMemory,
    SeenGroup,
    Status,
    merged,
)

GROUPS = "groups"
SEEN = f"{GROUPS}/seen"

_CONCURRENT_READS = 16
_JSON = ".json"

_Record = TypeVar("_Record")


def add_event(archive: Archive, event: GroupEvent) -> GroupEvent:
    """Write *event* down durably; return it with the id that it has got.

    It comes after all that was said about the group before, whatever the clocks of those who said
    it.

    Raises:
        ArchiveError: it cannot be written, or S3 does not say whether it was. To say it again is
            harmless.
    """
    while True:
        others = archive.list(f"{GROUPS}/{event.group_id}")
        named = replace(event, event_id=new_id(event.time.timestamp(), others))
        content = json.dumps(_event_fields(named), indent=1)
        if archive.create(_event_path(named), content.encode()):
            return named


def read_memory(archive: Archive) -> GroupMemory:
    """Read what is remembered. The texts of notes are not loaded: see ``with_notes``.

    A damaged file is left out and named in ``unreadable``: one record does not stop all others.

    Raises:
        ArchiveError: the archive cannot be read.
    """
    paths = [path for path in archive.list(GROUPS) if path.endswith(_JSON)]
    seen = [path for path in paths if path.startswith(f"{SEEN}/")]
    memory = _seen_memory(archive, seen)
    read = {_event_path(event) for events in memory.events.values() for event in events}
    new = [path for path in paths if path not in read and not path.startswith(f"{SEEN}/")]
    events: defaultdict[str, list[GroupEvent]] = defaultdict(list)
    unreadable = []
    for path, event in zip(new, _read_events(archive, new), strict=True):
        if event is None:
            unreadable.append(path)
        else:
            # What the text says stays where it is: a file of an analysis must not copy it.
            events[event.group_id].append(replace(event, text=None))
    added = {one: tuple(of_group) for one, of_group in events.items()}
    return merged(memory, GroupMemory(events=added, unreadable=tuple(unreadable)))


def with_notes(
    archive: Archive, memory: GroupMemory, group_ids: Iterable[str]
) -> Mapping[str, str]:
    """Read the notes of these groups; return the texts by group id. Opens one file for each note.

    A note whose file was removed is left out.
    """
    events = [event for one in group_ids if (event := memory.state(one).note_event) is not None]
    found = _read_events(archive, [_event_path(event) for event in events])
    return {one.group_id: one.text for one in found if one is not None and one.text}


def read_texts(archive: Archive, events: Iterable[GroupEvent]) -> list[GroupEvent]:
    """Return the *events* with their texts. Opens one file for each event that has a text.

    A text whose file was removed is left out.
    """
    wanted = list(events)
    paths = [_event_path(event) for event in wanted if event.has_text]
    found = {one.event_id: one.text for one in _read_events(archive, paths) if one is not None}
    return [replace(event, text=found.get(event.event_id)) for event in wanted]


def write_seen(archive: Archive, report_id: str, at: datetime, memory: GroupMemory) -> None:
    """Write down what is remembered after an analysis, durably, once its report is there.

    Raises:
        ArchiveError: it cannot be written; then the next analysis repeats what this one said.
    """
    content = {
        "report_id": report_id,
        "analyzed_at": at.isoformat(),
        "reports": memory.reports,
        "first_seen": memory.first_seen,
        # The daily notice reads statuses and snoozes here, and folds no events.
        "groups": {
            one: {**_seen_fields(seen), "snoozed_until": _iso(memory.state(one).snoozed_until)}
            for one, seen in memory.groups.items()
        },
        "events": [
            _event_fields(replace(event, text=None))
            for events in memory.events.values()
            for event in events
        ],
    }
    archive.create(f"{SEEN}/{report_id}{_JSON}", json.dumps(content).encode())


def _seen_memory(archive: Archive, paths: list[str]) -> GroupMemory:
    """Read the newest file of an analysis, and those that it does not include."""
    memory, unreadable = GroupMemory(), []
    newest = sorted(paths, reverse=True)[:REMEMBERED_REPORTS]
    for path in newest:
        if _report_id(path) in memory.reports:
            continue
        found = _attempt(archive, path, _seen_from)
        if found is None:
            unreadable.append(path)
        else:
            # What was read before is newer: of two that say different things it counts.
            memory = merged(found, memory)
    return replace(memory, unreadable=tuple(unreadable))


def _read_events(archive: Archive, paths: list[str]) -> list[GroupEvent | None]:
    def read(path: str) -> GroupEvent | None:
        return _attempt(archive, path, _event_from)

    if not paths:
        return []
    with ThreadPoolExecutor(_CONCURRENT_READS) as executor:
        return list(executor.map(read, paths))


def _attempt(archive: Archive, path: str, parse: Callable[[str, Any], _Record]) -> _Record | None:
    """Read the record at *path*; None where it is gone or damaged."""
    content = archive.read(path)
    if content is None:
        return None
    try:
        return parse(path, json.loads(content))
    except RECORD_DAMAGE:
        return None


def _report_id(path: str) -> str:
    return path.rsplit("/", 1)[1].removesuffix(_JSON)


def _event_path(event: GroupEvent) -> str:
    return f"{GROUPS}/{event.group_id}/{event.event_id}{_JSON}"


def _event_fields(event: GroupEvent) -> dict[str, Any]:
    fields = {
        "id": event.event_id,
        "group_id": event.group_id,
        "kind": event.kind.value,
        "time": event.time.isoformat(),
        "who": event.who,
        "action": event.action,
        "plan_id": event.plan_id,
        "text": event.text,
        "has_text": event.has_text or event.text is not None or None,
        "owner": event.owner,
        "ticket": event.ticket,
        "until": _iso(event.until),
        "in_version": event.version,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _event_from(path: str, raw: Any) -> GroupEvent:  # noqa: ANN401 - of a file
    """Parse an event. Its place says which it is, and of which group."""
    _, group_id, name = path.split("/")
    return _event({**raw, "group_id": group_id, "id": name.removesuffix(_JSON)})


def _event(raw: Any) -> GroupEvent:  # noqa: ANN401 - of a file
    until = raw.get("until")
    return GroupEvent(
        event_id=str(raw["id"]),
        group_id=str(raw["group_id"]),
        kind=EventKind(raw["kind"]),
        time=_time(raw["time"]),
        who=str(raw["who"]),
        action=_text(raw, "action"),
        plan_id=_text(raw, "plan_id"),
        text=_text(raw, "text"),
        has_text=bool(raw.get("has_text")),
        owner=_text(raw, "owner"),
        ticket=_text(raw, "ticket"),
        until=None if until is None else _time(until),
        version=_text(raw, "in_version"),
    )


def _seen_fields(seen: SeenGroup) -> dict[str, Any]:
    return {
        "first_seen_at": seen.first_seen_at.isoformat(),
        "last_seen_at": seen.last_seen_at.isoformat(),
        "report_id": seen.report_id,
        "count": seen.count,
        "first_sent_at": _iso(seen.first_sent_at),
        "last_sent_at": _iso(seen.last_sent_at),
        "versions": seen.versions,
        "status": seen.status.value,
    }


def _seen_from(path: str, raw: Any) -> GroupMemory:  # noqa: ANN401 - of a file
    events: defaultdict[str, list[GroupEvent]] = defaultdict(list)
    for one in raw["events"]:
        event = _event(one)
        events[event.group_id].append(event)
    return GroupMemory(
        groups={str(one): _seen_group(str(one), seen) for one, seen in raw["groups"].items()},
        events={one: tuple(of_group) for one, of_group in events.items()},
        first_seen={str(version): str(one) for version, one in raw["first_seen"].items()},
        reports=tuple(sorted({*map(str, raw["reports"]), _report_id(path)})),
    )


def _seen_group(group_id: str, raw: Any) -> SeenGroup:  # noqa: ANN401 - of a file
    first, last = raw["first_sent_at"], raw["last_sent_at"]
    return SeenGroup(
        group_id=group_id,
        first_seen_at=_time(raw["first_seen_at"]),
        last_seen_at=_time(raw["last_seen_at"]),
        report_id=str(raw["report_id"]),
        count=int(raw["count"]),
        first_sent_at=None if first is None else _time(first),
        last_sent_at=None if last is None else _time(last),
        versions=tuple(map(str, raw["versions"])),
        status=Status(raw["status"]),
    )


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("a time without a zone")
    return time


def _text(raw: Any, name: str) -> str | None:  # noqa: ANN401 - of a file
    value = raw.get(name)
    return None if value is None else str(value)
