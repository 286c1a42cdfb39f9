"""``status``: counts of messages in the archive and in queues; the circuit breaker."""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from dlq.archive.ledger.disposition import DECIDED, Disposition
from dlq.archive.ledger.message_state import PENDING
from dlq.archive.storage.files import is_begun, open_archive
from dlq.aws.clients import QueueCounts
from dlq.cli.arguments import add_shared
from dlq.cli.suggested import FOLDER, suggested_command
from dlq.cli.terminal import (
    failed_again,
    print_answer,
    print_count_times,
    print_line,
    print_table,
)
from dlq.cli.verb import (
    CHECK_FAILED,
    DONE,
    RARE,
    STACK,
    STACK_FILE,
    Verb,
    progress_here,
)
from dlq.errors import InputError
from dlq.figures import UNKNOWN, counted, duration, minute
from dlq.inspect.status import (
    EXAMPLES,
    LATEST,
    ArchiveStatus,
    DlqStatus,
    PlanCount,
    StatusOptions,
    status,
)
from dlq.stack.fleet import FleetStatus, read_fleet
from dlq.stack.fleet_rows import FleetRow
from dlq.stack.user_files import FIGURES_SECONDS
from dlq_replay.aws.tagged_queues import TAG_KEY

_ABOUT = """\
Counts the messages of the archive and, if you name it, of the parked queue: by state, by drain and
by plan. Names the oldest pending message and those unconfirmed, and the circuit breaker's limit.
Changes nothing; needs no Spark: an archive on S3 is read whole, by this machine.

A stack that was deployed without the Spark job has no archive: its queues are counted alone.

Of a fleet, a stack with a QueueTag, it prints a line for each member DLQ, first what needs a
person: a message close to its expiry, sends that fail, a limited main queue, new groups. The age of
a message is that of SQS, which counts from the move to the DLQ: it expires earlier, and the alarm
of the replay function counts from its first send (SentTimestamp). Each call reads the attributes of
all members, and metrics for $0.01 per 1,000; these are kept for a minute.

dlq status alone, where neither an option nor the environment names a stack or an archive, lists the
installations of this account and Region; with --region a,b and --profile c,d those of every pair.
A pair that cannot be read is a row with the reason, and the exit code is 1."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "--parked-queue-url", "--failure-table")
    add = parser.add_argument
    add("--main-queue-url", metavar="URL", help="say whether replays to this queue are limited")
    add("--dlq-url", metavar="URL", help="its DLQ: also say how many wait there")
    add("--queue", metavar="NAME", help="of a fleet: only this DLQ, or that of this main queue")

    rare = parser.add_argument_group(RARE).add_argument
    rare("--queue-tag", metavar="TAG", help="the value of the tag that a fleet's members carry")
    rare("--fifo-parked-queue-url", metavar="URL", help="the second parked queue of a fleet")
    rare("--sweep-rule", metavar="NAME", help="the rule that starts a fleet's sweep")


def _run(options: StatusOptions) -> int:
    if options.queue_tag:
        return _run_fleet(options)
    if options.queue:
        raise InputError("--queue: is only for a fleet, a stack with the parameter QueueTag")

    # The archive of a stack begins with its first drain. Any other place may be mistyped.
    if not STACK.get() and not is_begun(open_archive(options.archive)):
        begin = suggested_command("collect", options.archive)
        raise InputError(
            f"archive {options.archive}: nothing is archived there; give another, or begin it: "
            f"{begin}"
        )

    counts = status(options, progress=progress_here())
    answer = {"stack": STACK.get(), "stack_file": STACK_FILE.get(), **asdict(counts)}
    print_answer(answer, lambda: print_status(counts))
    return DONE


def _run_fleet(options: StatusOptions) -> int:
    with progress_here()("reading the fleet", str):
        fleet = read_fleet(options, int(time.time()))
    answer = {"stack": STACK.get(), "stack_file": STACK_FILE.get(), **asdict(fleet)}
    print_answer(answer, lambda: _print_fleet(fleet, options.queue))
    return CHECK_FAILED if fleet.unknown else DONE


_FLEET_COLUMNS = (
    "DLQ",
    "look at",
    "waiting",
    "held",
    "limit",
    "oldest",
    "expires in",
    "retention",
    "replayed",
    "failed",
    "new",
    "pending",
)
_FLEET_SPARE = ("retention", "oldest", "replayed", "held", "limit", "pending", "new", "failed")


def _print_fleet(fleet: FleetStatus, queue: str | None) -> None:
    """Print a line for each DLQ of a fleet, and what is of all of them."""
    print_line(
        f"fleet {TAG_KEY}={fleet.queue_tag} at {minute(fleet.at)} UTC: "
        f"{counted(fleet.members, 'member')}"
    )
    for name, counts in fleet.parked.items():
        print_line(f"parked queue {name}: {_in_words(counts)}")
    if fleet.archive:
        pending = f"{fleet.archive.count(PENDING):,} pending of {fleet.archive.messages:,} messages"
        oldest = _oldest(fleet.archive)
        print_line(
            f"archive {fleet.archive.archive}: {pending}{oldest and f', the oldest {oldest}'}"
        )
    print_line(f"sweep: {fleet.sweep or UNKNOWN}")

    print_table(_FLEET_COLUMNS, list(map(_fleet_row, fleet.queues)), spare=_FLEET_SPARE)
    if queue:
        for row in fleet.queues:
            print_line(
                f"main queues of {row.queue}: {', '.join(row.sources) or 'none has the tag'}"
            )

    for reason in fleet.unknown[:LATEST]:
        print_line(f"not known: {reason}")
    if len(fleet.unknown) > LATEST:
        print_line(f"and {len(fleet.unknown) - LATEST:,} more; --json lists all")
    age = duration((fleet.at - fleet.figures_at).total_seconds())
    print_line(
        "replayed, failed: last hour; oldest: at least, as SQS counts from the move; expires: seen"
    )
    print_line(
        f"CloudWatch: {counted(fleet.metrics, 'metric')} read ($0.01 per 1,000); "
        f"figures {age} old, kept for {FIGURES_SECONDS} s"
    )
    requests = counted(fleet.members + len(fleet.parked), "request")
    print_line(f"SQS: {requests} ($0.40 per million)")
    for line in _next_steps(fleet.archive) if fleet.archive else ():
        print_line(line)


def _fleet_row(row: FleetRow) -> tuple[object, ...]:
    numbers = [row.replayed, row.failed, row.new_groups, row.pending]
    return (
        row.queue,
        row.need,
        row.waiting,
        row.held,
        f"{row.limit}/min" if row.limit else "-",
        "-" if row.oldest_seconds is None else duration(row.oldest_seconds),
        "-" if row.expires_seconds is None else duration(row.expires_seconds),
        duration(row.retention_seconds),
        *("-" if number is None else number for number in numbers),
    )


_STATES = (*DECIDED, Disposition.UNCONFIRMED, Disposition.IN_PROGRESS)
_COLUMNS = tuple(state.replace("_", " ") for state in _STATES)
_SPARE = ("restored", "in progress", "discarded", "unconfirmed")


def print_status(status: ArchiveStatus) -> None:
    """Print the counts, and the next command."""
    if file := STACK_FILE.get():
        print_line(f"stack {STACK.get()} (dlq use: {file})")
    place = f"archive {status.archive}" if status.archive else f"stack {STACK.get()}"
    print_line(f"{place} at {minute(status.at)} UTC")
    if status.dead_letters:
        print_line(f"DLQ: {_in_words(status.dead_letters)}")
    if status.queue:
        print_line(f"parked queue: {_in_words(status.queue)}")
    if status.dlq:
        _print_breaker(status.dlq)
    if not status.archive:
        _print_how_to_begin()
        return

    if status.messages:
        counts = (status.messages, status.count(PENDING), *map(status.count, _STATES))
        print_table(("messages", PENDING, *_COLUMNS), [counts], spare=_SPARE)
    else:
        print_line("the archive is empty: a drain moves messages of the parked queue into it")

    if status.oldest_pending_at:
        print_line(f"oldest pending: {_oldest(status)}")
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


def _print_how_to_begin() -> None:
    """Print how a stack without an archive gets one."""
    print_line(
        "no archive, because the stack has no Spark job: deploy it with CreateSparkJob=true, or "
        "keep the archive in a folder:"
    )
    print_line(f"  {suggested_command('collect', '', '--archive', FOLDER)}")


def _in_words(queue: QueueCounts) -> str:
    return (
        f"about {queue.visible:,} visible, {queue.in_flight:,} in flight, {queue.delayed:,} delayed"
    )


def _oldest(status: ArchiveStatus) -> str:
    """Return when the oldest pending message was parked; empty if there is none."""
    if status.oldest_pending_at is None:
        return ""
    ago = duration((status.at - status.oldest_pending_at).total_seconds())
    return f"parked {minute(status.oldest_pending_at)} UTC, {ago} ago"


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
        return ("collect",)

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
