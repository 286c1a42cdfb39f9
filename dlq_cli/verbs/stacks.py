"""``stacks``: lists the installations of an account and Region."""

import argparse
from dataclasses import asdict

from dlq_cli.stack_values import read_stacks
from spark_reprocess.command_line.arguments import add_json
from spark_reprocess.command_line.terminal import print_json, print_line, print_table
from spark_reprocess.command_line.verb import DONE, Verb

_ABOUT = """\
Lists the installations in this account and Region, for --stack: their main queues and archives."""


def _run(options: argparse.Namespace) -> int:
    found = sorted(read_stacks(options.session), key=lambda one: one.stack)
    if options.as_json:
        print_json({"stacks": [asdict(one) for one in found]})
    elif found:
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
    else:
        print_line("no installation in this account and Region (--region, --profile)")
    return DONE


VERB = Verb(_ABOUT, add_json, argparse.Namespace, _run)
