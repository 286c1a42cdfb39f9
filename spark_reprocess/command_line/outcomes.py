"""What an answer calls the outcomes of ``redrive`` and of ``restore``: columns and sentences.

No Spark, no I/O: also for those who read an answer that a run elsewhere has given.
"""

from collections.abc import Mapping, Sequence

from spark_reprocess.archive.ledger.disposition import BEFORE, Disposition, Kind

_PROBLEMS: dict[str, str] = {
    Disposition.OTHER_PARKED_QUEUE: (
        "left: they were drained from another parked queue; act on them in a run of their own, "
        "with its --parked-queue-url and destination"
    ),
    Disposition.FOREIGN: (
        "left: they came from another main queue, which does not use this dead-letter queue or "
        "cannot be seen from here (sqs:GetQueueAttributes); send them with --to-queue-url, and "
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
        "left: --where takes only a part of their message group, which goes whole or not at all"
        " on a FIFO queue"
    ),
    Disposition.IN_DOUBT: (
        "in doubt: they may have been sent and no answer came; look for them, then run again "
        "with --in-doubt, whose help says what it may do"
    ),
    Disposition.BUSY: (
        "busy: another run claimed them and may still be sending; run again when it is done or "
        "its claims are older than --claim-ttl"
    ),
    Disposition.WAITS: (
        "waiting behind an earlier message of their message group that stays; decide about that"
        " one, or run again with --allow-reordering"
    ),
    Disposition.FAILED: "failed: not sent; run again to retry",
    Disposition.NOT_REACHED: "not reached: nothing of them was sent; run again to go on",
}

_PROBLEMS_OF_RESTORE: dict[str, str] = {
    **_PROBLEMS,
    Disposition.OTHER_PARKED_QUEUE: (
        "left: they were drained from another parked queue; where this one is to have them, add"
        " --include-foreign"
    ),
    Disposition.WAITS: "waiting behind an earlier message of their message group that stays",
}


def columns(
    counts: Mapping[str, int], *, executed: bool, restores: bool = False
) -> dict[str, tuple[str, ...]]:
    """Return the columns of a table of outcomes: by name, the dispositions that each adds up.

    Columns that are all 0 in *counts*, of the whole run by disposition, are left out, so that a
    terminal has room for the failures. *restores*: messages went to the parked queue.
    """
    first = {
        (True, False): {"sent": (Disposition.SENT,)},
        (False, False): {"to send": (Disposition.SEND,)},
        (True, True): {"restored": (Disposition.RESTORED,)},
        (False, True): {"to restore": (Disposition.SEND,)},
    }[executed, restores]
    others = {
        "discarded": (Disposition.DISCARDED,),
        "to discard": (Disposition.DISCARD,),
        "recorded": (Disposition.ARRIVED,),
        "to record": (Disposition.RECORD,),
        "decided before" if restores else "done before": tuple(BEFORE.values()),
        "left": Disposition.of(Kind.LEFT, Kind.REFUSED),
        "in doubt": (Disposition.IN_DOUBT,),
        "busy": (Disposition.BUSY, Disposition.WAITS),
        "failed": (Disposition.FAILED,),
        "not reached": (Disposition.NOT_REACHED,),
        "stopped": (Disposition.STOPPED,),
    }
    shown = {name: words for name, words in others.items() if any(map(counts.get, words))}
    return {**first, **shown}


def problem_sentence(
    word: str, count: int, detail: str, examples: Sequence[str], *, restores: bool = False
) -> str:
    """Format how many messages a problem concerns, and which.

    *word* is their disposition, *detail* may say why, *examples* are the ids of the first few, and
    *restores* says whether messages went to the parked queue.
    """
    sentence = (_PROBLEMS_OF_RESTORE if restores else _PROBLEMS).get(word, word)
    more = ", …" if count > len(examples) else ""
    of_it = f" [{detail}]" if detail else ""
    ids = f": {', '.join(examples)}{more}" if examples else ""
    return f"{count:,} {sentence}{of_it}{ids}"
