"""``drain``: parked queue to archive."""

import argparse
from typing import TYPE_CHECKING, Any

from spark_reprocess.command_line.arguments import add_time_budget, whole_number
from spark_reprocess.command_line.terminal import print_answer, print_error, print_line, print_table
from spark_reprocess.command_line.verb import BAD_INPUT, DONE, Verb, progress_here, suggestion
from spark_reprocess.figures import counted, duration, quantity

if TYPE_CHECKING:
    from spark_reprocess.drain.drain import DrainSummary

_ABOUT = """\
Moves messages from the parked queue into the archive. Each is written durably before it is
deleted. A drain that is killed leaves duplicate rows at worst, which every read removes. Run it
again at any time to fetch new messages."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--parked-queue-url", required=True, metavar="URL", help="the queue to empty")
    add("--limit", type=whole_number(1), metavar="N", help="take at most N messages")
    add_time_budget(parser)
    add(
        "--tasks",
        type=whole_number(1),
        metavar="N",
        help="tasks in parallel (default: one for each 2,000 messages that SQS counts, at most "
        "30, and on one machine at most one for each core)",
    )
    add(
        "--wait-seconds",
        type=whole_number(0, 20),
        default=2,
        metavar="S",
        help="length of a long poll, 0 to 20; a task ends after three empty ones if SQS counts no "
        "visible message (default: %(default)s)",
    )


def _run(values: dict[str, Any]) -> int:
    from spark_reprocess.command_line.spark_session import start_spark
    from spark_reprocess.drain.drain import DrainOptions, drain

    summary = drain(start_spark(), DrainOptions(**values), progress=progress_here())
    print_answer(summary, lambda: print_drain(summary))
    for fault in summary.stopped_by:
        print_error(
            f"the drain stopped early: {fault}; what is not archived is still in the queue, "
            "run the same command again"
        )
    return BAD_INPUT if summary.stopped_by else DONE


def print_drain(summary: "DrainSummary") -> None:
    """Print the counts, what is still in the queue, and the next command."""
    speed = summary.archived / summary.seconds if summary.seconds else 0
    print_table(
        ("received", "archived", "deleted", "left"),
        [(summary.received, summary.archived, summary.deleted, summary.left)],
    )
    print_line(
        f"drain {summary.drain_id}: {duration(summary.seconds)}, {quantity(speed)} messages/s"
    )
    if summary.left:
        print_line(
            f"{summary.left:,} were archived but their deletion was not confirmed: they come "
            "again, and reading the archive counts them once"
        )
    if summary.unreadable:
        receives = counted(summary.unreadable, "receive")
        print_line(f"{receives} brought no readable message; left in the queue:")
        for fault in summary.faults[:10]:
            print_line(f"  {fault}")
    if summary.tests:
        were = counted(summary.tests, "test message")
        print_line(f"{were} of dlq doctor: deleted, not archived")
    if (rest := summary.rest) and rest.total:
        print_line(
            f"SQS still counts about {rest.visible:,} visible, {rest.in_flight:,} in flight and "
            f"{rest.delayed:,} delayed in the queue (its counts lag by up to a minute); those "
            "in flight become visible again after their visibility timeout unless another consumer "
            "deletes them: run again then"
        )
    if summary.archived:
        print_line(f"next: {suggestion('analyze', summary.archive)}")


VERB = Verb(_ABOUT, _add_arguments, dict, _run)
