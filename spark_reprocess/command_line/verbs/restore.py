"""``restore``: archive to parked queue."""

import argparse
from typing import Any

from spark_reprocess.command_line.answers.restore import print_restore
from spark_reprocess.command_line.argument_types import WHERE, whole_number
from spark_reprocess.command_line.sending import add_sending, exit_code_of, take_in_doubt
from spark_reprocess.command_line.shared_arguments import add_execution
from spark_reprocess.command_line.verb import Verb, progress_here, start_spark
from spark_reprocess.restore.restore import RestoreOptions, restore

_ABOUT = """\
Puts archived messages back into the parked queue, with body, attributes, counter and context as
they were archived. What was sent, discarded or restored before stays away (a discard is undone
with --include-discarded). A dry run unless --execute is given. Repeat it at will: the ledger knows
what went back. A restored message is decided; the next drain brings it again under another id."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--parked-queue-url", required=True, metavar="URL", help="the queue to fill")
    add("--where", metavar="SQL", help=f"only these: {WHERE}")
    add("--limit", type=whole_number(1), metavar="N", help="restore at most N messages in this run")
    add(
        "--include-foreign",
        action="store_true",
        help="also messages that were drained from another parked queue",
    )
    add("--include-discarded", action="store_true", help="also what was discarded")
    add_sending(parser)
    add_execution(parser)


def _make_options(**values: Any) -> RestoreOptions:  # noqa: ANN401 - argparse's
    return RestoreOptions(send_in_doubt=take_in_doubt(values), **values)


def _run(options: RestoreOptions) -> int:
    summary = restore(start_spark(), options, progress=progress_here())
    print_restore(summary)
    return exit_code_of(summary)


VERB = Verb(
    "restore",
    "archive to parked queue (dry run by default)",
    _ABOUT,
    _add_arguments,
    _make_options,
    _run,
)
