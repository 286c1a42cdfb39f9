"""``resolve``: says in which version of the consumer a group is resolved."""

import argparse
from dataclasses import dataclass

from spark_reprocess.archive.files import open_archive
from spark_reprocess.command_line.arguments import add_group
from spark_reprocess.command_line.group_events import say
from spark_reprocess.command_line.verb import DONE, Verb
from spark_reprocess.triage.events import EventKind
from spark_reprocess.triage.versions import VERSION_CHARACTERS, is_version

_ABOUT = """\
Writes down that a version of the consumer no longer fails on the messages of a group. If messages
fail on this version or on a later one, the next analysis calls the group regressed. Messages that
failed on an earlier version never do that, whenever they arrive. Said again, the last version
counts. Decides nothing and sends nothing. Needs no Spark."""


@dataclass(frozen=True, slots=True)
class ResolveOptions:
    """Which group, and in which version of the consumer."""

    archive: str
    group_id: str
    version: str


def _add_arguments(parser: argparse.ArgumentParser) -> None:
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


def _run(options: ResolveOptions) -> int:
    archive = open_archive(options.archive)
    say(archive, options.group_id, EventKind.RESOLVED, version=options.version)
    return DONE


VERB = Verb(_ABOUT, _add_arguments, ResolveOptions, _run)
