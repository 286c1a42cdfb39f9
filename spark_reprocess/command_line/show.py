"""``show``: what happened to one message, or in one run. Bodies are printed only if asked for."""

import argparse
import sys
from collections.abc import Iterator
from datetime import datetime

from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.command_line.arguments import add_claim_ttl
from spark_reprocess.command_line.terminal import (
    print_answer,
    print_fields,
    print_heading,
    print_line,
)
from spark_reprocess.command_line.verb import DONE, Verb, suggestion
from spark_reprocess.command_line.watch import print_outcomes
from spark_reprocess.errors import InputError
from spark_reprocess.figures import counted, second
from spark_reprocess.inspect.show import (
    ArchivedCopy,
    DeadLetterHistory,
    LedgerEntry,
    RunHistory,
    ShowOptions,
    show,
    show_run,
)
from spark_reprocess.report.texts import indented_json, looks_like_json
from spark_reprocess.triage import is_group_id

_ABOUT = """\
Shows the history of one dead letter: every archived copy, why each was parked, and each run that
sent or discarded one: who, with which credentials, why, when, where to, and under which new id.
Of a run, by the id that redrive and restore print: the same, and what came back of each group of
its plan since.

The id can be that of an archived copy, of the first copy, or of a copy that a redrive sent. Bodies
and values of attributes are shown only if you ask for them. Changes nothing; needs no Spark."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("message_id", metavar="ID", help="SQS's id of a copy, or the id of a run")
    add(
        "--body",
        dest="has_body",
        action="store_true",
        help="show bodies and attributes, with e-mail addresses, card numbers and tokens masked",
    )
    add(
        "--unmasked",
        dest="is_unmasked",
        action="store_true",
        help="show bodies and attributes as they are",
    )
    add_claim_ttl(parser)
    add("--failure-table", metavar="NAME", help="the table in which returns are counted")


def _run(options: ShowOptions) -> int:
    if is_group_id(options.message_id):
        groups = suggestion("groups", options.archive)
        messages = suggestion("export", options.archive, "--group", options.message_id)
        raise InputError(
            f"{options.message_id}: that is a group: {groups}; its messages: {messages}"
        )
    if of_run := show_run(options):
        print_answer(of_run, lambda: print_run(of_run, options.failure_table))
        return DONE
    history = show(options)
    print_answer(history, lambda: print_history(history))
    return DONE


_OUTCOMES: dict[str | None, str] = {
    Disposition.FAILED: "not sent",
    Disposition.IN_DOUBT: "in doubt: it may have been sent",
    None: "claimed, no result written",
}

Fields = Iterator[tuple[str, str]]


def print_history(history: DeadLetterHistory) -> None:
    """Print each archived copy of a dead letter and what runs did with it, oldest first, in UTC."""
    count = len(history.copies)
    copies = "1 archived copy" if count == 1 else f"{count} archived copies"
    print_line(f"dead letter {', '.join(history.first_ids)}: {copies} (times in UTC)")
    for copy in history.copies:
        print_line("")
        print_heading(f"{copy.message_id}: {copy.state.replace('_', ' ')}")
        print_fields([*_fields(copy)])
        for entry in copy.entries:
            outcome = _OUTCOMES.get(entry.outcome, entry.outcome or "")
            sent_as = f" as {entry.new_message_id}" if entry.new_message_id else ""
            detail = f" ({entry.detail})" if entry.detail else ""
            step = f", in step {entry.step} of a ramp" if entry.step else ""
            time = _format_time(entry.claimed_at)
            print_heading(f"  {time}  {outcome}{sent_as}{detail}{step}")
            print_fields([*_entry_fields(entry)], indent="    ")


def print_run(history: RunHistory, failure_table: str | None) -> None:
    """Print who did what, and what came back of it."""
    run = history.run
    print_heading(f"{run.verb}, run {run.run_id}")
    fields = {
        "by": run.actor,
        "caller": str(run.caller) if run.caller_arn or run.caller_fault else "",
        "why": run.reason,
        "began": _format_time(run.time),
        "to": ", ".join(run.destinations or [run.destination]),
        "plan": run.plan_id,
        "policy": run.policy_sha256 or "",
    }
    print_fields([*fields.items()])
    print_outcomes(history.outcomes, failure_table)


def _fields(copy: ArchivedCopy) -> Fields:
    yield "parked", ", ".join(filter(None, (second(copy.sent_at), copy.parked_reason or "by SQS")))
    yield "came from", copy.source_arn or ""
    yield "error", ": ".join(filter(None, (copy.error_type, copy.error_message)))
    yield "in the log", copy.logged
    count = "unreadable" if copy.replay_count is None else f"{copy.replay_count:,}"
    received = counted(copy.receive_count, "time") if copy.receive_count is not None else ""
    yield "replays", "; received ".join(filter(None, (count, received)))
    yield "first seen", second(copy.first_seen_at)
    yield "put back by", f"plan {copy.redriven_by}, before this copy" if copy.redriven_by else ""
    yield "group", copy.message_group_id or ""
    yield "archived", f"{second(copy.drained_at)}, drain {', '.join(copy.drain_ids)}"
    yield "queue", copy.queue_url or ""
    if copy.body is None:
        kinds = (f"{name} ({data_type})" for name, data_type in copy.attributes.items())
        yield "attributes", ", ".join(kinds)
        yield "body", f"{copy.body_bytes:,} bytes, not shown; --body shows it masked"
        return
    values = copy.values or {}
    lines = [f"{n} ({data_type}): {values[n]}" for n, data_type in copy.attributes.items()]
    yield "attributes", "\n".join([f"{len(lines)}", *lines])
    # In a pipe a body stays as it is.
    is_indented = sys.stdout.isatty() and looks_like_json(copy.body)
    body = indented_json(copy.body) if is_indented else copy.body
    yield "body", f"{copy.body_bytes:,} bytes\n{body}"


def _entry_fields(entry: LedgerEntry) -> Fields:
    yield "by", entry.who
    yield "caller", str(entry.caller) if entry.caller_arn or entry.caller_fault else ""
    yield "why", entry.reason
    yield "to", entry.destination
    yield "plan", f"{entry.plan_id}, run {entry.run_id}"
    yield "edit", entry.edit
    yield "settled", _format_time(entry.settled_at)


def _format_time(time: str) -> str:
    return second(datetime.fromisoformat(time)) if time else ""


VERB = Verb(_ABOUT, _add_arguments, ShowOptions, _run)
