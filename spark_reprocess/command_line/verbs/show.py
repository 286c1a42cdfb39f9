"""``show``: what happened to one message, or in one run; a group's messages as a file.

Bodies are printed only if asked for.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from spark_reprocess.command_line.arguments import add_shared
from spark_reprocess.command_line.terminal import (
    print_answer,
    print_error,
    print_fields,
    print_heading,
    print_line,
)
from spark_reprocess.command_line.verb import DONE, Verb, progress_here, suggestion
from spark_reprocess.command_line.watch import print_outcomes
from spark_reprocess.errors import InputError
from spark_reprocess.figures import counted, second
from spark_reprocess.inspect.export import STANDARD_OUTPUT, ExportOptions, ExportSummary, export
from spark_reprocess.inspect.show import (
    ArchivedCopy,
    DeadLetterHistory,
    LedgerEntry,
    RunHistory,
    ShowOptions,
    show,
    show_run,
)
from spark_reprocess.progress import silent
from spark_reprocess.report.texts import indented_json, looks_like_json
from spark_reprocess.triage import is_group_id

_ABOUT = """\
Shows the history of one dead letter: every archived copy, why each was parked, and each run that
sent or discarded one: who, with which credentials, why, when, where to, and under which new id.
Of a run, by the id that redrive and restore print: the same, and what came back of each group of
its plan since.

The id can be that of an archived copy, of the first copy, or of a copy that a redrive sent. Bodies
and values of attributes are shown only if you ask for them. Changes nothing; needs no Spark.

With --out, the id is that of a group of a plan, or its beginning. Its messages are written as JSON
lines, one object each: as they were archived, without the plan's edits, and whatever runs did with
them. The oldest come first, those with message groups by group. docs/reference.md lists the fields.
Nothing is masked: the output holds whole bodies and attributes. A file gets mode 0600, and a file
that exists is not overwritten. Delete it after use: erase does not reach it."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("message_id", metavar="ID", help="SQS's id of a copy, the id of a run, or of a group")
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
    add_shared(parser, "--claim-ttl", "--failure-table")
    group = parser.add_argument_group("the messages of a group")
    group.add_argument(
        "--out", metavar="FILE", help="a file to create on this machine; - for standard output"
    )
    add_shared(group, "--plan", "--limit")


def _make_options(
    *,
    out: str | None,
    plan: str | None,
    limit: int | None,
    **values: Any,  # noqa: ANN401 - argparse's
) -> ShowOptions | ExportOptions:
    options = ShowOptions(**values)
    if out:
        return ExportOptions(options.archive, plan, options.message_id, out, limit)
    if plan or limit:
        raise InputError("--plan and --limit need --out: they are of the messages of a group")
    return options


def _run(options: ShowOptions | ExportOptions) -> int:
    if isinstance(options, ExportOptions):
        return _export(options)
    if is_group_id(group_id := options.message_id):
        groups = suggestion("groups", options.archive)
        messages = suggestion("show", options.archive, group_id, "--out", f"{group_id}.jsonl")
        raise InputError(f"{group_id}: that is a group: {groups}; its messages: {messages}")
    if of_run := show_run(options):
        print_answer(of_run, lambda: print_run(of_run, options.failure_table))
        return DONE
    history = show(options)
    print_answer(history, lambda: print_history(history))
    return DONE


def _export(options: ExportOptions) -> int:
    # On a terminal, progress lines would be written between the messages.
    is_shown = options.out == STANDARD_OUTPUT and sys.stdout.isatty()
    try:
        summary = export(options, progress=silent if is_shown else progress_here())
    except BrokenPipeError:
        # The reader, such as head, has enough. Python would flush once more at its end, and fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    print_export(summary, options.group, options.out)
    return DONE


def print_export(summary: ExportSummary, group_id: str, out: str) -> None:
    """Print how many messages were written; to standard error if they went to standard output."""
    answer = f"wrote {summary.written:,} of {counted(summary.planned, 'message')} of {group_id}"
    if gone := summary.missing:
        answer += f"; {counted(gone, 'message')} not in the archive any more: erased or expired"
    if out == STANDARD_OUTPUT:
        print_error(answer)
    else:
        print_answer(summary, lambda: print_line(f"{out}: {answer}"))


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
            sent_as = f" as {entry.new_message_id}" if entry.new_message_id else ""
            detail = f" ({entry.detail})" if entry.detail else ""
            step = f", in step {entry.step} of a ramp" if entry.step else ""
            time = _format_time(entry.claimed_at)
            print_heading(f"  {time}  {entry.outcome_text}{sent_as}{detail}{step}")
            print_fields([*_entry_fields(entry)], indent="    ")


def print_run(history: RunHistory, failure_table: str | None) -> None:
    """Print who did what, and what came back of it."""
    run = history.run
    print_heading(f"{run.verb}, run {run.run_id}")
    fields = {
        "by": run.actor,
        "caller": str(run.caller),
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
    yield "redriven by", f"plan {copy.redriven_by}, before this copy" if copy.redriven_by else ""
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
    yield "caller", str(entry.caller)
    yield "why", entry.reason
    yield "to", entry.destination
    yield "plan", f"{entry.plan_id}, run {entry.run_id}"
    yield "edit", entry.edit
    yield "settled", _format_time(entry.settled_at)


def _format_time(time: str) -> str:
    return second(datetime.fromisoformat(time)) if time else ""


VERB = Verb(_ABOUT, _add_arguments, _make_options, _run)
