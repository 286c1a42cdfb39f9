"""``note``, ``resolve`` and ``snooze``: write down what the user says about a group."""

import argparse
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from spark_reprocess.actor import actor
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.group_events import add_event, read_memory
from spark_reprocess.command_line.arguments import add_group, duration, moment
from spark_reprocess.command_line.terminal import print_answer, print_line
from spark_reprocess.command_line.verb import DONE, Verb
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan_file import find_plan
from spark_reprocess.triage.events import EventKind, GroupEvent, fold, is_group_id
from spark_reprocess.triage.status import VERSION_CHARACTERS, GroupMemory, is_version

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


def _say(place: str, group_id: str, kind: EventKind, **values: Any) -> int:  # noqa: ANN401 - of GroupEvent
    """Check that the group exists, write down what is said, and print what is said of it now.

    Raises:
        InputError: neither an analysis nor the newest plan names the group.
        ArchiveError: the archive cannot be read or written.
    """
    archive = open_archive(place)
    memory = _require_group(archive, group_id)
    event = record_event(archive, group_id, kind, **values)
    state = fold([*memory.events.get(group_id, ()), event])
    version = event.version
    answer = GroupAnswer(
        group_id,
        event.event_id,
        state.owner,
        state.ticket,
        state.snoozed_until,
        state.resolved_in,
        () if version is None else memory.failed_since(group_id, version),
    )
    print_answer(answer, lambda: _print(answer, event.kind))
    return DONE


def _print(answer: GroupAnswer, kind: EventKind) -> None:
    match kind:
        case EventKind.RESOLVED:
            said = f"resolved in version {answer.resolved_in}"
        case EventKind.SNOOZED if answer.snoozed_until:
            said = f"snoozed until {answer.snoozed_until:%Y-%m-%d %H:%M} UTC"
        case EventKind.SNOOZED:
            said = "no longer snoozed"
        case _:
            owner, ticket = answer.owner, answer.ticket
            words = (owner and f"owner {owner}", ticket and f"ticket {ticket}")
            said = ", ".join(["noted", *filter(None, words)])
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
    if not memory.knows(group_id):
        plan = find_plan(archive, None).plan()
        if group_id not in plan.actions:
            raise InputError(
                f"archive {archive.root}: no analysis lists group {group_id}; groups prints those "
                "of the newest report"
            )
    return memory


_ABOUT_NOTE = """\
Writes down a note about a group, who looks after it, and its ticket. Every later report shows the
last of each; earlier ones stay in the archive. The text is your own and is not masked: put no
person's data into it. Sends nothing. Needs no Spark."""


def _add_note(parser: argparse.ArgumentParser) -> None:
    add_group(parser)
    add = parser.add_argument
    add("text", nargs="?", metavar="TEXT", help="the note; '' takes the last one away")
    add("--owner", metavar="NAME", help="who looks after the group; '' for nobody")
    add("--ticket", metavar="ID", help="where it is worked on: an id, or a URL; '' for none")


def _note(archive: str, group_id: str, **said: str | None) -> int:
    """None says nothing, an empty text takes an earlier one away."""
    if all(value is None for value in said.values()):
        raise InputError("say something: TEXT, --owner or --ticket")
    for name, value in said.items():
        most = TEXT_CHARACTERS if name == "text" else NAME_CHARACTERS
        if len(value or "") > most:
            raise InputError(f"{name}: has {len(value or ''):,} characters; at most {most:,}")
        # What a shell passes on may hold half a character.
        if value is not None:
            said[name] = value.encode("utf-8", "replace").decode()
    return _say(archive, group_id, EventKind.NOTED, **said)


_ABOUT_RESOLVE = """\
Writes down that a version of the consumer no longer fails on the messages of a group. If messages
fail on this version or on a later one, the next analysis calls the group regressed. Messages that
failed on an earlier version never do that, whenever they arrive. Said again, the last version
counts. Decides nothing and sends nothing. Needs no Spark."""


def _add_resolve(parser: argparse.ArgumentParser) -> None:
    add_group(parser)
    parser.add_argument(
        "--in-version",
        dest="version",
        type=_version,
        required=True,
        metavar="V",
        help="as the consumer records it: the release that it was given, or the number of the "
        "Lambda version",
    )


def _version(text: str) -> str:
    if not is_version(text):
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be a version of 1 to {VERSION_CHARACTERS} printable characters; "
            "$LATEST is none, because its code changes"
        )
    return text


def _resolve(archive: str, group_id: str, version: str) -> int:
    return _say(archive, group_id, EventKind.RESOLVED, version=version)


_ABOUT_SNOOZE = """\
Keeps a group out of the daily notice until a time. Reports show it as before, and say until when.
A group that is resolved later is snoozed no longer: if it fails again, the notice names it. Sends
nothing. Needs no Spark."""


def _add_snooze(parser: argparse.ArgumentParser) -> None:
    add_group(parser)
    how_long = parser.add_mutually_exclusive_group(required=True)
    how_long.add_argument(
        "--until", type=moment, metavar="DATE", help="2026-12-01, or 2026-12-01T09:30:00Z"
    )
    how_long.add_argument(
        "--for", dest="length", type=duration, metavar="LENGTH", help="12h, 3d, 2w"
    )
    how_long.add_argument("--end", dest="ends", action="store_true", help="end an earlier snooze")


def _snooze(
    archive: str, group_id: str, until: datetime | None, length: timedelta | None, *, ends: bool
) -> int:
    """Exactly one of *until* and *length* is given, or *ends*."""
    now = datetime.now(UTC)
    if length is not None:
        try:
            until = (now + length).replace(microsecond=0)
        except OverflowError as error:
            raise InputError("--for: ends after the year 9999") from error
    if not ends and (until is None or until <= now):
        raise InputError("--until: must be in the future; --end ends an earlier snooze")
    return _say(archive, group_id, EventKind.SNOOZED, until=until)


VERBS = {
    "note": Verb(_ABOUT_NOTE, _add_note, dict, lambda options: _note(**options)),
    "resolve": Verb(_ABOUT_RESOLVE, _add_resolve, dict, lambda options: _resolve(**options)),
    "snooze": Verb(_ABOUT_SNOOZE, _add_snooze, dict, lambda options: _snooze(**options)),
}
