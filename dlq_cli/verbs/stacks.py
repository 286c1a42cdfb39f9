"""``stacks``: lists the installations of an account and Region."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from dlq_cli.stack_values import StackValues, read_stacks
from spark_reprocess.command_line.terminal import print_answer, print_line, print_table
from spark_reprocess.command_line.verb import DONE, Verb, no_arguments

_ABOUT = """\
Lists the installations in this account and Region, with main queue and archive. Give one of their
names as --stack."""


def _run(options: argparse.Namespace) -> int:
    found = sorted(read_stacks(options.session), key=lambda one: one.stack)
    print_answer({"stacks": [asdict(one) for one in found]}, lambda: _print(found))
    return DONE


def _print(found: Sequence[StackValues]) -> None:
    if not found:
        print_line("no installation in this account and Region (--region, --profile)")
        return
    print_table(
        ("stack", "main queue", "archive", "status"),
        [
            (
                one.stack,
                one.main_queue_url.rpartition("/")[2],
                one.archive or "none",
                one.status.lower().replace("_", " "),
            )
            for one in found
        ],
    )


VERB = Verb(_ABOUT, no_arguments, argparse.Namespace, _run)
