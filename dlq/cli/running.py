"""The command line of the job: reads a verb and its options, runs it, returns the exit code.

``python -m spark_reprocess VERB`` and ``spark-submit`` call ``main``. The ``dlq`` command uses the
parts: it adds verbs of its own, and values from a stack's outputs.
"""

import argparse
import difflib
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NoReturn, Self

from dlq.cli.terminal import AS_JSON, errors_as_json, errors_in_answer, print_error
from dlq.cli.verb import (
    BAD_INPUT,
    ENGINE,
    INTERRUPTED,
    RARE,
    SPARK,
    TYPED,
    Section,
    Verb,
    VerbEntry,
    job,
)
from dlq.errors import JobError

PACKAGE = "dlq.cli.verbs"
_MAY_NOT = "the role of the job may not {}, so that no run of it can; leave --on-glue out"
_NO_RESTORE = _MAY_NOT.format("send to the parked queue")
_NO_ERASE = _MAY_NOT.format("delete what is archived")
_NO_SPARK = "it needs no Spark"

VERBS: Mapping[str, VerbEntry] = {
    "status": VerbEntry(Section.DAILY, "counts of messages, by state"),
    "groups": VerbEntry(
        Section.DAILY, "the newest report's groups, and what is decided", _NO_SPARK
    ),
    "show": VerbEntry(Section.DAILY, "one message or run; a group's messages as a file", _NO_SPARK),
    "redrive": VerbEntry(Section.DAILY, "plan to queue (dry run by default)"),
    "collect": VerbEntry(Section.ARCHIVE, "parked queue to archive, report and plan"),
    "run": VerbEntry(Section.ARCHIVE, "collect, apply a policy, redrive; for a schedule"),
    "restore": VerbEntry(
        Section.ARCHIVE, "archive to parked queue (dry run by default)", _NO_RESTORE
    ),
    "erase": VerbEntry(
        Section.ARCHIVE, "messages out of the archive (dry run by default)", _NO_ERASE
    ),
    "decide": VerbEntry(
        Section.GROUP, "set its action; note why, or that it is resolved", _NO_SPARK
    ),
}
"""The verbs of the job, in the order of ``--help``."""

_ABOUT = """\
Archives the messages of a parked queue, groups them by failure, and redrives the right ones: the
verbs of dlq that run on a cluster, too, as spark-submit --py-files spark_reprocess.zip ... VERB."""

ARCHIVE_VARIABLE = "DLQ_ARCHIVE"
"""The environment variable with the default of ``--archive``; a stack's archive beats it."""

_PLACE = "the archive: s3://BUCKET/PREFIX, or a folder, which on a cluster all machines must share"

SETTINGS = """\
Region, credentials and endpoint are set as for boto3: AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL.

exit codes: 0 done; 1 a check found a fault, or Spark failed; 2 bad arguments or input; 3 too much
of a redrive failed again, or a rehearsal failed; 4 some messages could not be sent; 130
interrupted; 141 the output is not read any more"""


@dataclass(frozen=True, slots=True)
class Command:
    """A verb and its options, as read from the command line."""

    name: str
    verb: Verb
    options: Any
    as_json: bool = False
    engine: str | None = None

    @classmethod
    def of(cls, name: str, verb: Verb, values: dict[str, Any]) -> Self:
        """Make it of the *values* that were read; JobError if they do not go together."""
        as_json = values.pop("as_json", False)
        engine = values.pop("engine", None)

        options = {}
        for option, value in values.items():
            # Of an option that may be repeated.
            options[option] = tuple(value) if isinstance(value, list) else value

        return cls(
            name=name,
            verb=verb,
            options=verb.make_options(**options),
            as_json=as_json,
            engine=engine,
        )

    def run(self) -> int:
        """Run the verb; return the exit code. Raises JobError."""
        as_json = AS_JSON.set(self.as_json)
        engine = ENGINE.set(self.engine)
        try:
            with errors_in_answer():
                return self.verb.run(self.options)
        finally:
            ENGINE.reset(engine)
            AS_JSON.reset(as_json)


def main(argv: Sequence[str]) -> int:
    """Run one verb on Spark, in this process; return its exit code, see ``SETTINGS``.

    A Spark session that is started here stays for the next call.
    """
    words = list(argv)
    # On AWS Glue it is known what a person typed.
    typed = TYPED.set(TYPED.get() or tuple(words))
    try:
        return exit_code_of(lambda: replace(parse(words), engine=SPARK).run(), words)
    finally:
        TYPED.reset(typed)


def exit_code_of(call: Callable[[], int], words: Sequence[str] = ()) -> int:
    """Return what *call* returns; print an error that ends it, and return its exit code instead.

    With ``--json`` among the *words* of the command its errors are one JSON object. The settings of
    the process, which may be the caller's own, are then as they were before.
    """
    as_json = "--json" in words
    with _settings_of_process(), errors_as_json(as_json=as_json) as print_errors:
        exit_code = _exit_code_of(call)
        # Another Ctrl-C has nothing to stop any more.
        with _handling_ctrl_c(signal.SIG_IGN):
            print_errors(exit_code)
        return exit_code


def _exit_code_of(call: Callable[[], int]) -> int:
    try:
        try:
            return call()
        except Exception as error:
            if isinstance(error, JobError) or not _is_spark_loaded():
                raise
            exit_code: int = job().report_failure(error)
            return exit_code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else BAD_INPUT
    except JobError as error:
        # Help does without boto3, which the answer to an error loads.
        from dlq.aws.actor import text_of

        print_error(text_of(error))
        return BAD_INPUT
    except KeyboardInterrupt:
        # Another Ctrl-C has nothing to stop any more.
        with _handling_ctrl_c(signal.SIG_IGN):
            print_error("interrupted; nothing is lost, run the same command again")
        return INTERRUPTED


