"""``simulate``: simulates a replay policy in an outage."""

import argparse
import os
import shutil
import sys

from dlq_cli.simulate.arguments import ABOUT, EXAMPLES, Arguments, add_arguments, arguments_of
from dlq_cli.simulate.bill import bill_of
from dlq_cli.simulate.files import write_csv, write_json
from dlq_cli.simulate.flow import simulate
from dlq_cli.simulate.growth import tables
from dlq_cli.simulate.jitter import Jitter
from dlq_cli.simulate.recovery import BREAKER, Recovery
from dlq_cli.simulate.report import ACCEPTED_SHARE, Screen, text_report
from dlq_cli.simulate.search import smallest_max_attempts
from dlq_replay.breaker import BreakerRules
from spark_reprocess.command_line.verb import DONE, Verb
from spark_reprocess.errors import InputError


def _run(values: argparse.Namespace) -> int:
    try:
        arguments = arguments_of(values)
    except ValueError as error:
        raise InputError(str(error)) from error
    try:
        _answer(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python would fail when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


def _answer(arguments: Arguments) -> None:
    if arguments.is_search:
        enough = smallest_max_attempts(arguments.scenario, ACCEPTED_SHARE)
        _print(f"{enough}" if enough is not None else "no number of replays is enough")
        return
    if arguments.form == "growth":
        _print("\n\n".join(tables()))
        return
    recoveries: dict[str, Recovery] = {}
    if arguments.has_breaker:
        recoveries[BREAKER] = simulate(arguments.scenario, breaker=BreakerRules())
    recoveries |= {jitter: simulate(arguments.scenario, jitter) for jitter in Jitter}
    products = (BREAKER, Jitter.FULL)
    bills = {name: bill_of(recoveries[name]) for name in products if name in recoveries}
    if arguments.form == "json":
        write_json(recoveries, bills, sys.stdout)
    elif arguments.form == "csv":
        write_csv(recoveries, sys.stdout)
    else:
        _print(text_report(recoveries, bills, _screen()))


def _screen() -> Screen | None:
    """Return the terminal to draw on; None in a pipe, or if it cannot show braille."""
    shows_braille = (sys.stdout.encoding or "").lower().startswith("utf")
    if not (sys.stdout.isatty() and shows_braille):
        return None
    return Screen(shutil.get_terminal_size().columns, has_colours="NO_COLOR" not in os.environ)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


VERB = Verb(ABOUT, add_arguments, argparse.Namespace, _run, EXAMPLES, has_json=False)
