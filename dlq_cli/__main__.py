"""``dlq VERB``: the product's one command."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import boto3
import shtab
from rich_argparse import RawDescriptionRichHelpFormatter

from dlq_cli.catalogue import GROUPS, LINES, is_of_the_job, module_of
from dlq_cli.stack_values import OPTIONS, STACK_VARIABLE, read_stack
from dlq_replay import __version__
from spark_reprocess.command_line import cli
from spark_reprocess.command_line.verb import BAD_INPUT, PROGRAM, STACK, Verb
from spark_reprocess.errors import InputError

if TYPE_CHECKING:
    from boto3.session import Session

SPARK_EXTRA = "pip install 'sqs-dlq-replay[spark]'"

_ABOUT = """\
Dead-letter handling for Amazon SQS: shows what failed and why, and puts the right messages back.

Give --stack NAME, or set DLQ_STACK: queue URLs, archive and table are then read from the outputs of
that stack. Without a stack, give them as options."""

_EXAMPLES = f"""\
a group of messages, from the parked queue back to the queue that it came from:

  export DLQ_STACK=orders-dlq
  dlq drain                            parked queue to archive
  dlq analyze                          why the messages failed, group by group
  dlq groups                           the groups, and what is decided about each
  dlq redrive --group g-53cb1ad25b     a dry run
  dlq redrive --group g-53cb1ad25b --execute --reason "address service is back"

{cli.SETTINGS}"""


class _HelpFormatter(RawDescriptionRichHelpFormatter):
    """Coloured on a terminal; titles stay as they are written."""

    group_name_formatter = str


def main(
    argv: Sequence[str] | None = None,
    make_session: "Callable[[], Session]" = boto3.session.Session,
) -> int:
    """Run one verb; return its exit code.

    Args:
        argv: the words after ``dlq``; those of this process by default.
        make_session: makes the session that asks AWS about stacks. It is called when ``--region``
            and ``--profile`` have taken effect.

    Returns:
        0 done; 1 a check found a fault, or Spark failed; 2 bad arguments or input; 3 stopped by the
        canary; 4 some messages could not be sent; 130 interrupted.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    return cli.exit_code_of(lambda: _run(words, make_session))


def _run(words: list[str], make_session: "Callable[[], Session]") -> int:
    name, *rest = words or ["--help"]
    if name not in LINES:
        # Help, the version, a completion script, or no verb: argparse answers and exits.
        _overview(has_arguments="--print-completion" in name).parse_args(words or ["--help"])
        return BAD_INPUT
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {name}",
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    verb = _fill(parser, name)
    place, _ = _place_parser().parse_known_args(rest)
    with _environment(AWS_REGION=place.region, AWS_PROFILE=place.profile):
        if place.stack and is_of_the_job(name) and not {"-h", "--help"} & set(rest):
            _fill_in(parser, rest, make_session, place.stack)
        values = vars(parser.parse_args(rest))
        for option in vars(place):
            del values[option]
        if not is_of_the_job(name):
            values |= {"stack": place.stack, "session": make_session()}
        token = STACK.set(place.stack)
        try:
            return verb.run(verb.make_options(**values))
        finally:
            STACK.reset(token)


def _overview(*, has_arguments: bool) -> argparse.ArgumentParser:
    """Make the parser of ``dlq`` itself.

    Args:
        has_arguments: whether its verbs have their arguments, which a completion script needs.
    """
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} VERB [--stack NAME] [OPTION ...]",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    for title, lines in GROUPS.items():
        rows = [f"{name:<10} {line}" for name, line in lines.items()]
        parser.add_argument_group(title, "\n".join(rows))
    options = parser.add_argument_group("options", f"{PROGRAM} VERB --help lists those of a verb")
    options.add_argument("-h", "--help", action="help", help="print this help")
    options.add_argument(
        "--version", action="version", version=f"{PROGRAM} {__version__}", help="print the version"
    )
    shtab.add_argument_to(options, help="print a completion script for this shell", parent=parser)
    verbs = parser.add_subparsers(metavar="VERB", required=True, help=argparse.SUPPRESS)
    for name, line in LINES.items():
        one = verbs.add_parser(name, description=line)
        if has_arguments:
            try:
                _fill(one, name)
            except InputError:  # its package is not installed, so it cannot be completed
                continue
    return parser


def _fill(parser: argparse.ArgumentParser, name: str) -> Verb:
    """Give *parser* the arguments of the verb *name*, and those that say where."""
    try:
        verb: Verb = import_module(module_of(name)).VERB
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"pyspark", "py4j"}:
            raise
        raise InputError(
            f"{name} needs Spark, which is not installed: {SPARK_EXTRA} (and Java 17 or later); "
            "with --on-glue it runs on AWS Glue instead"
        ) from error
    parser.description = verb.about
    parser.epilog = verb.examples or None
    if is_of_the_job(name):
        cli.add_archive(parser)
    verb.add_arguments(parser)
    _add_place(parser.add_argument_group("installation"))
    return verb


def _place_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_place(parser)
    return parser


def _add_place(parser: "argparse._ActionsContainer") -> None:
    parser.add_argument(
        "--stack",
        metavar="NAME",
        default=os.environ.get(STACK_VARIABLE) or None,
        help=f"take what is not given from the outputs of this stack (default: {STACK_VARIABLE})",
    )
    parser.add_argument("--region", metavar="REGION", help="its Region (default: boto3's own)")
    parser.add_argument(
        "--profile", metavar="NAME", help="whose credentials to use (default: boto3's own)"
    )


def _fill_in(
    parser: argparse.ArgumentParser,
    words: Sequence[str],
    make_session: "Callable[[], Session]",
    stack: str,
) -> None:
    """Make the stack's values the defaults of the options that *words* do not give."""
    given = {word.partition("=")[0] for word in words}
    actions: list[argparse.Action] = parser._actions  # noqa: SLF001 - argparse has no other list
    open_actions = [action for action in actions if not given & set(action.option_strings)]
    wanted = {action.dest for action in open_actions} & OPTIONS
    if not wanted:
        return
    values: Any = read_stack(make_session(), stack)
    for action in open_actions:
        if action.dest not in wanted:
            continue
        value = getattr(values, action.dest)
        if value is not None:
            action.default, action.required = value, False
        elif action.required:
            raise InputError(
                f"stack {stack}: has no {action.dest.replace('_', ' ')}, because it was deployed "
                f"without the Spark job; deploy it with CreateSparkJob=true, or give "
                f"{action.option_strings[0]}"
            )


@contextmanager
def _environment(**values: str | None) -> Iterator[None]:
    """Set environment variables: boto3 reads them, in this process and in Spark's workers."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update({name: value for name, value in values.items() if value})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def program() -> None:
    """Run as a process: the entry point of the installed command."""
    exit_code = main()
    if "pyspark" in sys.modules:
        from spark_reprocess.spark.session import end_session  # noqa: PLC0415 - loads pyspark

        end_session()
    sys.exit(exit_code)


if __name__ == "__main__":
    program()
