"""``redrive``: plan to queue."""

import argparse
from typing import Any

from spark_reprocess.command_line.answers.canary import stopped_sentence
from spark_reprocess.command_line.answers.redrive import print_redrive
from spark_reprocess.command_line.argument_types import (
    WHERE,
    whole_number,
)
from spark_reprocess.command_line.canary_arguments import add_canary, take_canary
from spark_reprocess.command_line.sending import add_sending, exit_code_of, take_in_doubt
from spark_reprocess.command_line.shared_arguments import (
    add_destination,
    add_execution,
    add_masks,
)
from spark_reprocess.command_line.terminal import complain
from spark_reprocess.command_line.verb import (
    INTERRUPTED,
    STOPPED_BY_CANARY,
    Verb,
    progress_here,
    start_spark,
)
from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.redrive.redrive_values import RedriveOptions

_ABOUT = """\
Does what plan.yaml says, to exactly the messages that it froze: sends groups with action
"redrive" to the queue, records groups with action "discard". A dry run unless --execute is given.
Repeat it at will: what was sent is never sent again, and what may have been sent (an answer that
was lost, a run that was killed) is named and left alone unless you say --in-doubt send.

A group of the plan may say how its messages change on the way: `edit`, a JSON Patch (RFC 6902) on
JSON bodies, and `set_attributes`, Spark SQL for attributes. The dry run shows a few of them before
and after. Messages that an edit does not fit are left, counted and named.

With --canary a sample of every group goes ahead, marked so that a failure comes straight back to
the parked queue. After a wait in which all failures must have come back, the rest follows of the
groups of which no more came back than may; the others are stopped, and so are those of which
nobody can know. Exit 3 says that a group was stopped. If your consumer extends the visibility of
its messages, as the consumer kit's heartbeat does, give --consumer-max-seconds.

Each message goes back to the queue that it came from: --main-queue-url says which one that is for
messages that do not name it. Messages of other main queues are left, counted and named, neither
sent nor discarded. --to-queue-url names another destination for all. Messages that were parked as
foreign_source, or may have been, are left even then, unless --include-foreign says that the
destination is theirs, or their own record does.

To a FIFO queue a message waits behind any earlier message of its message group that is neither
sent nor discarded nor restored, whether the plan has it or not. --allow-reordering sends it all the
same, in this run."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--plan", required=True, metavar="FILE", help="the plan.yaml that analyze wrote")
    add_destination(parser)
    add(
        "--parked-queue-url",
        metavar="URL",
        help="act only on messages of this parked queue; needed where the plan has messages of "
        "several, and with --canary, which empties it meanwhile",
    )
    add("--where", metavar="SQL", help=f"only these of the plan: {WHERE}")
    add("--limit", type=whole_number(1), metavar="N", help="act on at most N messages in this run")
    add_sending(parser)
    add_canary(parser)
    add(
        "--include-foreign",
        action="store_true",
        help="also messages that came from another queue, or may have; needs --to-queue-url",
    )
    add(
        "--allow-reordering",
        action="store_true",
        help="FIFO: send messages although an earlier one of their message group stays behind",
    )
    add("--keep-counter", action="store_true", help="keep each message's true replay count")
    add_masks(
        parser,
        "hide a field, or what a regular expression matches, in the dry run's previews of edits",
        "preview no edit on any message",
    )
    add_execution(parser)


def _make_options(*, masks: list[str], **values: Any) -> RedriveOptions:  # noqa: ANN401 - argparse's
    canary, send_in_doubt = take_canary(values), take_in_doubt(values)
    return RedriveOptions(masks=tuple(masks), canary=canary, send_in_doubt=send_in_doubt, **values)


def _run(options: RedriveOptions) -> int:
    summary = redrive(start_spark(), options, progress=progress_here())
    print_redrive(summary)
    exit_code = exit_code_of(summary)
    if exit_code != INTERRUPTED and summary.canary and summary.canary.stopped_groups:
        complain(stopped_sentence(summary.canary))
        return STOPPED_BY_CANARY
    return exit_code


VERB = Verb(
    "redrive",
    "plan to queue (dry run by default)",
    _ABOUT,
    _add_arguments,
    _make_options,
    _run,
)
