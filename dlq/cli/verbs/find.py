"""``find``: where a value is, and what happened to its messages."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from dlq.archive.messages.dead_letter_schema import Row
from dlq.archive.storage.files import open_archive
from dlq.aws.clients import find_queue
from dlq.cli.arguments import add_shared, whole_number
from dlq.cli.running import ARCHIVE_VARIABLE, default_archive
from dlq.cli.suggested import suggested_command
from dlq.cli.terminal import AS_JSON, print_answer, print_fields, print_line, print_parts
from dlq.cli.verb import DONE, Verb, progress_here
from dlq.errors import InputError
from dlq.explain.signature.mask import compile_masks
from dlq.figures import counted, second
from dlq.inspect.find import (
    ArchivedMatch,
    ArchiveMatches,
    QueuedMatch,
    find_in_archive,
    find_in_rows,
)
from dlq.inspect.matching import Wanted
from dlq.local_engine import LocalEngine
from dlq.look.look import MOST_MESSAGES, USUAL_MESSAGES, Received, receive_and_give_back
from dlq.look.queue_facts import QueueFacts, require_receives
from dlq.look.sentences import after
from dlq.stack.outputs import read_stack

_ABOUT = """\
Finds the messages that have a value, such as an order number, in their body, in an attribute or as
an id: where each is, in which group, and what happened to it, the newest first. A value counts
where it is a whole word: 4711 is in "ORD-4711" and not in "14711". Reads the archive and, with
--queue, what a look at that queue sees, see dlq look. Changes nothing; needs no Spark.

Exit code 0 also where nothing is there."""

_EXAMPLES = """\
examples:

  dlq find 4711 --stack orders-replay
  dlq find 4711 --queue orders-dlq            no stack, no archive: only in the queue
  dlq find 'ORD-47[0-9]+' --regex --archive ./dead-letters"""

_USUAL_RESULTS = 20
_MOST_RESULTS = 1_000


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("value", metavar="VALUE", help="the value; with --regex a regular expression (RE2)")
    add(
        "--archive",
        default=default_archive(),
        metavar="PLACE",
        help=f"the archive (default: {ARCHIVE_VARIABLE}, the stack's)",
    )
    add("--queue", metavar="QUEUE", help="look through this queue, too: its URL, ARN or name")
    add("--regex", action="store_true", help="VALUE is a regular expression")
    add(
        "--limit",
        type=whole_number(1, _MOST_RESULTS),
        default=_USUAL_RESULTS,
        metavar="N",
        help="show the newest N messages (default: %(default)s)",
    )

    queue = parser.add_argument_group("the queue")
    queue.add_argument(
        "--look-limit",
        type=whole_number(1, MOST_MESSAGES),
        default=USUAL_MESSAGES,
        metavar="N",
        help="look at N messages at most (default: %(default)s)",
    )
    queue.add_argument(
        "--receives-allowed", type=whole_number(1), metavar="N", help="as for look, see its help"
    )
    add_shared(parser, "--mask", "--failure-table")


def _run(options: argparse.Namespace) -> int:
    wanted = Wanted(options.value, is_pattern=options.regex)
    masks = compile_masks(options.masks)
    archive, failure_table = _archive_and_table(options)
    if archive is None and options.queue is None:
        raise InputError("nowhere to look: give --archive PLACE, --stack NAME or --queue QUEUE")

    archived = None
    if archive is not None:
        archived = find_in_archive(
            LocalEngine(),
            open_archive(archive),
            wanted,
            options.limit,
            masks=masks,
            failure_table=failure_table,
            progress=progress_here(),
        )

    received = None
    queued: list[QueuedMatch] = []
    if options.queue is not None:
        queue = find_queue(options.queue)
        require_receives(queue, options.receives_allowed)
        received, rows = receive_and_give_back(queue, options.look_limit, progress=progress_here())
        queued = find_in_rows(rows, wanted)
        if not AS_JSON.get():
            for line in after(received, QueueFacts(queue)):
                print_line(line)

    answer = {
        "value": options.value,
        "is_pattern": options.regex,
        "archived": archived and asdict(archived),
        "received": received and asdict(received),
        "queued": [_queued_fields(match) for match in queued[: options.limit]],
        "queued_matching": len(queued),
    }
    print_answer(answer, lambda: _print(options, archive, archived, received, queued))
    return DONE


def _archive_and_table(options: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return the archive and the failure table: as given, else those of the stack."""
    archive = options.archive
    failure_table = options.failure_table
    if options.stack and archive is None:
        stack = read_stack(options.session, options.stack)
        # A stack of "dlq use" must not keep anybody from looking in a queue.
        archive = stack.archive if options.queue else stack.require_archive()
        failure_table = failure_table or stack.failure_table
    return archive, failure_table


def _queued_fields(match: QueuedMatch) -> dict[str, Any]:
    """Return the fields of the JSON answer: no content."""
    row = match.row
    names = ("message_id", "first_id", "sent_at", "receive_count", "replay_count", "source_arn")
    return {"places": match.places, **{name: row[name] for name in names}}


def _print(
    options: argparse.Namespace,
    archive: str | None,
    archived: ArchiveMatches | None,
    received: Received | None,
    queued: Sequence[QueuedMatch],
) -> None:
    """Print the messages of the queue, then those of the archive, the newest first."""
    for match in queued[: options.limit]:
        _print_queued(match.places, match.row)
    if received is not None:
        print_line(f"queue: {counted(len(queued), 'message')} of {received.messages:,} seen")

    if archived is None or archive is None:
        if queued:
            print_line(f"next, why they failed: {suggested_command('look', '', options.queue)}")
        return
    for archived_match in archived.newest:
        _print_archived(archived_match)
    shown = len(archived.newest)
    print_line(
        f"archive: {counted(archived.matching, 'message')} of {archived.searched:,}"
        + (f"; the newest {shown:,} are shown: --limit" if shown < archived.matching else "")
    )
    if archived.newest:
        first = archived.newest[0].copy.message_id
        print_line(f"next: {suggested_command('show', archive, first)}")


def _print_queued(places: Sequence[str], row: Row) -> None:
    print_parts((f"{row['message_id']}: in the queue", "bold"), (f"  {', '.join(places)}", ""))
    print_fields(
        [
            ("sent", second(row["sent_at"])),
            ("receives", str(row["receive_count"] or "")),
            ("replays", str(row["replay_count"] or "")),
        ]
    )


def _print_archived(match: ArchivedMatch) -> None:
    copy = match.copy
    state = copy.state.replace("_", " ")
    print_parts((f"{copy.message_id}: {state}", "bold"), (f"  {', '.join(match.places)}", ""))

    error = ": ".join(filter(None, [copy.error_type, copy.error_message]))
    fields = [
        ("group", match.group_id),
        ("parked", ", ".join(filter(None, [second(copy.sent_at), copy.parked_reason]))),
        ("replays", str(copy.replay_count or "")),
        ("error", error),
    ]
    for entry in copy.entries:
        time = second(datetime.fromisoformat(entry.claimed_at))
        sent_as = f" as {entry.new_message_id}" if entry.new_message_id else ""
        why = f": {entry.reason}" if entry.reason else ""
        fields.append(("redrive", f"{time} {entry.outcome_text}{sent_as}, {entry.who}{why}"))
    print_fields(fields)


VERB = Verb(
    about=_ABOUT,
    add_arguments=_add_arguments,
    make_options=argparse.Namespace,
    run=_run,
    examples=_EXAMPLES,
)
