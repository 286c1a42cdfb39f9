"""The verb ``expire``: deletes from the archive what is decided, some days after the decision.

A message expires by its own id's state alone. It goes from every file, once the newest of its rows
and all that the ledgers say of it are older than the given days. A message that is undecided, in
doubt or busy never goes. Reports, plans and ledgers stay.

Which messages go is found while the plan lock is held, so that nobody decides anew meanwhile. What
goes is recorded as an erasure before the first file is changed: with the ids a plan can still be
checked. After a crash the next run finds the rest by itself, since what is decided stays so.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.actor import actor, caller
from spark_reprocess.archive.disposition import DECIDED, Disposition
from spark_reprocess.archive.erasures import Erasure, mark_done, record_erasure, unfinished
from spark_reprocess.archive.files import Archive, new_id, open_archive
from spark_reprocess.archive.ledger import STRENGTH, timestamp
from spark_reprocess.archive.ledgers import claimed_table
from spark_reprocess.archive.message_store import read_columns, remove_messages
from spark_reprocess.archive.plan_lock import erase_holder, plan_lock
from spark_reprocess.errors import InputError
from spark_reprocess.progress import Progress, silent

_DAY_SECONDS = 86_400
_MESSAGES_PER_RECORD = 100_000
"""A record ends with the drain that reaches this number: about 10 MB."""


@dataclass(frozen=True, slots=True)
class ExpireOptions:
    """What expires.

    Attributes:
        archive: a folder or S3 prefix.
        older_than_days: at least 1.
        execute: without it nothing is changed.
    """

    archive: str
    older_than_days: int
    execute: bool = False

    def check(self) -> None:
        """Raise InputError if an option is out of its range."""
        if self.older_than_days < 1:
            raise InputError("--older-than-days must be at least 1")


@dataclass(frozen=True, slots=True)
class ExpireSummary:
    """What expired, or would.

    Attributes:
        expire_ids: of the records in the ledger; none for a dry run.
        messages: each counts once, also if several files have it.
        rows: their rows in files, duplicates counted; 0 for a dry run.
        drains: the drains of these messages.
        younger: messages that are decided and stay, because they are not old enough.
        undecided: messages that stay, whatever their age; those in doubt and busy among them.
    """

    expire_ids: tuple[str, ...]
    messages: int
    rows: int
    drains: tuple[str, ...]
    younger: int
    undecided: int


def expire(
    options: ExpireOptions,
    *,
    now_seconds: Callable[[], float] = time.time,
    progress: Progress = silent,
) -> ExpireSummary:
    """Find what has expired and, with ``execute``, remove it. Safe to repeat at any time.

    Raises:
        InputError: the options are wrong.
        BusyError: a redrive, a restore, an analysis or an erase is running. Nothing was changed.
        ArchiveError: the archive cannot be read or changed. Part of what has expired may be gone;
            run again.
    """
    options.check()
    archive = open_archive(options.archive)
    now = now_seconds()
    if not options.execute:
        with progress("finding what has expired", str):
            return _find(archive, now, options.older_than_days).summary
    run_id = new_id(now)
    with plan_lock(archive, erase_holder(run_id, actor(), "an expiry")) as lock:
        with progress("finding what has expired", str):
            found = _find(archive, now, options.older_than_days)
        begun = unfinished(archive, expiries=True)
        with progress("removing it", lambda: f"{len(found.summary.drains)} drains"):
            done = [
                _expire(archive, one, now_seconds(), options.older_than_days, lock.require)
                for one in _parts(found.drains_by_id)
            ]
        # All that is left of these was found again, or must stay.
        for one in begun:
            mark_done(archive, one.erase_id)
    ids = tuple(expire_id for expire_id, _ in done)
    return replace(found.summary, expire_ids=ids, rows=sum(rows for _, rows in done))


@dataclass(frozen=True, slots=True)
class _Message:
    """A message that goes: its first id, and the drains that brought it, sorted."""

    first_id: str
    drains: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    drains_by_id: dict[str, _Message]
    summary: ExpireSummary


def _find(archive: Archive, now_seconds: float, days: int) -> _Found:
    """Find the messages whose rows and decisions are more than *days* old."""
    oldest_seconds = now_seconds - days * _DAY_SECONDS
    # The rows first: what is drained or decided after that can only stay.
    rows = read_columns(archive, ("message_id", "first_id", "drained_at"))
    decided = _decided(claimed_table(archive, now_seconds, 0))
    is_decided = pc.is_in(rows["message_id"], value_set=pa.array(decided, pa.string()))
    found: dict[str, _Message] = {}
    young = set[str]()
    for row in rows.filter(is_decided).to_pylist():
        message_id, drained_at = row["message_id"], row["drained_at"]
        settled = decided[message_id]
        known = found.get(message_id)
        drains = {row["drain_id"], *(known.drains if known else ())}
        found[message_id] = _Message(row["first_id"], tuple(sorted(drains)))
        if drained_at is None or max(settled, drained_at.timestamp()) >= oldest_seconds:
            young.add(message_id)
    total = pc.count_distinct(rows["message_id"]).as_py()
    gone = {message_id: one for message_id, one in found.items() if message_id not in young}
    drains = {drain for one in gone.values() for drain in one.drains}
    summary = ExpireSummary((), len(gone), 0, tuple(sorted(drains)), len(young), total - len(found))
    return _Found(gone, summary)


def _decided(claimed: pa.Table) -> dict[str, float]:
    """Return when each decided message was last acted on, in epoch seconds.

    A discarded message that a later restore may have sent is in doubt: if it was not sent, the
    archive has the only copy of what the operator wants back.
    """
    grouped = claimed.group_by("message_id").aggregate(
        [("strength", "max"), ("strength", "min"), ("time", "max")]
    )
    found = {}
    for one in grouped.to_pylist():
        state, weakest = STRENGTH[one["strength_max"]], STRENGTH[one["strength_min"]]
        is_open = state is Disposition.DISCARDED and weakest not in DECIDED
        if state in DECIDED and not is_open:
            # Somebody changed a time that cannot be read: the message stays.
            with suppress(ValueError):
                found[one["message_id"]] = datetime.fromisoformat(one["time_max"]).timestamp()
    return found


def _parts(messages: Mapping[str, _Message]) -> Iterator[dict[str, _Message]]:
    """Cut the messages into parts for one record each, by drain, the oldest first."""
    part: dict[str, _Message] = {}
    last = ""
    for message_id, one in sorted(messages.items(), key=lambda item: item[1].drains):
        if len(part) >= _MESSAGES_PER_RECORD and one.drains[0] != last:
            yield part
            part = {}
        part[message_id] = one
        last = one.drains[0]
    if part:
        yield part


def _expire(
    archive: Archive,
    messages: Mapping[str, _Message],
    now_seconds: float,
    days: int,
    require_lock: Callable[[], None],
) -> tuple[str, int]:
    """Record and remove these messages; return the record's id and the number of rows."""
    expiry = Erasure(
        erase_id=new_id(now_seconds),
        who=actor(),
        reason=f"decided more than {days} days before",
        time=timestamp(now_seconds),
        drains={message_id: one.drains for message_id, one in messages.items()},
        plans={},
        groups=(),
        caller=caller(None),
        expired_days=days,
        first_ids={i: one.first_id for i, one in messages.items() if one.first_id not in (i, None)},
    )
    require_lock()
    expiry = record_erasure(archive, expiry)
    rows = 0
    for drain_id in sorted({drain for one in messages.values() for drain in one.drains}):
        rows += remove_messages(archive, drain_id, messages.keys(), require_lock)
    mark_done(archive, expiry.erase_id)
    return expiry.erase_id, rows
