"""The answer of ``drain``."""

import shlex

from spark_reprocess.command_line.answers import COMMAND
from spark_reprocess.command_line.terminal import print_table, say
from spark_reprocess.drain.drain import DrainSummary


def print_drain(summary: DrainSummary) -> None:
    """Say what came over, what stayed, and what to type next."""
    rate = summary.archived / summary.seconds if summary.seconds else 0
    print_table(
        ("received", "archived", "deleted", "left"),
        [(summary.received, summary.archived, summary.deleted, summary.left)],
    )
    say(f"drain {summary.drain_id}: {summary.seconds:.1f} s, {rate:,.0f} messages/s")
    if summary.left:
        say(
            f"{summary.left:,} were archived but their deletion was not confirmed: they come "
            "again, and reading the archive counts them once"
        )
    if summary.unreadable:
        say(f"{summary.unreadable:,} receives brought no readable message; left in the queue:")
        for fault in summary.faults[:10]:
            say(f"  {fault}")
    if summary.archived:
        say(f"next: {COMMAND} analyze --archive {shlex.quote(summary.archive)}")
