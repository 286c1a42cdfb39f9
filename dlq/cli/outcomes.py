"""Columns and sentences for the outcomes of ``redrive`` and of ``restore``."""

import time
from collections.abc import Collection, Mapping

from dlq.archive.ledger.disposition import BEFORE, Disposition, Kind
from dlq.cli.terminal import print_line
from dlq.inspect.outcomes import Outcome
from dlq.redrive.summary import Tally

_PROBLEMS: dict[str, str] = {
    Disposition.OTHER_PARKED_QUEUE: (
        "left: they were drained from another parked queue; redrive them with its "
        "--parked-queue-url and destination, restore them with --include-foreign"
    ),
    Disposition.FOREIGN: (
        "left: they came from another main queue, which does not use this dead-letter queue (with "
        "--queue-tag: it or its dead-letter queue does not have the tag), or which cannot be seen "
        "from here (sqs:GetQueueAttributes); send them with --to-queue-url, and "
        "--include-foreign where the queue is not recorded"
    ),
    Disposition.UNKNOWN_SOURCE: (
        "left: nothing records which queue they came from, and other queues use the same dead-"
        "letter queue, or SQS did not say (sqs:ListDeadLetterSourceQueues); where the "
        "destination is theirs, add --to-queue-url and --include-foreign"
    ),
    Disposition.NO_ROOM: (
        "left for a person: they have no room for the replay count and the context beside their"
        " own attributes, so nothing would show that they were redriven before"
    ),
    Disposition.NO_GROUP: "left: a FIFO queue needs a MessageGroupId and they have none",
    Disposition.EDIT_FAILED: "left: the plan's edit does not fit them",
    Disposition.SPLIT_GROUP: (
        "left: --where or --queue takes only a part of their message group, which goes whole or "
        "not at all on a FIFO queue"
    ),
    Disposition.UNCONFIRMED: (
        "unconfirmed: they may have been sent and no answer came; look for them at the consumer, "
        "then discard them, or send them again with --unconfirmed send"
    ),
    Disposition.IN_PROGRESS: (
        "in progress: a run claimed them that has not ended, or was killed: the next run closes it"
    ),
    Disposition.WAITS: (
        "waiting behind an earlier message of their message group that stays; decide about that"
        " one, or redrive with --allow-reordering"
    ),
    Disposition.FAILED: "failed: not sent; run again to retry",
    Disposition.NOT_REACHED: "not reached: nothing of them was sent; run again to go on",
}

_COLUMNS = {
    "to send": (Disposition.SEND,),
    "sent": (Disposition.SENT,),
    "restored": (Disposition.RESTORED,),
    "discarded": (Disposition.DISCARDED,),
    "to discard": (Disposition.DISCARD,),
    "done before": tuple(BEFORE.values()),
    "left": Disposition.of(Kind.LEFT, Kind.REFUSED),
    "unconfirmed": (Disposition.UNCONFIRMED,),
    "in progress": (Disposition.IN_PROGRESS, Disposition.WAITS),
    "failed": (Disposition.FAILED,),
    "not reached": (Disposition.NOT_REACHED,),
    "halted": (Disposition.HALTED,),
}


def columns(counts: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Return the columns of a table of outcomes: by name, the dispositions that each adds up.

    Columns that are all 0 in *counts*, of the whole run by disposition, are left out.
    """
    return {name: parts for name, parts in _COLUMNS.items() if any(map(counts.get, parts))}


def problem_sentence(problem: Tally) -> str:
    """Format how many messages a problem concerns, and which."""
    sentence = _PROBLEMS.get(problem.disposition, problem.disposition)
    more = ", …" if problem.count > len(problem.examples) else ""
    detail = f" [{problem.detail}]" if problem.detail else ""
    ids = f": {', '.join(problem.examples)}{more}" if problem.examples else ""
    return f"{problem.count:,} {sentence}{detail}{ids}"


def print_outcomes(outcomes: Collection[Outcome], failure_table: str | None) -> None:
    """Print for each group of which something was sent how much failed again, the most first."""
    sent = [outcome for outcome in outcomes if outcome.sent]
    sent.sort(key=lambda outcome: -(outcome.known_returned or 0))

    is_counted = any(outcome.counted is not None for outcome in sent)
    if sent and not failure_table and not is_counted:
        print_line("what fails again cannot be known: no --failure-table counts it")
        return

    for outcome in sent:
        print_line(f"{outcome.group_id}: {outcome.sentence(time.time())}")
