"""The verb ``erase``: removes messages from every place that can hold them, in one order.

Of messages that somebody names, every archived copy with the same first id goes, in every drain,
with the reports that may quote it; of copies that have expired, the quotes in reports. By age
messages go from the archive's files alone, each by its own state, once its drain and all that the
ledgers say of it are so old. What is pending, in doubt or busy never goes by age.

A record with the ids is durable before the first file is changed. What comes after it can be
repeated after a crash at any moment, and the next erasure completes one that died. Erasing by age
needs no record: it finds again what is left, since what is decided stays so. Messages are selected
while the archive lock is held, so that nobody decides anew meanwhile.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from botocore.exceptions import BotoCoreError, ClientError

from dlq.archive.ledger.claims import timestamp
from dlq.archive.ledger.erasures import Erasure, erasures, mark_done, record_erasure
from dlq.archive.ledger.open_set import claimed_table, read_messages, stored_open_set
from dlq.archive.ledger.run_results import clear_plans
from dlq.archive.lock import ArchiveLock, LockHolder, LockUse, archive_lock
from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA, READ_COLUMNS
from dlq.archive.messages.message_index import (
    REPORTS,
    TABLE,
    planned_copies,
    sent_copies,
)
from dlq.archive.messages.message_store import (
    drain_of,
    drains_of,
    holds_any,
    is_in,
    message_files,
    remove_messages,
    require_drains,
    rows_by_file,
    rows_named,
    with_files,
)
from dlq.archive.messages.reading import read_files_work
from dlq.archive.storage.files import COMMANDS, MESSAGES, Archive, new_id
from dlq.aws.actor import actor, caller, require_reason
from dlq.aws.clients import aws_client
from dlq.engine import Engine
from dlq.errors import ArchiveError, InputError
from dlq.plan.plan import Plan, plan_text
from dlq.plan.plan_file import PLAN
from dlq.plan.reading import read_plan
from dlq.progress import Progress, silent
from dlq.sql.allowed import named_columns
from dlq_replay.aws.failure_table import MAX_READS, MAX_WRITES, table_client_config
from dlq_replay.aws.sqs import describe
from dlq_replay.retry import Retry

_BUSY_TABLE = Retry(max_attempts=8)
_Key = dict[str, dict[str, str]]
_IDS = ("message_id", "first_id", "last_id")
_DAY_SECONDS = 86_400
_MARK_OF_OTHER_KEYS = "#"
"""The failure table also has items that are no failures, ``breaker#QUEUE`` and ``returns#…``."""

_TIME = r"^\d{4}-\d\d-\d\dT"

FEWEST_DAYS = 15
"""What was decided is known for so long at least: SQS keeps a message for 14 days at most."""


@dataclass(frozen=True, slots=True)
class EraseRequest:
    """The messages to erase: the arguments of ``erase``, see its help.

    Exactly one of *ids*, *where* and *older_than_days* is given. *failure_table* is not used with
    the last: the table's TTL is 14 days.
    """

    ids: Sequence[str] = ()
    where: str | None = None
    older_than_days: int | None = None
    failure_table: str | None = None
    reason: str = ""
    execute: bool = False
    wait_seconds: float = 0

    def check(self) -> None:
        """Raise InputError if the options contradict each other."""
        if [bool(self.ids), self.where is not None, self.is_by_age].count(True) != 1:
            raise InputError("erase needs --id or --where or --older-than-days: what is to go")
        for message_id in self.ids:
            if _MARK_OF_OTHER_KEYS in message_id:
                raise InputError(
                    f"--id {message_id}: no message id has a {_MARK_OF_OTHER_KEYS}; in the failure "
                    "table such a key is a circuit breaker's, or a redrive's"
                )
        if self.older_than_days is not None and self.older_than_days < FEWEST_DAYS:
            raise InputError(
                f"--older-than-days must be at least {FEWEST_DAYS}: SQS may deliver a message "
                "again for 14"
            )
        require_reason(self.reason, execute=self.execute and not self.is_by_age)

    @property
    def is_by_age(self) -> bool:
        """Whether messages go because they were decided long ago."""
        return self.older_than_days is not None


