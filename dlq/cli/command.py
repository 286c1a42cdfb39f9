"""All verbs of ``dlq``: selects one, adds the values of the stack, and runs it."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import asdict, replace
from pathlib import Path
from sysconfig import get_path
from typing import TYPE_CHECKING

from rich_argparse import RawDescriptionRichHelpFormatter

from dlq.cli import running
from dlq.cli.terminal import AS_JSON, print_notice, while_it_is_read
from dlq.cli.verb import (
    BAD_INPUT,
    LOCAL,
    PLACE_WORDS,
    PROGRAM,
    SPARK,
    STACK,
    STACK_FILE,
    STACK_VARIABLE,
    TYPED,
    Section,
    Verb,
    VerbEntry,
)
from dlq.errors import InputError
from dlq_replay import __version__

if TYPE_CHECKING:
    from boto3.session import Session

_OWN = {
    "look": VerbEntry(Section.DAILY, "what failed in a queue; moves nothing, needs no stack"),
    "find": VerbEntry(Section.DAILY, "the messages that have a value, and their history"),
    "pause": VerbEntry(Section.DAILY, "stop automatic replay; dead letters stay in the DLQ"),
    "resume": VerbEntry(Section.DAILY, "start automatic replay again"),
    "rehearse": VerbEntry(Section.GROUP, "invoke your function with its messages; uses no queue"),
    "use": VerbEntry(Section.STACK, "choose the stack of commands that name none"),
    "completion": VerbEntry(Section.STACK, "print a script that completes commands in a shell"),
    "console": VerbEntry(Section.STACK, "a web page on this machine: see, decide, edit, redrive"),
    "mcp": VerbEntry(Section.STACK, "tools for an agent, which read and propose; none sends"),
    "doctor": VerbEntry(Section.STACK, "check queues, function and trigger; say what to change"),
}

ALL_VERBS: Mapping[str, VerbEntry] = {
    "look": _OWN["look"],
    "find": _OWN["find"],
    **running.VERBS,
    **_OWN,
}
"""Every verb of ``dlq``, in the order of its help within their sections: a look comes first."""

_OF_ARCHIVE = {*running.VERBS, "rehearse"}
"""Verbs with ``--archive``, whose options take their values from the stack."""

_OF_THIS_USER = {"use", "completion"}
"""Verbs that ask nothing of AWS."""

_INSTEAD_OF_PROFILE = (
    "AWS_DEFAULT_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
)
"""Environment variables that boto3 prefers to ``AWS_PROFILE``."""

ON_GLUE = "--on-glue"
_ENGINE = "--engine"
_HELP_OPTIONS = {"-h", "--help", "--help-all"}
_PLACE = {"stack", "region", "profile", "on_glue"}

_ABOUT = """\
Dead-letter handling for Amazon SQS: shows what failed and why, and redrives messages.

Give --stack NAME, set DLQ_STACK, or choose one by dlq use: the command then reads queue URLs,
archive and table from the outputs of that stack. Without a stack, give them as options."""

_EXAMPLES = f"""\
a group of messages, from the parked queue to the main queue:

  dlq use orders-replay
  dlq collect                          parked queue to archive; why the messages failed
  dlq groups                           the groups, and what is decided about each
  dlq redrive --group g-53cb1ad25b     a dry run
  dlq redrive --group g-53cb1ad25b --execute --reason "address service is back"

{running.SETTINGS}"""

_INSTALLED_DOCS = Path("share", "doc", "sqs-dlq-replay", "docs")
"""The folder in which the wheel puts the pages that help texts name, below the environment's."""


class _HelpFormatter(RawDescriptionRichHelpFormatter):
    """With colours on a terminal. Titles keep their case."""

    group_name_formatter = str


def main(
    argv: Sequence[str] | None = None,
    make_session: "Callable[[], Session] | None" = None,
) -> int:
    """Run one verb; return its exit code, see ``running.SETTINGS``.

    Args:
        argv: the words after ``dlq``; by default those of this process.
        make_session: makes the session that reads stacks from AWS, by default ``aws_session``. It
            is called after ``--region`` and ``--profile`` are applied.
    """
    words = list(sys.argv[1:] if argv is None else argv)

    def session() -> "Session":
        from dlq.aws.clients import aws_session

        return (make_session or aws_session)()

    return running.exit_code_of(lambda: _run(words, session), words)


