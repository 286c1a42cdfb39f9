"""The answer of ``erase``."""

from spark_reprocess.command_line.terminal import print_table, say
from spark_reprocess.erase.erase import EraseSummary
from spark_reprocess.figures import counted


def print_erase(summary: EraseSummary) -> None:
    """Say what went, or would, and what this cannot reach."""
    for one in summary.unknown_ids:
        say(f"nothing in the archive has the id {one}")
    for one in summary.resumed:
        say(f"erasure {one} was begun by an earlier run and not ended; this run ends it")
    print_table(
        ("messages", "drains", "reports that may quote them"),
        [(summary.messages, len(summary.drains), len(summary.reports))],
    )
    for folder in summary.reports:
        say(f"  {folder}: its plan.yaml stays, without the titles of their groups")
    for folder in summary.kept_conditions:
        say(f"  {folder}: its plan keeps its condition; remove it if it says whom it is about")
    if summary.deleted_files:
        files = counted(len(summary.deleted_files), "deleted file")
        say(f"{files} of which the bucket keeps a version with such a message")
    if summary.failures is not None:
        say(f"{counted(summary.failures, 'recorded failure')} in the failure table")
    if summary.is_empty:
        say("nothing to erase")
        return
    if not summary.erase_id and not summary.rows:
        say(
            "dry run: nothing was erased. To do it, add --execute --reason 'why'; neither the "
            "reason nor the ids should say whom it is about: both are kept"
        )
        return
    say(f"erased {summary.rows:,} rows{f', {summary.erase_id}' if summary.erase_id else ''}")
    say(
        "not reached: copies that are still in a queue (drain and erase again), copies that lost "
        "their context (find them with --where), reports and plans that lie elsewhere, backups of "
        "the archive, and what operators wrote into plans' edits"
        + ("" if summary.failures is not None else "; and the failure table: give --failure-table")
    )
