"""The answer of ``redrive``. Where nobody looks it is a log, and has no titles."""

import sys
from collections.abc import Mapping
from itertools import groupby

from spark_reprocess.archive.ledger import Outcome
from spark_reprocess.command_line.answers.canary import print_drawn, print_verdict
from spark_reprocess.command_line.terminal import print_diff, print_table, say
from spark_reprocess.figures import duration
from spark_reprocess.plan.plan import Action
from spark_reprocess.redrive.edit_preview import EditSample
from spark_reprocess.redrive.redrive_values import Problem, RedriveSummary
from spark_reprocess.redrive.selection import Fate

_LEFT = (
    Fate.LEAVE,
    Fate.NOT_SELECTED,
    Fate.OVER_LIMIT,
    Fate.SPLIT_GROUP,
    Fate.OTHER_PARKED_QUEUE,
    Fate.FOREIGN,
    Fate.UNKNOWN_SOURCE,
    Fate.NO_GROUP,
    Fate.EDIT_FAILED,
    Fate.NO_ROOM,
)

_PROBLEMS: dict[str, str] = {
    Fate.OTHER_PARKED_QUEUE: "left: they were drained from another parked queue; act on them in a "
    "run of their own, with its --parked-queue-url and destination",
    Fate.FOREIGN: "left: they came from another main queue; send them there with --to-queue-url, "
    "and --include-foreign where the queue is not recorded",
    Fate.UNKNOWN_SOURCE: "left: nothing records which queue they came from, and other queues use "
    "the same dead-letter queue, or SQS did not say (sqs:ListDeadLetterSourceQueues); where the "
    "destination is theirs, add --to-queue-url and --include-foreign",
    Fate.NO_ROOM: "left for a person: they have no room for the replay count and the context "
    "beside their own attributes, so nothing would show that they were redriven before",
    Fate.NO_GROUP: "left: a FIFO queue needs a MessageGroupId and they have none",
    Fate.EDIT_FAILED: "left: the plan's edit does not fit them",
    Fate.SPLIT_GROUP: "left: --where takes only a part of their message group, which goes whole or "
    "not at all on a FIFO queue",
    Fate.IN_DOUBT: "in doubt: they may have been sent and no answer came; look for them, then "
    "send them again with --in-doubt send",
    Fate.BUSY: "busy: another run claimed them and may still be sending; run again when it is done "
    "or its claims are older than --claim-ttl",
    Fate.WAITS: "waiting behind an earlier message of their message group that stays; decide "
    "about that one, or run again with --allow-reordering",
    Outcome.FAILED: "failed: not sent; run again to retry",
    Fate.NOT_REACHED: "not reached: nothing of them was sent; run again to go on",
}


def print_redrive(summary: RedriveSummary) -> None:
    """Say what happened to each group, or would, and what stands in the way."""
    words = _columns(summary)
    is_looked_at = sys.stdout.isatty()
    rows = [
        (
            group.group_id,
            f"{group.action}, edited" if group.is_edited else group.action,
            *(sum(group.counts.get(one, 0) for one in of) for of in words.values()),
            *([group.title] if is_looked_at else []),
        )
        for group in summary.groups
    ]
    print_table(("group", "action", *words, *(["failure"] if is_looked_at else [])), rows)
    _print_edits(summary)
    if summary.canary:
        print_verdict(summary.canary)
    for problem in summary.problems:
        say(problem_sentence(problem))
    for note in summary.notes:
        say(f"note: {note}")
    if summary.drawn:
        print_drawn(summary.drawn)
    say(_closing(summary))


def _print_edits(summary: RedriveSummary) -> None:
    """Show what the plan's edits would do to some messages, masked as they are."""
    counts = {group.group_id: group.counts.get(Fate.SEND, 0) for group in summary.groups}
    for group_id, samples in groupby(summary.samples, key=lambda sample: sample.group_id):
        shown = list(samples)
        say(f"edit of group {group_id}: {len(shown):,} of {counts[group_id]:,} messages")
        for sample in shown:
            _print_edit(sample)


def _print_edit(sample: EditSample) -> None:
    say(f"  message {sample.message_id}")
    print_diff([f"  {line}" for line in sample.lines], indent=2)


def _columns(summary: RedriveSummary) -> dict[str, tuple[str, ...]]:
    work = {"sent": (Outcome.SENT,)} if summary.executed else {"to send": (Fate.SEND,)}
    others: dict[str, tuple[str, ...]] = {
        "discarded": (Outcome.DISCARDED,),
        "to discard": (Fate.DISCARD,),
        "done before": (Fate.SENT_BEFORE, Fate.DISCARDED_BEFORE, Fate.RESTORED_BEFORE),
        "left": _LEFT,
        "in doubt": (Outcome.IN_DOUBT,),
        "busy": (Fate.BUSY, Fate.WAITS),
        "failed": (Outcome.FAILED,),
        "not reached": (Fate.NOT_REACHED,),
        "stopped": (Fate.STOPPED,),
    }
    # The failures need the room: what nothing has happened to is not shown.
    return work | {name: words for name, words in others.items() if summary.count(*words)}


def _closing(summary: RedriveSummary) -> str:
    if summary.executed:
        return f"plan {summary.plan_id}, run {summary.run_id}: {_done(summary)}"
    if all(group.action == Action.LEAVE for group in summary.groups):
        return "dry run: the plan leaves every group; edit its actions first"
    return (
        f"dry run: nothing was sent. {summary.count(Fate.SEND):,} would go to "
        f"{summary.destination}{_time(summary)}{_discarded(summary)}; to do it, add --execute "
        "--reason 'why'"
    )


def _done(summary: RedriveSummary) -> str:
    sent, discarded = summary.count(Outcome.SENT), summary.count(Outcome.DISCARDED)
    done = f"sent {sent:,}" + (f", discarded {discarded:,}" if discarded else "")
    has_more = summary.problems or summary.stopped_by or summary.canary
    if sent or discarded or has_more or summary.count(Fate.NOT_SELECTED):
        return done
    return f"{done}; nothing was left to do"


def _discarded(summary: RedriveSummary) -> str:
    count = summary.count(Fate.DISCARD)
    return f", {count:,} would be discarded" if count else ""


def _time(summary: RedriveSummary) -> str:
    if summary.max_rate is None:
        return " as fast as it goes (--max-rate R spares the consumer)"
    seconds = summary.count(Fate.SEND) / summary.max_rate
    return f" in about {duration(seconds)} at {summary.max_rate:g} a second"


def problem_sentence(problem: Problem, sentences: Mapping[str, str] | None = None) -> str:
    """Say what stands in the way of how many messages, and which; *sentences* go before ours."""
    says = {**_PROBLEMS, **(sentences or {})}[problem.word]
    more = ", …" if problem.count > len(problem.examples) else ""
    detail = f" [{problem.detail}]" if problem.detail else ""
    ids = f": {', '.join(problem.examples)}{more}" if problem.examples else ""
    return f"{problem.count:,} {says}{detail}{ids}"
