"""Commands that an answer suggests. Each is whole: the reader can paste it.

A suggested command works where the command that suggests it works: on the same stack, in the same
Region, with the same profile, archive, queues and tables.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields

from dlq.cli.running import PlainParser, default_archive, load
from dlq.cli.verb import PLACE_WORDS, PROGRAM, STACK, STACK_VARIABLE, TYPED, option
from dlq.stack.outputs import StackValues, stack_options

FOLDER = "./dead-letters"
"""The archive of suggested commands where there is none."""

OTHER_WORDS = "OPTIONS..."
"""Stands, in an answer of a run on AWS Glue, for the words that ``typed_values`` does not read.

The run's log and result must not keep conditions. ``on_glue`` puts the words in where it prints.
"""

_SOURCE = {
    "collect": ("--parked-queue-url", "--only"),
    "redrive": ("--main-queue-url", "--queue-tag", "--to-queue-url"),
}
"""The option of a queue that a verb needs if no stack names it, and the options that replace it."""


def suggested_command(verb: str, archive: str, *words: str, report_stack: str = "") -> str:
    """Format a command for the reader to copy, quoted for a shell.

    It names the stack, and of the options for which a stack has a value those that the user typed
    and *verb* takes. A queue that nobody has named is ``URL``, which the reader replaces.

    Args:
        verb: the verb.
        archive: the archive of the answer, which is named if it is not the stack's; empty without
            one.
        words: the arguments of the verb.
        report_stack: the stack of the report, which is named, too, if no other one was.
    """
    values, _ = typed_values(TYPED.get()[1:])
    place = place_words()
    stack = STACK.get() or report_stack
    if not archive:
        del values["--archive"]
    elif not STACK.get() or archive == default_archive():
        values["--archive"] = [archive]
    if report_stack and not STACK.get():
        place = ("--stack", report_stack, *PLACE_WORDS.get())

    options = option_words(verb, values)
    if not stack and verb in _SOURCE and not {*options, *words} & {*_SOURCE[verb]}:
        options += [_SOURCE[verb][0], "URL"]
    return shlex.join([PROGRAM, verb, *place, *options, *words])


def repeated_command(*more: str) -> str:
    """Format the command that runs as the user typed it, with *more* words."""
    verb, *words = TYPED.get()
    return shlex.join([PROGRAM, verb, *place_words(), *words, *more])


def execution_command(*more: str, needs_reason: bool) -> str:
    """Format the command that does what a dry run has shown, with *more* options than that had."""
    reason = ("--reason", "WHY") if needs_reason else ()
    return repeated_command(*more, "--execute", *reason)


def place_words() -> tuple[str, ...]:
    """Return the options for stack, Region and profile of the command that runs."""
    stack = STACK.get()
    if stack is None and os.environ.get(STACK_VARIABLE):
        # The user chose no stack, and the environment would choose one again.
        stack = ""
    stack_words = () if stack is None else ("--stack", stack)
    return (*stack_words, *PLACE_WORDS.get())


def typed_values(words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the values of options for which a stack has a value, by option, and the others."""
    parser = PlainParser(add_help=False, allow_abbrev=False)
    for field in fields(StackValues):
        name = f"--{field.name.replace('_', '-')}"
        parser.add_argument(name, dest=name, action="append", default=[])
    values, others = parser.parse_known_args(words)
    return vars(values), others


def option_words(verb: str, values: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the options of *values* that a verb takes, with their values."""
    words: list[str] = []
    for name, is_repeated in stack_options(load(verb)).items():
        given = values.get(name, ())
        for value in given if is_repeated else given[-1:]:
            words += option(name, value)
    return words
