"""``redrive``: plan to queue."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.stop import Stop, StopCause
from dlq.archive.storage.files import open_archive
from dlq.cli.arguments import add_parked_queues, add_shared
from dlq.cli.outcomes import columns, print_outcomes, problem_sentence
from dlq.cli.suggested import execution_command, suggested_command
from dlq.cli.terminal import (
    AS_JSON,
    failed_again,
    print_answer,
    print_diff,
    print_error,
    print_line,
    print_notice,
    print_table,
)
from dlq.cli.verb import (
    CHECK_FAILED,
    DONE,
    FAILED_AGAIN,
    INTERRUPTED,
    NOT_ALL_SENT,
    RARE,
    Verb,
    progress_here,
    with_archive,
)
from dlq.figures import counted, duration
from dlq.plan.action_policy import ALLOWED_RETURNS
from dlq.plan.plan import Action
from dlq.redrive.request import RedriveRequest
from dlq.redrive.summary import RedriveSummary

if TYPE_CHECKING:
    from dlq.redrive.ramping.verdict_rules import GroupRamp
    from dlq.redrive.watch import Watched

_ABOUT = """\
Executes the newest plan, or --plan: sends the messages of groups with action "redrive", each to the
queue that it came from, and records groups with action "discard". A dry run unless --execute is
given. You can repeat it at any time: a message that was sent is never sent again.

With a failure table messages go by ramp: 1, 2, 6, 18, ... of each group, each step twice all before
it, when every failure of the step before had the time to come back and no more did than allowed. A
group of which more fails again is halted until somebody decides again: exit code 3. While a
step cannot be judged, or the circuit breaker limits the queue to 1 replay a minute, the run waits
for up to 15 minutes and ends with exit code 4: the same command goes on. If the table cannot be
read, nothing is sent: exit code 2.

A message whose answer was lost is unconfirmed: it is named and left. On FIFO queues a message waits
behind any earlier one of its message group that stays. What is left is counted and named.
docs/redrive.md has the rules."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "--plan")
    parser.add_argument(
        "--group",
        metavar="ID",
        help="redrive this group alone, whatever the plan does with it: g-...",
    )
    parser.add_argument(
        "--queue",
        metavar="NAME",
        help="redrive only messages that came from this source queue",
    )
    add_shared(parser, "--where", "--limit", "--max-rate")
    parser.add_argument(
        "--watch",
        dest="watches",
        action="store_true",
        help="after the send, say what comes back until every failure would have; exit code 3 if "
        "more failed again than allowed, 1 if that is not known; requires --failure-table",
    )
    add_shared(parser, "--reason", "--execute")
    add_ramp(parser)

    rare = parser.add_argument_group(RARE)
    add_shared(rare, "--main-queue-url", "--queue-tag", "--to-queue-url", "--failure-table")
    add_parked_queues(
        rare,
        "act only on messages of this parked queue; required if the plan has messages of several, "
        "for a ramp, and with --queue-tag; may be repeated",
    )
    add_shared(rare, "--unconfirmed", "--time-budget-seconds", "--mask", "--no-samples")
    add_shared(rare, "--pointer-bucket", "--sweep-function-arn")
    rare.add_argument(
        "--include-foreign",
        action="store_true",
        help="also messages that came from another queue, or may have; requires --to-queue-url",
    )
    rare.add_argument(
        "--allow-reordering",
        action="store_true",
        help="FIFO: send messages although an earlier one of their message group is not sent",
    )
    # For programs: the console executes what its dry run has shown, and nothing else.
    rare.add_argument("--decisions-sha256", help=argparse.SUPPRESS)


def add_ramp(parser: argparse.ArgumentParser) -> None:
    """Add the ramp's arguments; ``--parked-queue-url`` and ``--failure-table`` are the verbs'.

    DLQ_MINUTE_SECONDS shortens its minutes, for demonstrations.
    """
    parser.set_defaults(minute_seconds=float(os.environ.get("DLQ_MINUTE_SECONDS", "60")))
    group = parser.add_argument_group("ramp")

    how = group.add_mutually_exclusive_group()
    how.add_argument(
        "--ramp",
        action="store_true",
        default=None,
        help="send 1, 2, 6, 18, ... messages of each group, each step after the one before is "
        "known to be good; refused where that could not be seen (default with --failure-table)",
    )
    how.add_argument(
        "--at-once",
        dest="ramp",
        action="store_false",
        help="send everything in one step, also if the failure table cannot be read (default "
        "without --failure-table)",
    )

    group.add_argument(
        "--allow-returns",
        type=_allowed,
        metavar="N|P%",
        help="how many messages of a group may fail again (default: none of the first 20, one up "
        "to 100, then 1%% of what was sent)",
    )
    group.add_argument(
        "--function-arn",
        metavar="ARN",
        help="the replay function: a step is good only while something feeds it, and it had no "
        "errors",
    )


def _allowed(text: str) -> str:
    if not ALLOWED_RETURNS.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be a whole number, or a percentage from 0% to 100%"
        )
    return text


