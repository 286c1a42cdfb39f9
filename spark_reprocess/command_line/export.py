"""``export``: the messages of one group of a plan as JSON lines."""

import argparse
import os
import sys

from spark_reprocess.command_line.arguments import add_plan, whole_number
from spark_reprocess.command_line.terminal import print_error, print_line
from spark_reprocess.command_line.verb import DONE, Verb, progress_here
from spark_reprocess.figures import counted
from spark_reprocess.inspect.export import STANDARD_OUTPUT, ExportOptions, ExportSummary, export
from spark_reprocess.progress import silent

_ABOUT = """\
Writes the messages of one group of a plan as JSON lines, one object per message: as they were
archived, without the plan's edits, and whatever runs did with them. The oldest come first, those
with message groups by group. docs/reference.md lists the fields. Changes nothing in the archive.
Needs no Spark.

Nothing is masked: the output holds whole bodies and attributes. A file gets mode 0600, and a file
that exists is not overwritten. Keep it where only those who may read the messages can read it, and
delete it after use; erase does not reach it. Do not write to standard output where that is a log,
as on AWS Glue."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_plan(parser)
    add("--group", required=True, metavar="ID", help="id of a group in the plan: g-...")
    add(
        "--out",
        default=STANDARD_OUTPUT,
        metavar="FILE",
        help="a file to create on this machine; - for standard output (default: %(default)s)",
    )
    add(
        "--limit",
        type=whole_number(1),
        metavar="N",
        help="write the first N messages alone",
    )


def _run(options: ExportOptions) -> int:
    # On a terminal, progress lines would be written between the messages.
    is_shown = options.out == STANDARD_OUTPUT and sys.stdout.isatty()
    try:
        summary = export(options, progress=silent if is_shown else progress_here())
    except BrokenPipeError:
        # The reader, such as head, has enough. Python would flush once more at its end, and fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    print_export(summary, options.group, options.out)
    return DONE


def print_export(summary: ExportSummary, group_id: str, out: str) -> None:
    """Print how many messages were written; to standard error if they went to standard output."""
    is_file = out != STANDARD_OUTPUT
    place = f" to {out}" if is_file else ""
    show = print_line if is_file else print_error
    messages = counted(summary.planned, "message")
    show(f"wrote {summary.written:,} of {messages} of group {group_id}{place}")
    if summary.missing:
        show(
            f"{counted(summary.missing, 'message')} not in the archive any more: erased or expired"
        )


VERB = Verb(_ABOUT, _add_arguments, ExportOptions, _run, has_json=False)
