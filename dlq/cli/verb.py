"""The parts of a verb of the command line, and its exit codes.

Each verb has a module in ``verbs``, which defines it as ``VERB``. ``running.VERBS`` lists them.
"""

import argparse
import shlex
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from dlq.progress import Progress, in_lines, on_terminal

Request = TypeVar("Request")

PROGRAM = "dlq"
"""The command that a user types before the verb."""

SPARK_INSTALL = f"{shlex.quote(sys.executable)} -m pip install 'pandas>=2.2' 'pyspark>=4.1,<4.2'"
"""Command that installs, beside this program, the packages of the verbs that need Spark.

They also need Java. The command names each package of the extra ``spark``: this project is in no
package index, so whoever registers its name there would own every machine that installed it.
"""

STACK: ContextVar[str | None] = ContextVar("stack", default=None)
"""The stack whose values the command was given, for the commands that an answer suggests."""

TYPED: ContextVar[tuple[str, ...]] = ContextVar("typed", default=())
"""The command as its user typed it, from the verb on, without stack, Region and profile."""

STACK_FILE: ContextVar[str | None] = ContextVar("stack_file", default=None)
"""The file of ``dlq use`` that named the stack; None where something else did."""

PLACE_WORDS: ContextVar[tuple[str, ...]] = ContextVar("place_words", default=())
"""The options for Region and profile that commands need which an answer suggests."""

STACK_VARIABLE = "DLQ_STACK"
"""The environment variable with the default of ``--stack``."""

LOCAL = "local"
SPARK = "spark"
"""The engines, as ``--engine`` calls them."""

ENGINE: ContextVar[str | None] = ContextVar("engine", default=None)
"""The engine that ``--engine`` or the program names; None to choose by what the verb reads."""

PROGRESS: ContextVar[Progress | None] = ContextVar("progress", default=None)
"""The display of progress; None to choose it by standard error."""

DONE = 0
CHECK_FAILED = SPARK_FAILED = 1
BAD_INPUT = 2
FAILED_AGAIN = REHEARSAL_FAILED = 3
NOT_ALL_SENT = 4
INTERRUPTED = 130
READER_GONE = 141
"""Exit codes; see ``running.SETTINGS``."""

RARE = "more options"
"""The title of the arguments that ``--help`` leaves out; ``--help-all`` lists them."""


class Section(StrEnum):
    """The sections of ``dlq --help``, in its order: what a verb is about."""

    DAILY = "Every day"
    ARCHIVE = "The archive"
    GROUP = "One group"
    STACK = "The stack"


@dataclass(frozen=True, slots=True)
class VerbEntry:
    """A verb in the table of all verbs. Listing them imports none.

    Attributes:
        line: its description in ``dlq --help``.
        not_on_glue: why no run of the stack's AWS Glue job can do it; empty if one can.
    """

    section: Section
    line: str
    not_on_glue: str = ""


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb.

    Attributes:
        about: what it does and guarantees, for its ``--help``.
        add_arguments: adds its arguments, but for ``--archive``.
        make_options: makes its options of the arguments' values, by name.
        run: runs it with these options, prints the answer and returns the exit code; raises
            JobError with a sentence.
        examples: what its ``--help`` ends with.
        has_json: whether it takes ``--json``; see ``terminal.print_answer``.
        has_engine: whether it works on bodies, and takes ``--engine``.
    """

    about: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    make_options: Callable[..., Any]
    run: Callable[[Any], int]
    examples: str = ""
    has_json: bool = True
    has_engine: bool = False


def with_archive(make_request: Callable[..., Request]) -> Callable[..., tuple[str, Request]]:
    """Return the ``make_options`` of a verb whose use case takes the archive beside its request.

    The options are then the archive, as ``--archive`` names it, and the request.
    """

    def make_options(archive: str, **values: Any) -> tuple[str, Request]:  # noqa: ANN401 - argparse's
        return archive, make_request(**values)

    return make_options


def job() -> ModuleType:
    """Return the Spark job's side of a command: ``start``, ``report_failure``, ``end_session``.

    This is the one place where Spark is reached. ModuleNotFoundError where it is not installed.
    """
    return import_module("spark_reprocess.command_line")


def option(name: str, value: str) -> tuple[str, ...]:
    """Return the words of an option, also if its value looks like another option."""
    return (f"{name}={value}",) if value.startswith("-") else (name, value)


def progress_here() -> Progress:
    """Return how progress is shown: as set, or one line on a terminal, lines of a log elsewhere."""
    if progress := PROGRESS.get():
        return progress
    return on_terminal if sys.stderr.isatty() else in_lines
