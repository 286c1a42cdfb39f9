"""``pause``: stops automatic replay."""

import argparse

from dlq_cli.stack.trigger import switch
from dlq_cli.stack_values import required
from spark_reprocess.command_line.arguments import add_json
from spark_reprocess.command_line.terminal import print_json, print_line
from spark_reprocess.command_line.verb import DONE, Verb

_ABOUT = """\
Turns off what feeds the replay function, its event source mapping or pipe, and waits until it is
off. Dead letters then stay in the DLQ, where their retention goes on: resume in time. Messages that
were received before are still handled."""


def run_switch(options: argparse.Namespace, *, on: bool) -> int:
    """Turn the triggers on or off and print the state of each. Raises InputError."""
    states = switch(options.session, required(options.stack), on=on)
    if options.as_json:
        print_json({"triggers": [{"name": name, "state": state} for name, state in states.items()]})
        return DONE
    for name, state in states.items():
        print_line(f"{name}: {state}")
    if not on:
        print_line("Dead letters now stay in the DLQ, and their retention goes on: resume in time.")
    return DONE


VERB = Verb(_ABOUT, add_json, argparse.Namespace, lambda options: run_switch(options, on=False))
