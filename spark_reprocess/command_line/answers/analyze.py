"""The answer of ``analyze``."""

import shlex
from datetime import datetime

from spark_reprocess.analysis.analyze import AnalysisSummary
from spark_reprocess.command_line.answers import COMMAND
from spark_reprocess.command_line.terminal import print_table, say


def print_analysis(summary: AnalysisSummary) -> None:
    """Say which failures there are, where the report lies, and what to type next."""
    undecided = summary.messages - summary.decided
    say(
        f"{summary.messages:,} messages, {summary.decided:,} decided before, "
        f"{undecided:,} undecided in {len(summary.groups):,} groups"
    )
    if not summary.groups:
        say(f"nothing is left to decide; report: {summary.folder}")
        return
    print_table(
        ("group", "count", "share", "first sent", "last sent", "parked", "failure"),
        [
            (
                group.group_id,
                group.count,
                f"{group.share:.1%}",
                _minute(group.first_sent_at),
                _minute(group.last_sent_at),
                ", ".join(f"{reason} {count:,}" for reason, count in group.reasons),
                group.title,
            )
            for group in summary.groups
        ],
    )
    say(f"report: {summary.folder}")
    say(f"next: edit the actions in {summary.plan_path}, then look at what would happen:")
    say(
        f"  {COMMAND} redrive --archive {shlex.quote(summary.archive)} "
        f"--plan {shlex.quote(summary.plan_path)} --to-queue-url URL"
    )


def _minute(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M}" if time else "unknown"
