"""``show``: what happened to one message, or in one run; a group's messages as a file.

Bodies are printed only if asked for.
"""

import argparse
import sys
from dataclasses import fields
from datetime import datetime
from typing import Any

from dlq.cli.arguments import add_shared
from dlq.cli.outcomes import print_outcomes
from dlq.cli.suggested import suggested_command
from dlq.cli.terminal import (
    print_answer,
    print_fields,
    print_line,
    print_notice,
    print_parts,
)
from dlq.cli.verb import DONE, Verb, progress_here
from dlq.errors import InputError
from dlq.explain.triage import is_group_start
from dlq.figures import counted, second
from dlq.inspect.export import STANDARD_OUTPUT, ExportSummary, export
from dlq.inspect.show import (
    NEWEST,
    ArchivedCopy,
    DeadLetterHistory,
    DifferingWord,
    GroupPlaces,
    RunHistory,
    ShowOptions,
    show,
    show_group,
    show_run,
)
from dlq.plan.json_text import indented_json
from dlq.progress import silent

_ABOUT = """\
Shows the history of one dead letter, by the id of any copy: every archived copy, why each was
parked, and each run that sent or discarded one: who, why, when, where to, and under which new id.
Of a run, by the id that redrive and restore print: the same, and what failed again since. Of a
group: what each <*> of its title stands for, and where in their own code consumers failed on its
newest messages, as they recorded it in the last 14 days, or as logs have it. Bodies and values of
attributes are shown only if you ask for them. Changes nothing; needs no Spark.

With --out, the id is that of a group of a plan, or its beginning. Its messages are written as JSON
lines as they were archived; docs/reference.md lists the fields. Nothing is masked. A file gets mode
0600, and a file that exists is not overwritten. Delete it after use: erase does not reach it."""

_PLACES = 10


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "message_id",
        metavar="ID",
        help="SQS's id of a copy, or of a group, or the beginning of one; or the id of a run",
    )
    add(
        "--body",
        dest="has_body",
        action="store_true",
        help="show bodies and attributes, masked as in a report",
    )
    add(
        "--unmasked",
        dest="is_unmasked",
        action="store_true",
        help="show bodies and attributes as they are",
    )
    add_shared(parser, "--mask", "--failure-table")

    group = parser.add_argument_group("the messages of a group")
    group.add_argument(
        "--out", metavar="FILE", help="a file to create on this machine; - for standard output"
    )
    add_shared(group, "--plan", "--limit")


def _run(options: ShowOptions) -> int:
    if options.out:
        return _export(options, options.out)
    if options.limit:
        raise InputError("--limit needs --out: it is of the messages of a group")

    if options.plan or is_group_start(options.message_id):
        places = show_group(options)
        print_answer(places, lambda: print_places(places, options.archive))
        return DONE

    if run := show_run(options):
        print_answer(run, lambda: print_run(run, options.failure_table))
        return DONE

    history = show(options)
    print_answer(history, lambda: print_history(history))
    return DONE


def _export(options: ShowOptions, out: str) -> int:
    # On a terminal, progress lines would be written between the messages.
    is_shown = out == STANDARD_OUTPUT and sys.stdout.isatty()
    try:
        summary = export(options, out, progress=silent if is_shown else progress_here())
    except BrokenPipeError:
        # The reader, such as head, has enough.
        return DONE
    print_export(summary, out)
    return DONE


def print_export(summary: ExportSummary, out: str) -> None:
    """Print how many messages were written; to standard error if they went to standard output."""
    messages = counted(summary.planned, "message")
    answer = f"wrote {summary.written:,} of {messages} of {summary.group_id}"
    if gone := summary.missing:
        answer += f"; {counted(gone, 'message')} not in the archive any more: erased or expired"
    if out == STANDARD_OUTPUT:
        print_notice(answer)
    else:
        print_answer(summary, lambda: print_line(f"{out}: {answer}"))