@dataclass(frozen=True, slots=True)
class EraseSummary:
    """What was erased, or would be; docs/reference.md describes the fields, under "erase".

    Of *messages* each counts once, by age once in each drain. *rows* has duplicates, too, and is 0
    for a dry run.
    """

    erase_id: str
    messages: int
    rows: int
    drains: tuple[str, ...]
    reports: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()
    unknown_ids: tuple[str, ...] = ()
    deleted_files: tuple[str, ...] = ()
    failures: int | None = None
    expired: int = 0
    younger: int = 0
    pending: int = 0

    @property
    def is_new(self) -> bool:
        """Whether there is more to erase than an earlier run began."""
        return bool(self.messages or self.deleted_files or self.failures or self.expired)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to erase."""
        return not (self.is_new or self.resumed)


def erase(
    engine: Engine | None,
    archive: Archive,
    request: EraseRequest,
    *,
    now_seconds: Callable[[], float] = time.time,
    progress: Progress = silent,
) -> EraseSummary:
    """Find what would be erased and, with ``execute``, erase it. Safe to repeat at any time.

    *engine* is needed for a condition alone.

    Raises:
        InputError: the options are wrong, or the archive is. Nothing was changed.
        BusyError: a redrive, a restore, an analysis or another erase is running; as above.
        ArchiveError: something could not be removed and may still be there: run again.
    """
    request.check()
    now = now_seconds()
    # A new id for each run, so that no two runs share a record.
    holder = LockHolder(new_id(now), LockUse.ERASE, "an erase", actor())
    held = archive_lock(archive, holder, progress=progress) if request.execute else None
    with held or nullcontext() as lock, progress("erasing" if lock else "finding", str):
        if request.older_than_days is not None:
            return _expire(archive, now, request.older_than_days, lock)
        return _erase_named(archive, engine, request, now, lock)


def _clear_commands(archive: Archive, lock: ArchiveLock) -> None:
    """Remove waiting commands: their conditions may name the person. Their runs end and say why."""
    for path in sorted({*archive.list(COMMANDS), *archive.outdated(COMMANDS)}):
        archive.remove(path)
    lock.require()


def _erase_named(
    archive: Archive,
    engine: Engine | None,
    request: EraseRequest,
    now: float,
    lock: ArchiveLock | None,
) -> EraseSummary:
    """Erase what is named; without *lock* find it alone."""
    summary, new, begun, reports = _find(archive, engine, request, now)
    if lock is None:
        return summary
    _clear_commands(archive, lock)
    if summary.is_empty:
        return summary
    if summary.is_new:
        application_id = engine.application_id if engine else None
        begun.append(replace(new, caller=caller(application_id)))
        record_erasure(archive, begun[-1])
    gone = {message_id for record in begun for message_id in record.messages}
    rows = sum(
        remove_messages(archive, drain_id, gone, lock.require) for drain_id in summary.drains
    )
    for folder, files in reports.items():
        lock.require()
        strip_report(archive, folder, files)
    # After the reports: by the deleted files a repeat finds the reports of their drains.
    for path in summary.deleted_files:
        archive.remove(path, keeps_current=True)
    for folder in (MESSAGES, REPORTS):
        archive.sweep(folder)
    for record in begun:
        if record.failure_table:
            _delete_recorded(record.failure_table, record.ids)
        mark_done(archive, record.erase_id)
    return replace(summary, erase_id=new.erase_id if summary.is_new else "", rows=rows)


def _find(
    archive: Archive, engine: Engine | None, request: EraseRequest, now: float
) -> tuple[EraseSummary, Erasure, list[Erasure], dict[str, list[str]]]:
    """Find the messages, what else holds or quotes them, and earlier erasures that died.

    Returns:
        The summary, the erasure that it makes, those that were begun, and the reports.
    """
    require_drains(archive)
    if request.where is None:
        rows = _named(archive, request.ids)
    elif engine is not None:
        rows = _matching(archive, engine, request.where)
    else:
        raise InputError("--where needs an engine")
    messages = defaultdict[str, set[str]](set)
    for row in rows.to_pylist():
        messages[row["message_id"]].add(row["drain_id"])
    archived, known = len(messages), {*messages, *map(str, rows["first_id"].to_pylist())}
    known.update(filter(None, rows["last_id"].to_pylist()))
    asked = {*request.ids, *known}
    # Copies that have expired: reports of plans that had them may quote them.
    erased = {message_id for record in erasures(archive) for message_id in record.messages}
    for row in planned_copies(archive, asked):
        if row["message_id"] not in erased:
            messages[row["message_id"]].add(drain_of(row["file"]))
            known |= {row["message_id"], row["first_id"]}
    failures = None
    if request.failure_table:
        asked |= sent_copies(archive, messages)
        failures = _recorded(request.failure_table, {*messages, *asked})
    new = Erasure(
        new_id(now),
        actor(),
        request.reason,
        timestamp(now),
        {message_id: sorted(drains) for message_id, drains in sorted(messages.items())},
        other_ids=sorted(asked - messages.keys()),
        failure_table=request.failure_table,
    )
    begun = erasures(archive, unfinished=True)
    gone = {message_id for record in (new, *begun) for message_id in record.ids}
    deleted_files = tuple(
        path
        for path in archive.outdated(MESSAGES)
        if any(holds_any(content, gone) for content in archive.outdated_contents(path))
    )
    drains = {drain for record in (new, *begun) for drain in record.drains}
    drains.update(map(drain_of, deleted_files))
    reports = reports_quoting(archive, drains)
    summary = EraseSummary(
        erase_id="",
        messages=archived,
        rows=0,
        drains=tuple(sorted(drains)),
        reports=tuple(reports),
        resumed=tuple(record.erase_id for record in begun),
        unknown_ids=tuple(one for one in request.ids if one not in known),
        deleted_files=deleted_files,
        failures=failures,
        expired=len(messages) - archived,
    )
    return summary, new, begun, reports


def _named(archive: Archive, ids: Collection[str]) -> pa.Table:
    """Select the rows with these message ids or first ids, and those of their copies."""
    files = message_files(archive)
    found = rows_by_file(archive, files, ["first_id"], ids, _IDS)
    first_ids = {str(one) for _, rows in found for one in rows["first_id"].to_pylist()}
    of_copies = rows_by_file(archive, files, _IDS, first_ids, ["first_id"])
    rows = with_files(of_copies, _IDS)
    return rows.append_column("drain_id", drains_of(rows))


def _matching(archive: Archive, engine: Engine, where: str) -> pa.Table:
    """Select the rows that match the SQL condition *where*, and those of their copies."""
    columns = named_columns(where, READ_COLUMNS)
    stored = [name for name in columns if name in ARROW_SCHEMA.names]
    to_read = list(dict.fromkeys(["first_id", *stored]))
    work = read_files_work(archive, message_files(archive), to_read, engine.slots)
    first_ids = engine.run_where(work, where, ["first_id"])["first_id"].unique()
    return _named(archive, list(map(str, first_ids.to_pylist())))


def _expire(
    archive: Archive, now_seconds: float, days: int, lock: ArchiveLock | None = None
) -> EraseSummary:
    """Remove what was drained and decided more than *days* ago; without *lock* count it alone.

    The ids of a drain are held at once, beside those of what is pending.
    """
    oldest_seconds = now_seconds - days * _DAY_SECONDS
    if lock:
        _clear_commands(archive, lock)
        clear_plans(archive, timestamp(oldest_seconds))
    oldest = pa.scalar(datetime.fromtimestamp(oldest_seconds, UTC), pa.timestamp("us", "UTC"))
    files = {drain_id: [*paths] for drain_id, paths in groupby(message_files(archive), drain_of)}
    counts, drains = Counter[str](), list[str]()
    # A clock that was ahead lets a drain look younger, and its messages stay for longer. A drain
    # that looks older does no harm: each message's own time counts, too.
    old = {one for one in files if one < new_id(oldest_seconds)}
    for drain_id in files.keys() - old:
        counts["younger"] += sum(rows_named(path) or 0 for path in files[drain_id])
    pending_ids, acted = _kept_ids(archive, oldest_seconds) if old else (None, None)
    for drain_id in sorted(old):
        # Otherwise Arrow keeps what earlier drains took.
        pa.default_memory_pool().release_unused()
        columns = ("message_id", "drained_at")
        rows = with_files(rows_by_file(archive, files[drain_id], columns), columns)
        ids = rows["message_id"]
        is_pending, is_old = is_in(ids, pending_ids), pc.less(rows["drained_at"], oldest)
        is_leaving = pc.and_not(pc.and_not(is_old, is_pending), is_in(ids, acted))
        leaving, pending = ids.filter(is_leaving).unique(), len(ids.filter(is_pending).unique())
        younger = len(ids.unique()) - len(leaving) - pending
        counts.update(messages=len(leaving), younger=younger, pending=pending)
        drains += [drain_id] * bool(len(leaving))
        if lock:
            removed = remove_messages(archive, drain_id, leaving, lock.require, merges=True)
            counts["rows"] += removed
    return EraseSummary(
        erase_id="",
        messages=counts["messages"],
        rows=counts["rows"],
        drains=tuple(drains),
        younger=counts["younger"],
        pending=counts["pending"],
    )


def _kept_ids(archive: Archive, oldest_seconds: float) -> tuple[Any, Any]:
    """Return the ids of what is pending; and those of older drains that somebody acted on since."""
    oldest, oldest_drain = timestamp(oldest_seconds), new_id(oldest_seconds)

    def acted(rows: pa.Table) -> Any:  # noqa: ANN401 - an Arrow mask
        # Somebody changed a time that cannot be read: the message stays.
        is_time = pc.match_substring_regex(rows["time"], _TIME)
        is_long_ago = pc.and_(is_time, pc.less(rows["time"], pa.scalar(oldest)))
        drains = pc.coalesce(rows["drain_id"], pa.scalar(""))
        return pc.and_(pc.invert(is_long_ago), pc.less(drains, pa.scalar(oldest_drain)))

    pending = read_messages(archive).pending()["message_id"]
    spans = stored_open_set(archive).runs
    without = {path for path, span in spans.items() if span.last_time < oldest}
    claimed = claimed_table(archive, without=without, wanted=acted)
    return pending, claimed["message_id"]


def reports_quoting(archive: Archive, drain_ids: Collection[str]) -> dict[str, list[str]]:
    """Find the archive's own reports that may quote a message of one of these drains.

    Returns:
        By folder of the report, its files, with those of which only an old version exists, but for
        its table, which holds no content.
    """
    paths = sorted({*archive.list(REPORTS), *archive.outdated(REPORTS)})
    others = (path for path in paths if f"/{TABLE}/" not in path)
    found: dict[str, list[str]] = {}
    for folder, files in groupby(others, lambda path: "/".join(path.split("/")[:2])):
        plan = _plan_in(archive, folder)
        # Without a plan, or if that has faults, the report may be about any message.
        if not set(drain_ids).isdisjoint(plan.snapshot.drain_ids if plan else drain_ids):
            found[folder] = [*files]
    return found


def strip_report(archive: Archive, folder: str, files: Sequence[str]) -> None:
    """Remove all of a report but its plan, which is written anew without quotes and comments."""
    path, plan = f"{folder}/{PLAN}", _plan_in(archive, folder)
    if plan is not None:
        groups = tuple(replace(group, title="(erased)") for group in plan.groups)
        snapshot = replace(plan.snapshot, where=None)
        archive.write(path, plan_text(replace(plan, snapshot=snapshot, groups=groups)).encode())
        # A versioned bucket keeps what was overwritten.
        archive.remove(path, keeps_current=True)
    for file in files:
        if file != path or plan is None:
            archive.remove(file)


def _plan_in(archive: Archive, folder: str) -> Plan | None:
    """Read the plan of a report; None where there is none, or one with faults."""
    try:
        return read_plan((archive.read(f"{folder}/{PLAN}") or b"").decode())
    except (InputError, UnicodeDecodeError):
        return None


def _recorded(table: str, message_ids: Collection[str]) -> int:
    """Count the items of these messages; raise InputError if the table cannot be read."""
    client, counts = aws_client("dynamodb", table_client_config()), list[int]()

    def read(keys: list[_Key]) -> Any:  # noqa: ANN401 - boto3's
        wanted = {"ProjectionExpression": "message_id", "ConsistentRead": True, "Keys": keys}
        answer = client.batch_get_item(RequestItems={table: wanted})
        counts.append(len(answer["Responses"].get(table, ())))
        return answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys")

    try:
        _in_batches(table, message_ids, MAX_READS, read)
    except (ClientError, BotoCoreError) as error:
        raise InputError(
            f"--failure-table {table}: {describe(error)}; check the name, the Region, and that you "
            "may call dynamodb:BatchGetItem and dynamodb:BatchWriteItem on it"
        ) from error
    return sum(counts)


def _delete_recorded(table: str, message_ids: Collection[str]) -> None:
    """Delete the items of these messages, if there are any; repeat it after an ArchiveError.

    The key is the message id of the copy that failed. Of a dead letter's copies the archive knows
    the first one, the last ones that the consumer saw, the parked ones, and those that a redrive
    sent. The items of replays in between stay until the table's TTL deletes them.
    """
    client = aws_client("dynamodb", table_client_config())

    def delete(keys: list[_Key]) -> Any:  # noqa: ANN401 - boto3's
        requests = [{"DeleteRequest": {"Key": key}} for key in keys]
        answer = client.batch_write_item(RequestItems={table: requests})
        left = answer.get("UnprocessedItems", {}).get(table, ())
        return [request["DeleteRequest"]["Key"] for request in left]

    try:
        _in_batches(table, message_ids, MAX_WRITES, delete)
    except (ClientError, BotoCoreError) as error:
        code = error.response["Error"].get("Code") if isinstance(error, ClientError) else ""
        # A table that existed when the erasure began was deleted with its items.
        if code != "ResourceNotFoundException":
            raise ArchiveError(
                f"failure table {table}: cannot delete what was recorded of the erased messages: "
                f"{describe(error)}; run the same command again"
            ) from error


def _in_batches(
    table: str, message_ids: Collection[str], size: int, call: Callable[[list[_Key]], Any]
) -> None:
    """Call with the keys of these messages, and again with those that DynamoDB leaves.

    A producer can write any first id into a context, also the key of an item that is no failure.
    """
    keys = [
        {"message_id": {"S": message_id}}
        for message_id in sorted(message_ids)
        if _MARK_OF_OTHER_KEYS not in message_id
    ]
    for start in range(0, len(keys), size):
        if _BUSY_TABLE.finish(call, keys[start : start + size]):
            raise ArchiveError(f"failure table {table}: DynamoDB is too busy; run again")
