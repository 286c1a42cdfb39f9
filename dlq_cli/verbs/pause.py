"""``pause``: stops automatic replay."""

import argparse
from collections.abc import Mapping

from dlq_cli.stack.trigger import switch
from dlq_cli.stack_values import required
from spark_reprocess.command_line.terminal import print_answer, print_line
from spark_reprocess.command_line.verb import DONE, Verb, no_arguments

_ABOUT = """\
Turns off the trigger of the replay function, an event source mapping or a pipe, and waits until it
is off. Dead letters then stay in the DLQ until their retention ends: resume in time. Messages that
were received before are still handled."""


def run_switch(options: argparse.Namespace, *, on: bool) -> int:
    """Turn the triggers on or off and print the state of each. Raises InputError."""
    states = switch(options.session, required(options.stack), on=on)
    triggers = [{"name": name, "state": state} for name, state in states.items()]
    print_answer({"triggers": triggers}, lambda: _print(states, on=on))
    return DONE


def _print(states: Mapping[str, str], *, on: bool) -> None:
    for name, state in states.items():
        print_line(f"{name}: {state}")
    if not on:
        print_line("Dead letters now stay in the DLQ until their retention ends: resume in time.")


VERB = Verb(_ABOUT, no_arguments, argparse.Namespace, lambda options: run_switch(options, on=False))