def print_places(group: GroupPlaces, archive: str) -> None:
    """Print where a group's messages failed, and the command for its messages."""
    places = list(group.places.items())
    print_line(f"{group.group_id}: {counted(len(places), 'place')} in the code of consumers")
    for place, count in places[:_PLACES]:
        print_line(f"  {place} ({counted(count, 'message')})")
    if len(places) > _PLACES:
        print_line("  …")

    if without := group.looked_up - sum(group.places.values()):
        print_line(f"of {counted(without, 'message')} none is recorded, and none is in a log")
    if group.messages > NEWEST:
        print_line(f"only the newest {NEWEST} of {group.messages:,} messages were looked up")
    if group.fault:
        print_line(f"failure table: {group.fault}")

    for number, differing_word in enumerate(group.words, start=1):
        print_line(_word_line(number, differing_word, group))
    out = suggested_command("show", archive, group.group_id, "--out", f"{group.group_id}.jsonl")
    print_line(f"its messages: {out}")


def _word_line(number: int, differing_word: DifferingWord, group: GroupPlaces) -> str:
    """Format the values at one ``<*>`` of the title."""
    which = f" {number}" if len(group.words) > 1 else ""
    messages = counted(group.words_of, "message")
    values = [f"{value} ({count:,})" for value, count in differing_word.values.items()]
    if differing_word.distinct > len(values):
        values.append("…")
    return (
        f"at <*>{which}: {differing_word.distinct:,} different in {messages}: {', '.join(values)}"
    )


def print_history(history: DeadLetterHistory) -> None:
    """Print each archived copy of a dead letter and what runs did with it, oldest first, in UTC."""
    copies = f"{len(history.copies)} archived cop{'y' if len(history.copies) == 1 else 'ies'}"
    print_line(f"dead letter {', '.join(history.first_ids)}: {copies} (times in UTC)")
    for copy in history.copies:
        print_line("")
        _print_copy(copy)
    for sentence in history.open_runs:
        print_line(sentence)


def _print_copy(copy: ArchivedCopy) -> None:
    print_parts((f"{copy.message_id}: {copy.state.replace('_', ' ')}", "bold"))
    hidden = ("message_id", "state", "attributes", "entries", "body", "values")
    print_fields([*_fields(copy, *hidden), *_content(copy)])

    for entry in copy.entries:
        time = second(datetime.fromisoformat(entry.claimed_at))
        sent_as = f" as {entry.new_message_id}" if entry.new_message_id else ""
        detail = f" ({entry.detail})" if entry.detail else ""
        step = f", in step {entry.step} of a ramp" if entry.step else ""
        print_parts((f"  {time}  {entry.outcome_text}{sent_as}{detail}{step}", "bold"))

        in_heading = ("claimed_at", "outcome", "new_message_id", "detail", "step")
        print_fields(_fields(entry, *in_heading), indent="    ")


def print_run(history: RunHistory, failure_table: str | None) -> None:
    """Print who did what, and what of it failed again."""
    print_parts((f"{history.run.verb}, run {history.run.run_id}", "bold"))
    print_fields(_fields(history.run, "verb", "run_id"))
    if history.stopped_by:
        print_fields([("stopped early", history.stopped_by.sentence)])
    print_outcomes(history.outcomes, failure_table)


def _fields(record: Any, *left_out: str) -> list[tuple[str, str]]:  # noqa: ANN401 - a dataclass
    """Return the names of a record's fields, and their values as texts."""
    shown = []
    for field in fields(record):
        if field.name not in left_out:
            value = getattr(record, field.name)
            shown.append((field.name.replace("_", " "), _text(value)))
    return shown


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return second(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return str(value or "")


def _content(copy: ArchivedCopy) -> list[tuple[str, str]]:
    """Return the fields with attributes and body; without their values if those are not shown."""
    kinds = [f"{name} ({data_type})" for name, data_type in copy.attributes.items()]
    if copy.body is None:
        return [("attributes", ", ".join(kinds)), ("body", "not shown; --body shows it masked")]

    values = (copy.values or {}).values()
    lines = [f"{kind}: {value}" for kind, value in zip(kinds, values, strict=True)]
    # In a pipe a body stays as it is.
    indented = indented_json(copy.body) if sys.stdout.isatty() else None
    body = copy.body if indented is None else indented
    return [("attributes", "\n".join([f"{len(lines)}", *lines])), ("body", f"\n{body}")]


VERB = Verb(
    about=_ABOUT,
    add_arguments=_add_arguments,
    make_options=ShowOptions,
    run=_run,
)
