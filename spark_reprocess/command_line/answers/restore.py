"""The answer of ``restore``."""

from spark_reprocess.archive.ledger import Outcome
from spark_reprocess.command_line.answers.redrive import problem_sentence
from spark_reprocess.command_line.terminal import print_table, say
from spark_reprocess.redrive.redrive_values import RedriveSummary
from spark_reprocess.redrive.selection import Fate

_PROBLEMS: dict[str, str] = {
    Fate.OTHER_PARKED_QUEUE: "left: they were drained from another parked queue; where this one is "
    "to have them, add --include-foreign",
    Fate.WAITS: "waiting behind an earlier message of their message group that stays",
}


def print_restore(summary: RedriveSummary) -> None:
    """Say what went back to the parked queue, or would, drain by drain."""
    words = _columns(summary)
    rows = [
        (drain.group_id, *(sum(drain.counts.get(one, 0) for one in of) for of in words.values()))
        for drain in summary.groups
    ]
    print_table(("drain", *words), rows)
    for problem in summary.problems:
        say(problem_sentence(problem, _PROBLEMS))
    if summary.executed:
        count = summary.count(Outcome.RESTORED)
        say(f"{summary.plan_id}, run {summary.run_id}: restored {count:,} to {summary.destination}")
        return
    say(
        f"dry run: nothing was sent. {summary.count(Fate.SEND):,} would go to "
        f"{summary.destination}; to do it, add --execute --reason 'why'"
    )


def _columns(summary: RedriveSummary) -> dict[str, tuple[str, ...]]:
    work = {"restored": (Outcome.RESTORED,)} if summary.executed else {"to restore": (Fate.SEND,)}
    others: dict[str, tuple[str, ...]] = {
        "decided before": (Fate.SENT_BEFORE, Fate.DISCARDED_BEFORE, Fate.RESTORED_BEFORE),
        "left": (
            *(Fate.NOT_SELECTED, Fate.OVER_LIMIT, Fate.NO_GROUP),
            *(Fate.SPLIT_GROUP, Fate.OTHER_PARKED_QUEUE),
        ),
        "in doubt": (Outcome.IN_DOUBT,),
        "busy": (Fate.BUSY, Fate.WAITS),
        "failed": (Outcome.FAILED,),
        "not reached": (Fate.NOT_REACHED,),
    }
    return {**work, **{name: words for name, words in others.items() if summary.count(*words)}}
