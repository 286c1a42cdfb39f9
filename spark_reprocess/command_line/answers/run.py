"""The answer of ``run``: each step's own, and what is left at the end."""

from spark_reprocess.archive.ledger import Outcome
from spark_reprocess.command_line.answers.analyze import print_analysis
from spark_reprocess.command_line.answers.drain import print_drain
from spark_reprocess.command_line.answers.redrive import print_redrive
from spark_reprocess.command_line.terminal import say
from spark_reprocess.redrive.selection import Fate
from spark_reprocess.run.run_values import RunSummary, Undecided


def print_run(summary: RunSummary) -> None:
    """Say what each step did, then the whole in one line."""
    print_drain(summary.drained)
    if summary.findings:
        print_analysis(summary.findings)
    if summary.redriven:
        print_redrive(summary.redriven)
    if summary.policy_sha256:
        say(f"policy: SHA-256 {summary.policy_sha256}")
    say(f"run {summary.run_id}: {', '.join(_totals(summary))}; {_left(summary.undecided)}")


def _totals(summary: RunSummary) -> list[str]:
    totals = [f"{summary.drained.archived:,} archived"]
    redriven = summary.redriven
    if redriven is None:
        return totals
    if redriven.executed:
        sent, discarded = redriven.count(Outcome.SENT), redriven.count(Outcome.DISCARDED)
        return [*totals, f"{sent:,} sent", f"{discarded:,} discarded"]
    sent, discarded = redriven.count(Fate.SEND), redriven.count(Fate.DISCARD)
    return [*totals, f"{sent:,} would be sent", f"{discarded:,} discarded"]


def _left(undecided: Undecided) -> str:
    if not undecided.messages:
        return "nothing is undecided"
    hours = undecided.oldest_seconds / 3600
    return f"{undecided.messages:,} are undecided, the oldest for {hours:,.1f} h"
