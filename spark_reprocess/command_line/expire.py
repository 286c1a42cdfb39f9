"""``expire``: what was decided long ago leaves the archive."""

import argparse

from spark_reprocess.command_line.arguments import whole_number
from spark_reprocess.command_line.terminal import print_answer, print_line, print_table
from spark_reprocess.command_line.verb import DONE, Verb, progress_here
from spark_reprocess.erase.expire import ExpireOptions, ExpireSummary, expire

_ABOUT = """\
Removes from the archive what was sent, discarded or restored more than --older-than-days days ago,
if its drain is as old. Messages that are undecided, in doubt or busy stay, whatever their age. The
ledger stays, and keeps who removed which ids, so older plans continue with the rest. Reports and
plans stay, too: what they quote is removed by erase alone.

A dry run unless --execute is given. If it is killed, the next run completes it. Needs no Spark. In
a versioned bucket every version of the replaced files is removed. This requires
s3:DeleteObjectVersion and s3:ListBucketVersions."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--older-than-days",
        type=whole_number(1, 36_500),
        required=True,
        metavar="N",
        help="how long to keep what is decided",
    )
    parser.add_argument(
        "--execute", action="store_true", help="act; without this option nothing is touched"
    )


def _run(options: ExpireOptions) -> int:
    summary = expire(options, progress=progress_here())
    print_answer(summary, lambda: print_expire(summary))
    return DONE


def print_expire(summary: ExpireSummary) -> None:
    """Print what expired, or would, and what stays."""
    print_table(
        ("expired messages", "their drains", "decided later", "undecided"),
        [(summary.messages, len(summary.drains), summary.younger, summary.undecided)],
    )
    if not summary.messages:
        print_line("nothing has expired")
    elif not summary.expire_ids:
        print_line("dry run: nothing was removed. To do it, add --execute")
    else:
        print_line(f"removed {summary.rows:,} rows, {', '.join(summary.expire_ids)}")


VERB = Verb(_ABOUT, _add_arguments, ExpireOptions, _run)
