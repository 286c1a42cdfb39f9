"""``status``: counts of messages in the archive and in the parked queue; the circuit breaker."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from dlq.archive.ledger.disposition import DECIDED, Disposition
from dlq.archive.ledger.message_state import PENDING
from dlq.archive.storage.files import is_begun, open_archive
from dlq.cli.arguments import add_shared
from dlq.cli.terminal import (
    failed_again,
    print_answer,
    print_count_times,
    print_line,
    print_table,
)
from dlq.cli.verb import DONE, STACK, STACK_FILE, Verb, progress_here, suggested_command
from dlq.errors import InputError
from dlq.figures import counted, duration, minute
from dlq.inspect.status import (
    EXAMPLES,
    LATEST,
    ArchiveStatus,
    DlqStatus,
    PlanCount,
    StatusOptions,
    status,
)

_ABOUT = """\
Counts the messages of the archive and, if you name it, of the parked queue: by state, by drain and
by plan. Names the oldest pending message and those unconfirmed, and the circuit breaker's limit.
Changes nothing; needs no Spark: an archive on S3 is read whole, by this machine.

dlq status alone, where neither an option nor the environment names a stack or an archive, lists the
installations of this account and Region; with --region a,b and --profile c,d those of every pair.
A pair that cannot be read is a row with the reason, and the exit code is 1."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "--parked-queue-url", "--failure-table")
    add = parser.add_argument
    add("--main-queue-url", metavar="URL", help="say whether replays to this queue are limited")
    add("--dlq-url", metavar="URL", help="its DLQ: also say how many wait there")


def _run(options: StatusOptions) -> int:
    # The archive of a stack begins with its first drain. Any other place may be mistyped.
    if not STACK.get() and not is_begun(open_archive(options.archive)):
        begin = suggested_command("collect", options.archive, "--parked-queue-url", "URL")
        raise InputError(
            f"archive {options.archive}: nothing is archived there; give another, or begin it: "
            f"{begin}"
        )

    counts = status(options, progress=progress_here())
    answer = {"stack": STACK.get(), "stack_file": STACK_FILE.get(), **asdict(counts)}
    print_answer(answer, lambda: print_status(counts))
    return DONE


_STATES = (*DECIDED, Disposition.UNCONFIRMED, Disposition.IN_PROGRESS)
_COLUMNS = tuple(state.replace("_", " ") for state in _STATES)
_SPARE = ("restored", "in progress", "discarded", "unconfirmed")


def print_status(status: ArchiveStatus) -> None:
    """Print the counts, and the next command."""
    if file := STACK_FILE.get():
        print_line(f"stack {STACK.get()} (dlq use: {file})")
    print_line(f"archive {status.archive} at {minute(status.at)} UTC")
    if status.queue:
        queue = status.queue
        print_line(
            f"parked queue: about {queue.visible:,} visible, {queue.in_flight:,} in flight, "
            f"{queue.delayed:,} delayed"
        )
    if status.dlq:
        _print_breaker(status.dlq)

    if status.messages:
        counts = (status.messages, status.count(PENDING), *map(status.count, _STATES))
        print_table(("messages", PENDING, *_COLUMNS), [counts], spare=_SPARE)
    else:
        print_line("the archive is empty: a drain moves messages of the parked queue into it")

    if status.oldest_pending_at:
        ago = duration((status.at - status.oldest_pending_at).total_seconds())
        print_line(f"oldest pending: parked {minute(status.oldest_pending_at)} UTC, {ago} ago")
    if status.waiting:
        blockers = [f"{blocker.message_id} ({blocker.waiting:,})" for blocker in status.blockers]
        print_line(
            f"{status.waiting:,} wait behind an earlier message of their message group: "
            f"{', '.join(blockers)}"
        )

    drains = [(drain.drain_id, drain.messages, drain.pending) for drain in status.drains]
    _print_latest("drain", ("messages", PENDING), drains)
    _print_latest("plan", (*_COLUMNS, "failed again"), list(map(_plan_row, status.plans)))
    print_count_times(plan.returned_at for plan in status.plans)

    for line in _next_steps(status):
        print_line(line)


def _plan_row(plan: PlanCount) -> tuple[object, ...]:
    """Return the cells of a plan."""
    counts = [plan.counts.get(state, 0) for state in _STATES]
    return plan.plan_id, *counts, failed_again(plan.counts.get(Disposition.SENT), plan.returned)


def _print_breaker(dlq: DlqStatus) -> None:
    if dlq.fault:
        print_line(f"circuit breaker: not known ({dlq.fault})")
    if dlq.sentence:
        print_line(f"circuit breaker: {dlq.sentence}")
    if dlq.unjudged:
        print_line(f"circuit breaker: {dlq.unjudged}; dlq doctor says what to change")
    if dlq.waiting is not None:
        print_line(f"DLQ: about {dlq.waiting:,} wait")


def _print_latest(name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        print_table((name, *columns), rows[-LATEST:], spare=_SPARE)
    if len(rows) > LATEST:
        print_line(f"and {len(rows) - LATEST:,} older {name}s; --json lists all")


def _next_steps(status: ArchiveStatus) -> Iterator[str]:
    for state, advice in (
        (Disposition.UNCONFIRMED, "they may have been sent and no answer came"),
        (Disposition.IN_PROGRESS, "a run that has not ended claimed them"),
    ):
        examples = status.examples.get(state, ())
        if examples:
            more = ", …" if status.count(state) > EXAMPLES else ""
            yield f"{state.replace('_', ' ')}: {advice}: {', '.join(examples)}{more}"
            yield f"  details of one: {suggested_command('show', status.archive, examples[0])}"

    yield from status.open_runs

    report = status.report
    if report and report.fault:
        yield f"newest report: {report.fault}"
    if report and report.decided:
        is_or_are = "is" if report.decided == 1 else "are"
        yield (
            f"{counted(report.decided, 'pending message')} {is_or_are} decided in plan "
            f"{report.plan_id}; a newer plan would leave every group"
        )

    if words := next_words(status):
        verb, *options = words
        yield f"next: {suggested_command(verb, status.archive, *options)}"


def next_words(status: ArchiveStatus) -> tuple[str, ...]:
    """Return the words of the next command; none where nothing is to be done.

    Decisions are carried out before another analysis makes a plan without them.
    """
    report = status.report
    if report and report.decided:
        return ("redrive",)

    has_uncollected = status.queue.visible > 0 if status.queue else not status.messages
    if has_uncollected:
        return ("collect",) if STACK.get() else ("collect", "--parked-queue-url", "URL")

    if not status.count(PENDING):
        return ()
    is_known = report is not None and not report.unlisted
    return ("groups",) if is_known else ("collect", "--only", "analyze")


VERB = Verb(
    about=_ABOUT,
    add_arguments=_add_arguments,
    make_options=StatusOptions,
    run=_run,
)
