"""The answer of ``drain``."""

import shlex

from spark_reprocess.command_line.answers import COMMAND
from spark_reprocess.command_line.terminal import print_table, say
from spark_reprocess.drain.drain import DrainSummary
from spark_reprocess.figures import counted, duration, rate
from spark_reprocess.queue_counts import QueueCounts


def print_drain(summary: DrainSummary) -> None:
    """Say what came over, what stayed, and what to type next."""
    speed = summary.archived / summary.seconds if summary.seconds else 0
    print_table(
        ("received", "archived", "deleted", "left"),
        [(summary.received, summary.archived, summary.deleted, summary.left)],
    )
    say(f"drain {summary.drain_id}: {duration(summary.seconds)}, {rate(speed)} messages/s")
    if summary.left:
        say(
            f"{summary.left:,} were archived but their deletion was not confirmed: they come "
            "again, and reading the archive counts them once"
        )
    if summary.unreadable:
        receives = counted(summary.unreadable, "receive")
        say(f"{receives} brought no readable message; left in the queue:")
        for fault in summary.faults[:10]:
            say(f"  {fault}")
    if summary.rest and summary.rest.total:
        say(_rest(summary.rest))
    if summary.archived:
        say(f"next: {COMMAND} analyze --archive {shlex.quote(summary.archive)}")


def _rest(rest: QueueCounts) -> str:
    return (
        f"SQS still counts about {rest.visible:,} visible, {rest.in_flight:,} in flight and "
        f"{rest.delayed:,} delayed in the queue (its counts lag by up to a minute); what is in "
        "flight is with somebody else or comes back after its visibility timeout: run again then"
    )