@contextmanager
def _settings_of_process() -> Iterator[None]:
    """Log no content of messages in the block. After it, restore the settings of the process."""
    loggers = [logging.getLogger(name) for name in ("boto3", "botocore", "urllib3")]
    levels = [logger.level for logger in loggers]
    threshold = gc.get_threshold()
    handler = signal.getsignal(signal.SIGINT)

    # A verb in Spark sets a handler of its own. None: the handler is not one of Python.
    with nullcontext() if handler is None else _handling_ctrl_c(handler):
        try:
            # boto's debug lines hold whole requests, bodies included.
            for logger in loggers:
                logger.setLevel(logging.WARNING)
            yield
        finally:
            gc.set_threshold(*threshold)
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def end_process(exit_code: int) -> NoReturn:
    """Flush the output, stop Spark, if it was started, and end the process.

    A reader of the output, such as head, may be gone. Ctrl-C ends the process at once, without a
    word: all is done. Python is not shut down: a thread of Arrow that frees an object of it
    afterwards would end the process with SIGABRT (https://github.com/apache/arrow/issues/34314).
    """
    with _handling_ctrl_c(lambda *_: os._exit(exit_code)):
        for stream in (sys.stdout, sys.stderr):
            with suppress(BrokenPipeError):
                stream.flush()
        if _is_spark_loaded():
            job().end_session()
        os._exit(exit_code)


def _is_spark_loaded() -> bool:
    return "pyspark" in sys.modules


@contextmanager
def _handling_ctrl_c(handler: Any) -> Iterator[None]:  # noqa: ANN401 - as signal.signal takes it
    """Give SIGINT another handler in the block, if this is the thread that gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


class PlainParser(argparse.ArgumentParser):
    """With ``--json`` its errors have no usage, and are printed as all errors are."""

    def error(self, message: str) -> NoReturn:
        """Print the error, and exit with 2."""
        if not AS_JSON.get():
            super().error(message)
        print_error(message)
        raise SystemExit(BAD_INPUT)


class Parser(PlainParser):
    """Takes no abbreviations. For an unknown option its error names one that is close."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - argparse's
        """Take argparse's *settings*."""
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**settings, allow_abbrev=False)

    def parse_known_args(self, *args: Any, **settings: Any) -> Any:  # noqa: ANN401 - argparse's
        """Read arguments as argparse does; exit with 2 where one is unknown."""
        values, unknown = super().parse_known_args(*args, **settings)
        if unknown and unknown[0].startswith("-"):
            refuse_unknown_name("option", unknown[0].partition("=")[0], self._option_string_actions)
        return values, unknown


def refuse_unknown_name(kind: str, given: str, names: Collection[str]) -> NoReturn:
    """Exit with 2: there is no such verb or option. Print the one of *names* that is close, or all.

    Args:
        kind: "verb" or "option".
        given: what the user wrote.
        names: the verbs or options that there are.
    """
    close = difflib.get_close_matches(given, names, 1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
    print_error(f"{given}: no such {kind}; {hint}")
    raise SystemExit(BAD_INPUT)


def parse(argv: list[str]) -> Command:
    """Read *argv*. As argparse does, exit with 2 on a fault and with 0 after help."""
    name = argv[0] if argv else "--help"
    if name not in VERBS and not name.startswith("-"):
        refuse_unknown_name("verb", name, VERBS)

    parser = Parser(prog="python -m spark_reprocess", description=_ABOUT, epilog=SETTINGS)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb_name, entry in VERBS.items():
        verb_parser = verbs.add_parser(verb_name, help=entry.line)
        if verb_name == name:
            add_archive(verb_parser)
            fill(verb_parser, load(name), argv)

    values = vars(parser.parse_args(argv))
    return Command.of(name, load(name), values)


def load(name: str) -> Verb:
    """Return the verb of its module. Neither this nor its help needs pyspark; running it may."""
    verb: Verb = import_module(f"{PACKAGE}.{name}").VERB
    return verb


def default_archive() -> str | None:
    """Return the archive that the environment names, None if it names none.

    It counts where neither ``--archive`` is given nor the stack has an archive.
    """
    return os.environ.get(ARCHIVE_VARIABLE) or None


def add_archive(parser: argparse.ArgumentParser) -> None:
    """Add ``--archive``, which every verb of the job has."""
    default = default_archive()
    parser.add_argument(
        "--archive",
        required=default is None,
        default=default,
        metavar="PLACE",
        help=f"{_PLACE} (default: {ARCHIVE_VARIABLE})",
    )


def fill(parser: argparse.ArgumentParser, verb: Verb, words: Sequence[str]) -> None:
    """Give *parser* the description, the examples and the arguments of *verb*.

    Its help has rare arguments only if ``--help-all`` is among the *words* of the command.
    """
    parser.description = verb.about
    parser.epilog = verb.examples or None
    verb.add_arguments(parser)
    if verb.has_json:
        parser.add_argument(
            "--json", dest="as_json", action="store_true", help="answer with one JSON object"
        )

    for group in parser._action_groups:  # noqa: SLF001 - argparse has no other list
        if group.title == RARE:
            parser.add_argument("--help-all", action="help", help="list all options")
            if "--help-all" not in words:
                _hide(group)


def _hide(group: argparse._ArgumentGroup) -> None:
    """Leave the arguments of *group* out of the help."""
    for action in group._group_actions:  # noqa: SLF001 - argparse has no other list
        action.help = argparse.SUPPRESS