def _run(words: list[str], make_session: "Callable[[], Session]") -> int:
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if not words:
        words = ["--help"]
    name, *rest = words

    if not name.startswith("-") and name not in ALL_VERBS:
        running.refuse_unknown_name("verb", name, ALL_VERBS)
    if name not in ALL_VERBS:
        # Help or the version: argparse answers and exits.
        with while_it_is_read():
            _overview().parse_args(words)
        return BAD_INPUT

    place, typed = _place_parser().parse_known_args(rest)
    is_list = _is_list(place.region) or _is_list(place.profile)
    # The chosen stack is in one place.
    if place.stack is None and not is_list and _takes_chosen_stack(name, rest):
        _fill_in_chosen_stack(place)

    lists_stacks = name == "status" and not place.stack and _names_no_archive(rest)
    if is_list and not lists_stacks:
        _refuse_several_places(rest)

    def run() -> int:
        STACK.set(place.stack or None)
        STACK_FILE.set(place.file)
        PLACE_WORDS.set(_words_of_place(place))
        TYPED.set((name, *typed))
        if lists_stacks:
            return _list_stacks(rest, place, make_session)
        with _environment(place.region, place.profile):
            return _run_verb(name, rest, place.stack or None, make_session)

    return copy_context().run(run)


def _is_list(value: str | None) -> bool:
    return value is not None and "," in value


def _refuse_several_places(words: Sequence[str]) -> None:
    """Raise InputError, unless *words* ask for help."""
    if _HELP_OPTIONS.isdisjoint(words):
        raise InputError(
            "--region and --profile: only the list of stacks, `dlq status --stack ''`, takes more "
            "than one; give one Region and one profile"
        )


def _words_of_place(place: argparse.Namespace) -> tuple[str, ...]:
    words: tuple[str, ...] = ()
    if place.region:
        words += ("--region", place.region)
    if place.profile:
        words += ("--profile", place.profile)
    return words


def _takes_chosen_stack(name: str, words: Sequence[str]) -> bool:
    """Return whether the stack of ``dlq use`` is that of a command, which names none.

    An archive that the command or the environment names beats it, as does the queue of a look.
    """
    if name in _OF_THIS_USER or not _HELP_OPTIONS.isdisjoint(words):
        return False
    if name == "look":
        parser, _ = _parser_of(name, words)
        return parser.parse_args(words).queue is None

    given = {argument.partition("=")[0] for argument in words}
    has_archive = name in _OF_ARCHIVE or name in ("find", "console", "mcp")
    names_archive = "--archive" in given or running.default_archive() is not None
    return not (has_archive and names_archive)


def _fill_in_chosen_stack(place: argparse.Namespace) -> None:
    """Put the stack of ``dlq use`` into *place*, and tell the reader. Raises InputError."""
    from dlq.stack.user_files import chosen_stack_file, described, read_chosen_stack

    chosen = read_chosen_stack(os.environ)
    if chosen is None:
        return

    place.stack = chosen.stack
    place.region = place.region or chosen.region
    place.profile = place.profile or chosen.profile
    place.file = str(chosen_stack_file(os.environ))
    if not AS_JSON.get():
        used = described(place.stack, place.region, place.profile)
        print_notice(f"{used} ({PROGRAM} use: {place.file})")


