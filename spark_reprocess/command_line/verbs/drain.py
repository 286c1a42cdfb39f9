"""``drain``: parked queue to archive."""

import argparse

from spark_reprocess.command_line.answers.drain import print_drain
from spark_reprocess.command_line.argument_types import above_zero, whole_number
from spark_reprocess.command_line.terminal import complain
from spark_reprocess.command_line.verb import BAD_INPUT, DONE, Verb, progress_here, start_spark
from spark_reprocess.drain.drain import DrainOptions, drain

_ABOUT = """\
Moves messages from the parked queue into the archive. Each is written durably before it is
deleted; killed at any point, the archive has duplicates at worst, which every read removes.
Run it again at any time to fetch what came since."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--parked-queue-url", required=True, metavar="URL", help="the queue to empty")
    add("--limit", type=whole_number(1), metavar="N", help="take at most N messages")
    add(
        "--time-budget-seconds",
        type=above_zero,
        metavar="S",
        help="stop receiving after S seconds; what was received is still archived and deleted",
    )
    add(
        "--tasks",
        type=whole_number(1),
        metavar="N",
        help="loops side by side (default: Spark's cores)",
    )
    add(
        "--wait-seconds",
        type=whole_number(0, 20),
        default=2,
        metavar="S",
        help="length of a long poll, 0 to 20; three empty ones, and no message that SQS counts as "
        "visible, end a task (default: %(default)s)",
    )


def _run(options: DrainOptions) -> int:
    summary = drain(start_spark(), options, progress=progress_here())
    print_drain(summary)
    for fault in summary.stopped_by:
        complain(
            f"the drain stopped early: {fault}; what is not archived is still in the queue, "
            "run the same command again"
        )
    return BAD_INPUT if summary.stopped_by else DONE


VERB = Verb("drain", "parked queue to archive", _ABOUT, _add_arguments, DrainOptions, _run)
