"""``snooze``: keeps a group out of the daily notice until a time."""

import argparse
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spark_reprocess.archive.files import open_archive
from spark_reprocess.command_line.arguments import add_group, duration, moment
from spark_reprocess.command_line.group_events import say
from spark_reprocess.command_line.verb import DONE, Verb
from spark_reprocess.errors import InputError
from spark_reprocess.triage.events import EventKind

_ABOUT = """\
Keeps a group out of the daily notice until a time. Reports show it as before, and say until when.
A group that is resolved later is snoozed no longer: if it fails again, the notice names it. Sends
nothing. Needs no Spark."""


@dataclass(frozen=True, slots=True)
class SnoozeOptions:
    """Which group, and how long: exactly one of *until* and *length*, or *ends*."""

    archive: str
    group_id: str
    until: datetime | None = None
    length: timedelta | None = None
    ends: bool = False


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_group(parser)
    how_long = parser.add_mutually_exclusive_group(required=True)
    how_long.add_argument(
        "--until", type=moment, metavar="DATE", help="2026-12-01, or 2026-12-01T09:30:00Z"
    )
    how_long.add_argument(
        "--for", dest="length", type=duration, metavar="LENGTH", help="12h, 3d, 2w"
    )
    how_long.add_argument("--end", dest="ends", action="store_true", help="end an earlier snooze")


def _run(options: SnoozeOptions) -> int:
    now = datetime.now(UTC)
    until = options.until
    if options.length is not None:
        try:
            until = (now + options.length).replace(microsecond=0)
        except OverflowError as error:
            raise InputError("--for: ends after the year 9999") from error
    if not options.ends and (until is None or until <= now):
        raise InputError("--until: must be in the future; --end ends an earlier snooze")
    say(open_archive(options.archive), options.group_id, EventKind.SNOOZED, until=until)
    return DONE


VERB = Verb(_ABOUT, _add_arguments, SnoozeOptions, _run)
