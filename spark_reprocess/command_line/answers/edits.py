"""The part of a dry run's answer that shows what a plan's edits would do to some messages."""

from itertools import groupby

from spark_reprocess.command_line.terminal import print_diff, say
from spark_reprocess.redrive.edit_preview import EditSample
from spark_reprocess.redrive.redrive_values import RedriveSummary
from spark_reprocess.redrive.selection import Fate


def print_edits(summary: RedriveSummary) -> None:
    """Show the previews, group by group, masked as they are."""
    counts = {group.group_id: group.counts.get(Fate.SEND, 0) for group in summary.groups}
    for group_id, samples in groupby(summary.samples, key=lambda sample: sample.group_id):
        shown = list(samples)
        say(f"edit of group {group_id}: {len(shown):,} of {counts[group_id]:,} messages")
        for sample in shown:
            _print(sample)


def _print(sample: EditSample) -> None:
    say(f"  message {sample.message_id}")
    print_diff([f"  {line}" for line in sample.lines], indent=2)
