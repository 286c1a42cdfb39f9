"""What the verbs that send have in common: their arguments, and how they end."""

import argparse
from typing import Any

from spark_reprocess.command_line.argument_types import above_zero
from spark_reprocess.command_line.shared_arguments import add_claim_ttl
from spark_reprocess.command_line.terminal import complain
from spark_reprocess.command_line.verb import DONE, INTERRUPTED, NOT_ALL_SENT
from spark_reprocess.redrive.redrive_values import RedriveSummary
from spark_reprocess.spark import interrupts


def add_sending(parser: argparse.ArgumentParser) -> None:
    """Add ``--max-rate``, ``--in-doubt`` and ``--claim-ttl``."""
    parser.add_argument(
        "--max-rate",
        type=above_zero,
        metavar="R",
        help="at most R messages a second (default: as fast as it goes)",
    )
    parser.add_argument(
        "--in-doubt",
        choices=("report", "send"),
        default="report",
        help="what to do with messages that may have been sent (default: %(default)s)",
    )
    add_claim_ttl(parser)


def take_in_doubt(values: dict[str, Any]) -> bool:
    """Take ``--in-doubt`` out of *values*: whether what is in doubt is to be sent."""
    return bool(values.pop("in_doubt") == "send")


def exit_code_of(summary: RedriveSummary) -> int:
    """Say why a run stopped early, if it did, and return its exit code."""
    if summary.stopped_by:
        complain(
            f"the run stopped early: {summary.stopped_by}; nothing is lost, run the same command "
            "again to go on"
        )
    if summary.stopped_by == interrupts.INTERRUPTED:
        return INTERRUPTED
    return NOT_ALL_SENT if summary.is_unfinished else DONE