def _run_verb(
    name: str, words: list[str], stack: str | None, make_session: "Callable[[], Session]"
) -> int:
    from dlq.stack.outputs import required

    asks_for_help = not _HELP_OPTIONS.isdisjoint(words)

    if stack and name in _OF_ARCHIVE and not asks_for_help:
        # The given words come last, so their values override those of the stack.
        words = [*_words_of_stack(name, words, stack, make_session), *words]

    if ON_GLUE in words and name in running.VERBS and not asks_for_help:
        from dlq.cli.on_glue import run_on_glue

        parser, _ = _parser_of(name, words)
        values = vars(parser.parse_args(words))
        if values.pop("engine", None) == LOCAL:
            raise InputError(f"{_ENGINE} {LOCAL}: does not go with {ON_GLUE}, where Spark runs")
        return run_on_glue(make_session(), required(stack), name, _without_place(words), values)

    parser, verb = _parser_of(name, words)
    values = vars(parser.parse_args(words))
    if name == "completion":
        values["parser"] = _overview(has_arguments=True)
    elif name in _OWN and name not in _OF_THIS_USER:
        values |= {"stack": stack, "session": make_session()}
    elif name in running.VERBS:
        for option in _PLACE:
            values.pop(option, None)
    return running.Command.of(name, verb, values).run()


def _list_stacks(
    words: Sequence[str], place: argparse.Namespace, make_session: "Callable[[], Session]"
) -> int:
    """Run ``status`` without a stack: list those of each pair of Region and profile."""
    from dlq.stack.installations import Place, list_installations, places_of
    from dlq.stack.outputs import StackValues, read_stacks

    def read(place: Place) -> tuple[str | None, list[StackValues]]:
        with _environment(*place):
            session = make_session()
            return session.region_name, read_stacks(session)

    places = places_of(place.region, place.profile)
    verb = replace(load("status"), run=lambda _: list_installations(places, read))
    return running.Command("status", verb, None, as_json="--json" in words).run()


def load(name: str) -> Verb:
    """Return a verb of ``ALL_VERBS``; see ``running.load``."""
    if name in ("pause", "resume"):
        from dlq.cli.verbs.trigger import VERBS

        return VERBS[name]
    return running.load(name)


def _overview(*, has_arguments: bool = False) -> argparse.ArgumentParser:
    """Make the parser of ``dlq``; for a completion script with the arguments of all verbs."""
    installed = Path(get_path("data")) / _INSTALLED_DOCS
    where = f"\n\ndocs/ is {installed}" if installed.is_dir() else ""

    parser = running.Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} VERB [--stack NAME] [OPTION ...]",
        description=_ABOUT,
        epilog=f"{_EXAMPLES}{where}",
        formatter_class=_HelpFormatter,
        add_help=False,
    )
    for section in Section:
        parser.add_argument_group(section, "\n".join(_rows_of(section)))

    options = parser.add_argument_group("options", f"{PROGRAM} VERB --help lists those of a verb")
    options.add_argument("-h", "--help", action="help", help="print this help")
    options.add_argument(
        "--version", action="version", version=f"{PROGRAM} {__version__}", help="print the version"
    )

    # The groups above show the verbs. shtab completes only what has a help text.
    shown = "what to do" if has_arguments else argparse.SUPPRESS
    verbs = parser.add_subparsers(metavar="VERB", required=True, help=shown)
    if has_arguments:
        from dlq.cli.verbs.completion import complete_values

    for name, entry in ALL_VERBS.items():
        verb_parser = verbs.add_parser(name, description=entry.line, help=entry.line)
        if has_arguments:
            _fill(verb_parser, name, ())
            complete_values(verb_parser)
    return parser


def _rows_of(section: Section) -> Iterator[str]:
    """Yield a line for each verb of a section of the help."""
    for name, entry in ALL_VERBS.items():
        if entry.section is section:
            yield f"{name:<10} {entry.line}"


def _parser_of(name: str, words: Sequence[str] = ()) -> tuple[argparse.ArgumentParser, Verb]:
    parser = running.Parser(prog=f"{PROGRAM} {name}", formatter_class=_HelpFormatter)
    return parser, _fill(parser, name, words)


