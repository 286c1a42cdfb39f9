"""``restore``: archive to parked queue."""

import argparse
from typing import TYPE_CHECKING

from spark_reprocess import interruption
from spark_reprocess.command_line.answers.restore import print_restore
from spark_reprocess.command_line.argument_types import WHERE, above_zero, whole_number
from spark_reprocess.command_line.exit_codes import DONE, INTERRUPTED, NOT_ALL_SENT
from spark_reprocess.command_line.terminal import complain
from spark_reprocess.command_line.verb import Verb, progress_here, start_spark
from spark_reprocess.restore.restore import RestoreOptions, restore

if TYPE_CHECKING:
    from collections.abc import Callable

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
        "--max-rate",
        type=above_zero,
        metavar="R",
        help="at most R messages a second (default: as fast as it goes)",
    )
    add("--include-discarded", action="store_true", help="also what was discarded")
    add(
        "--in-doubt",
        choices=("report", "send"),
        default="report",
        help="what to do with messages that may have been sent (default: %(default)s)",
    )
    add(
        "--claim-ttl",
        dest="claim_ttl_seconds",
        type=whole_number(60, 43_200),
        default=900,
        metavar="S",
        help="seconds after which an unfinished run's claim counts as dead (default: %(default)s)",
    )
    add("--reason", default="", metavar="TEXT", help="why; goes into the ledger with --execute")
    add("--execute", action="store_true", help="do it; without this nothing is sent")


def _make_options(*, in_doubt: str, **values: object) -> RestoreOptions:
    make: Callable[..., RestoreOptions] = RestoreOptions
    return make(send_in_doubt=in_doubt == "send", **values)


def _run(options: RestoreOptions) -> int:
    summary = restore(start_spark(), options, progress=progress_here())
    print_restore(summary)
    if summary.stopped_by:
        complain(
            f"the run stopped early: {summary.stopped_by}; nothing is lost, run the same command "
            "again to go on"
        )
    if summary.stopped_by == interruption.INTERRUPTED:
        return INTERRUPTED
    return NOT_ALL_SENT if summary.is_unfinished else DONE


VERB = Verb(
    "restore",
    "archive to parked queue (dry run by default)",
    _ABOUT,
    _add_arguments,
    _make_options,
    _run,
)