def _run(options: tuple[str, RedriveRequest]) -> int:
    place, request = options
    from dlq.cli.engines import engine_for
    from dlq.inspect.sizes import size_of_plan
    from dlq.redrive.halted_plan import halted_summary
    from dlq.redrive.redrive import redrive
    from dlq.redrive.send_run import prepare
    from dlq.redrive.watch import Watch

    # Whoever collects the output, a log, keeps what an erase does not reach.
    if not (sys.stdout.isatty() or AS_JSON.get()):
        request = replace(request, has_samples=False)
    # Nobody should wait for an engine to be told of a mistake.
    archive = open_archive(place)
    run = prepare(archive, request)

    summary = halted_summary(run)
    watch = None
    if summary is None:
        if request.watches and request.execute:
            watch = Watch(archive, request)
        engine = engine_for("redrive", lambda: size_of_plan(archive, run.plan))
        summary = redrive(engine, run, progress=progress_here(), announce=print_notice)

    # Also where all groups were halted before, so that no run began.
    is_halted = request.execute and bool(summary.halted_groups)
    if not AS_JSON.get():
        print_redrive(summary)
        print_execution(summary, request.reason, *execution_words(summary, request))
        if summary.halted_groups and not is_halted:
            print_line(f"once it is fixed: {_decide_command(place, summary, request)}")
        elif words := next_words(summary, request):
            verb, *options_of_verb = words
            print_line(f"next: {suggested_command(verb, place, *options_of_verb)}")
    print_stop(summary.stopped_by)

    exit_code = exit_code_of(summary)
    if watch and exit_code != INTERRUPTED:
        watched = watch.run(summary.plan_id, progress_here())
        print_watched(watched)
        exit_code = exit_code_of_watch(watched, exit_code)
    outcomes = watch.outcomes if watch else ()
    print_answer(
        {**redrive_fields(summary), "outcomes": list(map(asdict, outcomes))},
        lambda: print_outcomes(outcomes, request.failure_table),
    )

    if exit_code == INTERRUPTED or not is_halted:
        return exit_code
    print_error(
        f"halted: {', '.join(summary.halted_groups)}: more failed again than allowed, and the "
        "rest was not sent; collect shows what failed again; once it is fixed, decide again, and "
        f"the next ramp begins with step one: {_decide_command(place, summary, request)}"
    )
    return FAILED_AGAIN


def next_words(summary: RedriveSummary, request: RedriveRequest) -> tuple[str, ...]:
    """Return the words of the command that follows. Pure.

    There are none where the answer itself says what to do: repeat the command, add --execute, or
    decide about a halted group.
    """
    plan = ("--plan", request.plan) if request.plan else ()
    if not summary.executed:
        acts = summary.count(Disposition.SEND, Disposition.DISCARD)
        return () if acts else ("groups", *plan)
    if summary.stopped_by or summary.has_halted_groups or request.watches:
        return ()
    if request.failure_table is None or not summary.count(Disposition.SENT):
        return ("status",)
    return ("show", summary.run_id)


def execution_words(summary: RedriveSummary, request: RedriveRequest) -> list[str]:
    """Return the options that a dry run lacks, so that its execution does what it has shown. Pure.

    A newer report may come, so they name the plan; and the failure table may be read then and not
    now, so they name the pace.
    """
    words: list[str] = []
    if request.plan is None:
        words += ["--plan", summary.plan_id]
    if request.ramp is None and request.failure_table is not None:
        words.append("--ramp" if summary.forecast else "--at-once")
    return words


def _decide_command(place: str, summary: RedriveSummary, request: RedriveRequest) -> str:
    """Format the command that lets the first halted group go on."""
    plan = ("--plan", request.plan) if request.plan else ()
    return suggested_command("decide", place, summary.halted_groups[0], "redrive", *plan)


def print_watched(watched: "Watched") -> None:
    """Print what went wrong in a watch, and what is not known in the end."""
    if watched.ended_early:
        print_error(f"the watch ended early: {watched.ended_early}")
    if watched.bad:
        print_error(f"{', '.join(watched.bad)}: more failed again than allowed")
    if watched.unknown:
        print_error(f"{', '.join(watched.unknown)}: what failed again is not known")


def exit_code_of_watch(watched: "Watched", exit_code: int) -> int:
    """Return the exit code of a watch, else that of its run, which is *exit_code*. Pure."""
    if watched.stopped_by and watched.stopped_by.cause is StopCause.INTERRUPTED:
        return INTERRUPTED
    if watched.bad:
        return FAILED_AGAIN
    if exit_code:
        return exit_code
    return CHECK_FAILED if watched.ended_early or watched.unknown else DONE


def print_stop(stop: Stop | None) -> None:
    """Print why a run stopped early, if it did."""
    if stop:
        print_error(
            f"the run stopped early: {stop.sentence}; nothing is lost, run the same command again "
            "to go on"
        )