def _fill(parser: argparse.ArgumentParser, name: str, words: Sequence[str]) -> Verb:
    verb = load(name)
    if name in _OF_ARCHIVE:
        running.add_archive(parser)
    running.fill(parser, verb, words)

    if verb.has_engine:
        parser.add_argument(
            _ENGINE,
            choices=(LOCAL, SPARK),
            help="where bodies are read and sent: threads of this machine, or Spark, which needs "
            f"Java (default: {LOCAL} up to 10,000 messages and 256 MiB)",
        )

    installation = parser.add_argument_group("installation")
    if name not in _OF_THIS_USER:
        _add_stack(installation)
    if name != "completion":
        _add_location(installation)
    if name in running.VERBS:
        does = (
            "run the verb on the stack's AWS Glue job, wait for its end, and print its answer; "
            "Ctrl-C stops the run, and after a second one it goes on without this command"
        )
        # Where it is refused, the refusal says why.
        shown = argparse.SUPPRESS if running.VERBS[name].not_on_glue else does
        installation.add_argument(ON_GLUE, action="store_true", help=shown)
    return verb


def _place_parser() -> argparse.ArgumentParser:
    parser = running.PlainParser(prog=PROGRAM, add_help=False, allow_abbrev=False)
    parser.set_defaults(file=None)
    _add_stack(parser)
    _add_location(parser)
    return parser


def _add_stack(parser: "argparse._ActionsContainer") -> None:
    parser.add_argument(
        "--stack",
        metavar="NAME",
        default=os.environ.get(STACK_VARIABLE) or None,
        help=f"read missing options from the outputs of this stack (default: {STACK_VARIABLE}, "
        "then the one of `dlq use`; '' for none)",
    )


def _add_location(parser: "argparse._ActionsContainer") -> None:
    parser.add_argument(
        "--region",
        metavar="REGION",
        help="Region of the stack (default: AWS_REGION, AWS_DEFAULT_REGION, the profile's)",
    )
    parser.add_argument(
        "--profile", metavar="NAME", help="AWS profile with the credentials (default: boto3's)"
    )


def _words_of_stack(
    name: str, words: Sequence[str], stack: str, make_session: "Callable[[], Session]"
) -> list[str]:
    """Return options that *words* do not have, with their values from the stack."""
    from dlq.stack.outputs import read_stack, stack_options

    given = {argument.partition("=")[0] for argument in words}
    options = stack_options(load(name))
    lacking = [option for option in options if option not in given]
    if not lacking:
        return []

    stack_outputs = read_stack(make_session(), stack)
    if name == "status" and ON_GLUE in words:
        # The job counts the archive of a fleet; it may not read all members.
        stack_outputs = replace(stack_outputs, queue_tag=None)

    stack_words: list[str] = []
    if "--archive" in lacking and running.default_archive() is None:
        if name == "status":
            # There are queues to count.
            stack_words = ["--archive", ""]
        else:
            stack_outputs.require_archive()

    values = asdict(stack_outputs)
    for option in lacking:
        value = values[option.removeprefix("--").replace("-", "_")]
        if value:
            stack_words += [option, value]
    if "--parked-queue-url" in lacking and options["--parked-queue-url"]:
        fifo_url = stack_outputs.fifo_parked_queue_url
        stack_words += ["--parked-queue-url", fifo_url] if fifo_url else []
    return stack_words


def _names_no_archive(words: Sequence[str]) -> bool:
    """Return whether a command without a stack has no option, and nothing else names an archive."""
    has_options = ON_GLUE in words or not set(_without_place(words)) <= {"--json"}
    return not has_options and running.default_archive() is None


def _without_place(words: Sequence[str]) -> list[str]:
    """Return the *words* that the job knows."""
    parser = _place_parser()
    parser.add_argument(_ENGINE)
    _, rest = parser.parse_known_args(words)
    return [argument for argument in rest if argument != ON_GLUE]


@contextmanager
def _environment(region: str | None, profile: str | None) -> Iterator[None]:
    """Set what ``aws_session`` reads, in this process, Spark's workers and programs it starts.

    A profile that is given also replaces credentials of the environment, as for the AWS CLI.
    """
    before = dict(os.environ)
    if region:
        os.environ["AWS_REGION"] = region
    if profile:
        os.environ["AWS_PROFILE"] = profile
        for name in _INSTEAD_OF_PROFILE:
            os.environ.pop(name, None)
    try:
        yield
    finally:
        for name in ("AWS_REGION", "AWS_PROFILE", *_INSTEAD_OF_PROFILE):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]
