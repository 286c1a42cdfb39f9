"""Writes down what the user says about a group, for the verbs that do so."""

import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from spark_reprocess.actor import actor
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.group_events import add_event, read_memory
from spark_reprocess.command_line.terminal import print_answer, print_line
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan_file import find_plan
from spark_reprocess.plan.reading import read_plan
from spark_reprocess.triage.events import EventKind, GroupEvent, GroupState, fold, is_group_id
from spark_reprocess.triage.status import GroupMemory

TEXT_CHARACTERS = 2_000
"""Of a note at most."""

NAME_CHARACTERS = 200
"""Of an owner or a ticket at most."""


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """What is said of a group now.

    Attributes:
        event_id: what was written down; it stays.
        failed_since: versions at or after *resolved_in* on which its messages failed already: the
            next analysis calls the group regressed.
    """

    group_id: str
    event_id: str
    owner: str
    ticket: str
    snoozed_until: datetime | None
    resolved_in: str | None
    failed_since: tuple[str, ...] = ()


def record_event(archive: Archive, group_id: str, kind: EventKind, **values: Any) -> GroupEvent:  # noqa: ANN401 - of GroupEvent
    """Write down what the user says now about a group; *values* as in ``GroupEvent``.

    Raises:
        ArchiveError: it cannot be written. To say it again is harmless.
    """
    now = datetime.fromtimestamp(time.time(), UTC)
    return add_event(archive, GroupEvent(group_id, kind, now, actor(), **values))


def say(archive: Archive, group_id: str, kind: EventKind, **values: Any) -> None:  # noqa: ANN401 - of GroupEvent
    """Check that the group exists, write down what is said, and print what is said of it now.

    Raises:
        InputError: neither an analysis nor the newest plan names the group.
        ArchiveError: the archive cannot be read or written.
    """
    memory = _require_group(archive, group_id)
    event = record_event(archive, group_id, kind, **values)
    state = fold([*memory.events.get(group_id, ()), event])
    version = event.version
    failed_since = () if version is None else memory.failed_since(group_id, version)
    answer = GroupAnswer(
        group_id,
        event.event_id,
        state.owner,
        state.ticket,
        state.snoozed_until,
        state.resolved_in,
        failed_since,
    )
    print_answer(asdict(answer), lambda: _print(answer, state, event))


def _print(answer: GroupAnswer, state: GroupState, event: GroupEvent) -> None:
    match event.kind:
        case EventKind.RESOLVED:
            said = f"resolved in version {answer.resolved_in}"
        case EventKind.SNOOZED if state.snoozed_until:
            said = f"snoozed until {state.snoozed_until:%Y-%m-%d %H:%M} UTC"
        case EventKind.SNOOZED:
            said = "no longer snoozed"
        case _:
            who = (
                state.owner and f"owner {state.owner}",
                state.ticket and f"ticket {state.ticket}",
            )
            said = ", ".join(["noted", *filter(None, who)])
    print_line(f"group {answer.group_id}: {said}")
    if answer.failed_since:
        print_line(
            f"note: its messages failed on {', '.join(answer.failed_since[-5:])} already, so the "
            "next analysis calls it regressed"
        )


def _require_group(archive: Archive, group_id: str) -> GroupMemory:
    if not is_group_id(group_id):
        raise InputError(f"{group_id}: is no id of a group; groups prints them: g-...")
    memory = read_memory(archive)
    if not memory.knows(group_id) and group_id not in _planned(archive):
        raise InputError(
            f"archive {archive.root}: no analysis lists group {group_id}; groups prints those of "
            "the newest report"
        )
    return memory


def _planned(archive: Archive) -> set[str]:
    return {group.group_id for group in read_plan(find_plan(archive, None).read()).groups}