def exit_code_of(summary: RedriveSummary) -> int:
    """Return the exit code of a redrive or a restore. Pure.

    That of an interruption counts before that of a halted group, and that before all others.
    """
    stop = summary.stopped_by
    if stop and stop.cause is StopCause.INTERRUPTED:
        return stop.cause.exit_code
    if summary.has_halted_groups:
        return FAILED_AGAIN
    if stop:
        return stop.cause.exit_code
    return NOT_ALL_SENT if summary.is_unfinished else DONE


def redrive_fields(summary: RedriveSummary) -> dict[str, object]:
    """Return the fields of the JSON answer. It has no titles, which quote messages."""
    fields = asdict(summary)
    for group in fields["groups"]:
        del group["title"]
    return fields


def print_redrive(summary: RedriveSummary, heading: str = "group") -> None:
    """Print what happened to each group or drain, or would, and why messages were left.

    Titles quote messages, so they are printed on a terminal only.
    """
    _print_groups(summary, heading)
    for sample in summary.samples:
        print_line(f"edit of group {sample.group_id}, message {sample.message_id}")
        print_diff([f"  {line}" for line in sample.lines], indent=2)
    if summary.ramp:
        _print_ramp(summary.ramp)

    for problem in summary.problems:
        print_line(problem_sentence(problem))
    for note in summary.notes:
        print_line(f"note: {note}")
    if summary.forecast and (sizes := summary.forecast.sizes):
        print_line(
            f"ramp: up to {counted(len(sizes), 'step')} a group (messages: "
            f"{', '.join(map('{:,}'.format, sizes))}), at least "
            f"{duration(summary.forecast.seconds)} in all; --at-once sends everything in one step"
        )
    print_line(_format_result(summary))


def print_execution(summary: RedriveSummary, reason: str, *more: str) -> None:
    """Print the command that does what a dry run has shown, if that is something.

    It has *more* options than the dry run, and a place for the reason if there is no *reason*.
    """
    acts = summary.count(Disposition.SEND, Disposition.DISCARD)
    if summary.executed or not acts:
        return
    print_line(f"to do it: {execution_command(*more, needs_reason=not reason)}")


def _print_groups(summary: RedriveSummary, heading: str) -> None:
    """Print the numbers of each group; on a terminal its title, too."""
    dispositions_by_column = columns(summary.counts)
    headings = [heading, "action", *dispositions_by_column]
    has_titles = sys.stdout.isatty() and any(group.title for group in summary.groups)
    if has_titles:
        headings.append("failure")

    rows: list[list[object]] = []
    for group in summary.groups:
        action = f"{group.action}, edited" if group.is_edited else group.action
        row: list[object] = [group.group_id, action]
        for dispositions in dispositions_by_column.values():
            row.append(sum(group.counts.get(disposition, 0) for disposition in dispositions))
        if has_titles:
            row.append(group.title)
        rows.append(row)
    print_table(headings, rows, spare=("done before", "left", "action"))


def _print_ramp(ramps: Sequence["GroupRamp"]) -> None:
    """Print how far each group is in its ramp."""
    rows: list[Sequence[object]] = []
    for ramp in ramps:
        row = (
            ramp.group_id,
            f"{ramp.step} of {ramp.steps}",
            ramp.sent,
            failed_again(ramp.sent, ramp.returned),
            ramp.allowed,
            ramp.verdict,
            ramp.reason,
        )
        rows.append(row)
    headings = ("ramp of group", "step", "sent", "failed again", "allowed", "verdict", "")
    print_table(headings, rows, spare=("allowed", "step"))


_DONE = {
    Disposition.SENT: "sent {:,}",
    Disposition.RESTORED: "restored {:,}",
    Disposition.DISCARDED: "discarded {:,}",
    Disposition.DISCARD: "{:,} would be discarded",
}


def _format_result(summary: RedriveSummary) -> str:
    done: list[str] = []
    for disposition, text in _DONE.items():
        if count := summary.count(disposition):
            done.append(text.format(count))
    if summary.executed:
        return f"plan {summary.plan_id}, run {summary.run_id}: {', '.join(done) or 'sent 0'}"
    if all(group.action == Action.LEAVE for group in summary.groups):
        return "dry run: the plan leaves every group; edit its actions first"
    to_send = summary.count(Disposition.SEND)
    if not (to_send or done):
        to = f" to {summary.destination}" if summary.destination else ""
        return f"dry run: nothing would be sent{to}"

    pace = "as fast as it goes"
    if summary.max_rate is not None:
        pace = f"in about {duration(to_send / summary.max_rate)} at {summary.max_rate:g} a second"
    if summary.forecast and summary.forecast.sizes:
        pace = "step by step"
    goes = f"{to_send:,} would go to {summary.destination} {pace}"
    return f"dry run: nothing was sent. {', '.join([goes, *done])}"


VERB = Verb(_ABOUT, _add_arguments, with_archive(RedriveRequest), _run, has_engine=True)
