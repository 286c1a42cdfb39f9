"""The answer of ``status``."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime

from spark_reprocess.archive.ledger import DECIDED, State
from spark_reprocess.command_line.answers import COMMAND
from spark_reprocess.command_line.terminal import print_table, say
from spark_reprocess.figures import duration, minute
from spark_reprocess.upkeep.history import UNDECIDED
from spark_reprocess.upkeep.status import EXAMPLES, ArchiveStatus

_DECIDED = {state.value: state for state in DECIDED}
_WORDS = {**_DECIDED, "in doubt": State.IN_DOUBT, "busy": State.BUSY}
_COLUMNS = {
    **_DECIDED,
    "undecided": UNDECIDED,
    "of them in doubt": State.IN_DOUBT,
    "busy": State.BUSY,
}
_LATEST = 20
"""Drains and plans that are listed; of more, the latest."""


def print_status(status: ArchiveStatus) -> None:
    """Say what is where, and what to do next."""
    say(f"archive {status.archive} at {minute(status.at)} UTC")
    if status.queue:
        queue = status.queue
        say(
            f"parked queue: about {queue.visible:,} visible, {queue.in_flight:,} in flight, "
            f"{queue.delayed:,} delayed"
        )
    print_table(("messages", *_COLUMNS), [(status.messages, *map(status.count, _COLUMNS.values()))])
    if status.oldest_undecided_at:
        ago = duration((status.at - status.oldest_undecided_at).total_seconds())
        say(f"oldest undecided: parked {minute(status.oldest_undecided_at)} UTC, {ago} ago")
    if status.waiting:
        most = ", ".join(f"{one.message_id} ({one.waiting:,})" for one in status.blockers)
        say(f"{status.waiting:,} wait behind an earlier message of their message group: {most}")
    _print_drains(status)
    _print_plans(status)
    for line in _next_steps(status):
        say(line)


def status_json(status: ArchiveStatus) -> str:
    """Spell it for machines: the fields of ``ArchiveStatus``, times in ISO 8601."""
    return json.dumps({"version": 1, **asdict(status)}, indent=1, default=datetime.isoformat)


def _print_drains(status: ArchiveStatus) -> None:
    if status.drains:
        print_table(
            ("drain", "messages", UNDECIDED),
            [(one.drain_id, one.messages, one.undecided) for one in status.drains[-_LATEST:]],
        )
        _say_left_out(len(status.drains), "drains")


def _print_plans(status: ArchiveStatus) -> None:
    if status.plans:
        print_table(
            ("plan", *_WORDS),
            [
                (plan.plan_id, *(plan.counts.get(word, 0) for word in _WORDS.values()))
                for plan in status.plans[-_LATEST:]
            ],
        )
        _say_left_out(len(status.plans), "plans")


def _say_left_out(count: int, what: str) -> None:
    if count > _LATEST:
        say(f"and {count - _LATEST:,} older {what}; --json lists all")


def _next_steps(status: ArchiveStatus) -> Iterator[str]:
    place = shlex.quote(status.archive)
    for state, advice in (
        (State.IN_DOUBT, "they may have been sent and no answer came"),
        (State.BUSY, "a run claimed them and may still be sending"),
    ):
        examples = status.examples.get(state, ())
        if examples:
            more = ", …" if status.count(state) > EXAMPLES else ""
            yield f"{state.replace('_', ' ')}: {advice}: {', '.join(examples)}{more}"
            yield f"  look at one: {COMMAND} show --archive {place} {examples[0]}"
    if status.queue and status.queue.visible:
        yield f"next: {COMMAND} drain --archive {place} --parked-queue-url URL"
    elif status.count(UNDECIDED):
        yield f"next: {COMMAND} analyze --archive {place}"
