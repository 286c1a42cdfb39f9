"""``note``: writes down what people know about a group, and who looks after it."""

import argparse
from dataclasses import dataclass

from spark_reprocess.archive.files import open_archive
from spark_reprocess.command_line.arguments import add_group
from spark_reprocess.command_line.group_events import NAME_CHARACTERS, TEXT_CHARACTERS, say
from spark_reprocess.command_line.verb import DONE, Verb
from spark_reprocess.errors import InputError
from spark_reprocess.triage.events import EventKind

_ABOUT = """\
Writes down a note about a group, who looks after it, and its ticket. Every later report shows the
last of each; earlier ones stay in the archive. The text is your own and is not masked: put no
person's data into it. Sends nothing. Needs no Spark."""


@dataclass(frozen=True, slots=True)
class NoteOptions:
    """What is said about a group; None says nothing, an empty text takes an earlier one away."""

    archive: str
    group_id: str
    text: str | None = None
    owner: str | None = None
    ticket: str | None = None


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_group(parser)
    add = parser.add_argument
    add("text", nargs="?", metavar="TEXT", help="the note; '' takes the last one away")
    add("--owner", metavar="NAME", help="who looks after the group; '' for nobody")
    add("--ticket", metavar="ID", help="where it is worked on: an id, or a URL; '' for none")


def _run(options: NoteOptions) -> int:
    limits = {"text": TEXT_CHARACTERS, "owner": NAME_CHARACTERS, "ticket": NAME_CHARACTERS}
    said = {name: getattr(options, name) for name in limits}
    if all(value is None for value in said.values()):
        raise InputError("say something: TEXT, --owner or --ticket")
    for name, most in limits.items():
        if len(said[name] or "") > most:
            raise InputError(f"{name}: has {len(said[name]):,} characters; at most {most:,}")
        # What a shell passes on may hold half a character.
        if said[name] is not None:
            said[name] = said[name].encode("utf-8", "replace").decode()
    say(open_archive(options.archive), options.group_id, EventKind.NOTED, **said)
    return DONE


VERB = Verb(_ABOUT, _add_arguments, NoteOptions, _run)
