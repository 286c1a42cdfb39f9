"""``use``: the stack of commands that name none."""

import argparse
import os
from collections.abc import Iterator
from dataclasses import asdict

from dlq.cli.running import ARCHIVE_VARIABLE
from dlq.cli.terminal import print_answer, print_line
from dlq.cli.verb import DONE, PROGRAM, STACK_VARIABLE, Verb
from dlq.errors import InputError
from dlq.stack.user_files import (
    ChosenStack,
    choose_stack,
    chosen_stack_file,
    described,
    forget_chosen_stack,
    read_chosen_stack,
)

_ABOUT = f"""\
Chooses the stack of all later commands of this user that name neither a stack nor an archive; each
of them says so on standard error. Without STACK it prints what is chosen. --region and --profile
are kept with the stack, and beat the variables of the environment.

What a command or the environment names beats it: --stack, --archive, {STACK_VARIABLE},
{ARCHIVE_VARIABLE}. It asks nothing of AWS."""

_EXAMPLES = """\
examples:

  dlq use orders-replay --region eu-west-1 --profile prod
  dlq use
  dlq use --none"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("stack", nargs="?", metavar="STACK", help="its name")
    choice.add_argument("--none", dest="is_none", action="store_true", help="choose none any more")


def _run(options: argparse.Namespace) -> int:
    path = chosen_stack_file(os.environ)
    if options.is_none:
        forget_chosen_stack(os.environ)
        chosen = None
    elif options.stack is not None:
        try:
            chosen = ChosenStack(options.stack, options.region, options.profile)
        except ValueError as error:
            raise InputError(f"{error}; {PROGRAM} status --stack '' lists them") from error
        choose_stack(os.environ, chosen)
    elif options.region or options.profile:
        raise InputError("STACK is missing: --region and --profile are kept with a stack")
    else:
        chosen = read_chosen_stack(os.environ)

    values = asdict(chosen) if chosen else {"stack": None, "region": None, "profile": None}
    print_answer({"file": str(path), **values}, lambda: _print(chosen, str(path)))
    return DONE


def _print(chosen: ChosenStack | None, path: str) -> None:
    if chosen is None:
        print_line(f"no stack is chosen; {PROGRAM} use STACK does it, {PROGRAM} status lists them")
    else:
        sentence = described(chosen.stack, chosen.region, chosen.profile)
        print_line(f"{sentence} ({path})")
    for line in _stronger(chosen):
        print_line(line)
    if chosen is not None:
        print_line(f"next: {PROGRAM} status")


def _stronger(chosen: ChosenStack | None) -> Iterator[str]:
    """Yield what beats the choice in this environment."""
    if chosen is None:
        return
    for variable in (STACK_VARIABLE, ARCHIVE_VARIABLE):
        if value := os.environ.get(variable):
            yield f"note: {variable}={value} is set here, and beats it"


VERB = Verb(
    about=_ABOUT,
    add_arguments=_add_arguments,
    make_options=argparse.Namespace,
    run=_run,
    examples=_EXAMPLES,
)
