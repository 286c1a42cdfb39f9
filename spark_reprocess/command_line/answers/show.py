"""The answer of ``show``. A body is in it only where it was asked for."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime

from spark_reprocess.archive.ledger import Outcome
from spark_reprocess.command_line.terminal import print_fields, print_heading, say
from spark_reprocess.figures import counted, second
from spark_reprocess.report.json_layout import laid_out, looks_like_json
from spark_reprocess.upkeep.history import ArchivedCopy, DeadLetterHistory, LedgerEntry

_OUTCOMES: dict[str | None, str] = {
    Outcome.FAILED: "not sent",
    Outcome.IN_DOUBT: "in doubt: it may have been sent",
    None: "claimed, no result written",
}

Fields = Iterator[tuple[str, str]]


def print_history(history: DeadLetterHistory) -> None:
    """Tell what happened to a dead letter, copy by copy, in the order of time (UTC)."""
    count = len(history.copies)
    copies = "1 archived copy" if count == 1 else f"{count} archived copies"
    say(f"dead letter {', '.join(history.first_ids)}: {copies} (times in UTC)")
    for copy in history.copies:
        say("")
        print_heading(f"{copy.message_id}: {copy.state.replace('_', ' ')}")
        print_fields([*_fields(copy)])
        for entry in copy.entries:
            print_heading(f"  {_short(entry.claimed_at)}  {_outcome(entry)}")
            print_fields([*_entry_fields(entry)], indent="    ")


def history_json(history: DeadLetterHistory) -> str:
    """Spell it for machines: the fields of ``DeadLetterHistory``, times in ISO 8601."""
    return json.dumps({"version": 1, **asdict(history)}, indent=1, default=datetime.isoformat)


def _fields(copy: ArchivedCopy) -> Fields:
    yield "parked", ", ".join(filter(None, (second(copy.sent_at), copy.parked_reason or "by SQS")))
    yield "came from", copy.source_arn or ""
    yield "error", ": ".join(filter(None, (copy.error_type, copy.error_message)))
    yield "replays", _replays(copy)
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
    yield "body", f"{copy.body_bytes:,} bytes\n{_readable(copy.body)}"


def _readable(body: str) -> str:
    """Where somebody looks, JSON stands over lines; in a pipe a body stays as it is."""
    return laid_out(body) if sys.stdout.isatty() and looks_like_json(body) else body


def _replays(copy: ArchivedCopy) -> str:
    count = "unreadable" if copy.replay_count is None else f"{copy.replay_count:,}"
    times = copy.receive_count
    received = "" if times is None else f"; received {counted(times, 'time')}"
    return f"{count}{received}"


def _outcome(entry: LedgerEntry) -> str:
    word = _OUTCOMES.get(entry.outcome, entry.outcome or "")
    sent_as = f" as {entry.new_message_id}" if entry.new_message_id else ""
    detail = f" ({entry.detail})" if entry.detail else ""
    canary = ", as a canary" if entry.is_canary else ""
    return f"{word}{sent_as}{detail}{canary}"


def _entry_fields(entry: LedgerEntry) -> Fields:
    yield "by", entry.who
    # A run of an older version has recorded neither.
    yield "caller", str(entry.caller) if entry.caller_arn or entry.caller_fault else ""
    yield "why", entry.reason
    yield "to", entry.destination
    yield "plan", f"{entry.plan_id}, run {entry.run_id}"
    yield "edit", entry.edit
    yield "settled", _short(entry.settled_at)


def _short(time: str) -> str:
    return second(datetime.fromisoformat(time)) if time else ""
