"""``erase``: messages leave the archive for good."""

import argparse
import time

from dlq.archive.messages.dead_letter_schema import READ_COLUMNS
from dlq.archive.messages.message_store import require_drains
from dlq.archive.storage.files import open_archive
from dlq.cli.arguments import add_shared, positive_number, whole_number
from dlq.cli.suggested import execution_command
from dlq.cli.terminal import print_answer, print_line, print_table
from dlq.cli.verb import DONE, Verb, progress_here, with_archive
from dlq.erase.erase import FEWEST_DAYS, EraseRequest, EraseSummary, erase
from dlq.errors import BusyError
from dlq.figures import counted

_ABOUT = """\
Erases messages from the archive, for example because a person's data must go: every archived copy
with the same first id, in every drain, and the reports that may quote it. Their plan.yaml stays,
without its condition, comments and the titles of its groups. The ledger keeps who, when, why and
the ids.
--failure-table also erases the failures that consumers recorded of these messages.

A dry run unless --execute is given. If an erase is killed, the next one completes it. In a
versioned bucket every version is erased. docs/erase.md has the rights that this needs, and what an
erase does not reach."""

_IS_KEPT = "; neither the reason of an erase nor the ids should identify a person: both are kept"
_NOT_REACHED = (
    "not reached: copies that are still in a queue (drain and erase again), copies that lost their "
    "context (find them with --where), and what docs/erase.md names"
)
_RETRY_SECONDS = 30


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--id",
        dest="ids",
        action="append",
        default=[],
        metavar="ID",
        help="the message id of any copy, or a first id; may be repeated",
    )
    add_shared(parser, "--where")

    add(
        "--older-than-days",
        type=whole_number(1, 36_500),
        metavar="N",
        help=f"all messages decided at least N days ago; N is {FEWEST_DAYS} or more, since SQS may "
        "deliver a message again for 14; needs no --reason",
    )

    add_shared(parser, "--failure-table")
    add(
        "--wait-seconds",
        type=positive_number,
        default=0,
        metavar="S",
        help="try again for S seconds while a redrive, a restore, an analysis or another erase is "
        "under way (default: end within 12 s, with exit code 2)",
    )
    add_shared(parser, "--reason", "--execute")


def _run(options: tuple[str, EraseRequest]) -> int:
    place, request = options
    request.check()
    archive = open_archive(place)
    engine = None
    if request.where is not None:
        # Only a condition needs an engine.
        from dlq.cli.engines import engine_for
        from dlq.inspect.sizes import size_of_archive
        from dlq.sql.allowed import check_sql

        check_sql(request.where, READ_COLUMNS)
        require_drains(archive)
        engine = engine_for("erase", lambda: size_of_archive(archive))
    wait_until = time.monotonic() + request.wait_seconds
    while True:
        try:
            summary = erase(engine, archive, request, progress=progress_here())
            break
        except BusyError:
            if time.monotonic() >= wait_until:
                raise
        time.sleep(min(_RETRY_SECONDS, request.wait_seconds))
    print_answer(summary, lambda: print_erase(summary, request))
    return DONE


def print_erase(summary: EraseSummary, request: EraseRequest) -> None:
    """Print what was erased, or would be, and what stays."""
    for message_id in summary.unknown_ids:
        print_line(f"nothing in the archive has the id {message_id}")
    for erase_id in summary.resumed:
        print_line(
            f"erasure {erase_id} was begun by an earlier run and not completed; this run does it"
        )

    counts = {"messages": summary.messages, "drains": len(summary.drains)}
    if request.is_by_age:
        counts["drained or decided later"] = summary.younger
        counts["pending"] = summary.pending
    else:
        counts["reports that may quote them"] = len(summary.reports)
    print_table(tuple(counts), [tuple(counts.values())])

    if summary.expired:
        print_line(f"{counted(summary.expired, 'expired message')} that reports may quote")
    for folder in summary.reports:
        print_line(f"  {folder}")
    if summary.deleted_files:
        files = counted(len(summary.deleted_files), "deleted file")
        print_line(f"{files} of which the bucket keeps a version with such a message")
    if summary.failures is not None:
        print_line(f"{counted(summary.failures, 'recorded failure')} in the failure table")
    _print_result(summary, request)


def _print_result(summary: EraseSummary, request: EraseRequest) -> None:
    """Print whether something was erased, and what the operator must do next."""
    if summary.is_empty:
        print_line("nothing to erase")
    elif not request.execute:
        needs_reason = not (request.is_by_age or request.reason)
        note = _IS_KEPT if needs_reason else ""
        print_line(f"dry run: nothing was erased{note}")
        print_line(f"to do it: {execution_command(needs_reason=needs_reason)}")
    else:
        erase_id = f", {summary.erase_id}" if summary.erase_id else ""
        print_line(f"erased {summary.rows:,} rows{erase_id}")
        if not request.is_by_age:
            table = "" if request.failure_table else "; the failure table: give --failure-table"
            print_line(f"{_NOT_REACHED}{table}")


VERB = Verb(_ABOUT, _add_arguments, with_archive(EraseRequest), _run, has_engine=True)
