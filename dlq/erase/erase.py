"""The verb ``erase``: removes messages from every place that can hold them, in one order.

Of messages that somebody names, every archived copy with the same first id goes, in every drain,
with the reports that may quote it; of copies that have expired, the quotes in reports. By age
messages go from the archive's files alone, each by its own state, once its drain and all that the
ledgers say of it are so old. What is pending, unconfirmed or in progress never goes by age.

A record with the ids is durable before the first file is changed. What comes after it can be
repeated after a crash at any moment, and the next erasure completes one that died. Erasing by age
needs no record: it finds again what is left, since what is decided stays so. Messages are selected
while the archive lock is held, so that nobody decides about them meanwhile.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
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
from dlq.archive.messages.message_reading import read_files_work
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
from dlq.archive.storage.files import COMMANDS, MESSAGES, Archive, new_id
from dlq.aws.actor import actor, caller, require_reason
from dlq.aws.clients import aws_client
from dlq.engine import Engine
from dlq.errors import ArchiveError, InputError
from dlq.plan.plan import Plan, plan_text
from dlq.plan.plan_file import PLAN
from dlq.plan.plan_reading import read_plan
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
"""The fewest days to keep what was decided: SQS keeps a message for 14 days at most."""


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
        selections = [bool(self.ids), self.where is not None, self.is_by_age]
        if selections.count(True) != 1:
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
        """True if messages are erased because they were decided long ago."""
        return self.older_than_days is not None


@dataclass(frozen=True, slots=True)
class EraseSummary:
    """Summary of what was erased, or would be; for the fields see docs/reference.md, "erase".

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
        """True if there is more to erase than an earlier run began."""
        return bool(self.messages or self.deleted_files or self.failures or self.expired)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to erase."""
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

    # From here on a crash is harmless: the next erasure completes every one that was recorded.
    if summary.is_new:
        application_id = engine.application_id if engine else None
        new = replace(new, caller=caller(application_id))
        begun.append(new)
        record_erasure(archive, new)

    gone_ids: set[str] = set()
    for record in begun:
        gone_ids.update(record.messages)
    removed_rows = 0
    for drain_id in summary.drains:
        removed_rows += remove_messages(archive, drain_id, gone_ids, lock.require)

    for folder, files in reports.items():
        lock.require()
        strip_report(archive, folder, files)

    # After the reports: by the deleted files a repeat finds the reports of their drains.
    for path in summary.deleted_files:
        archive.remove(path, keeps_current=True)
    for folder in (MESSAGES, REPORTS):
        archive.sweep(folder)

    _complete(archive, begun)
    erase_id = new.erase_id if summary.is_new else ""
    return replace(summary, erase_id=erase_id, rows=removed_rows)


def _complete(archive: Archive, begun: Sequence[Erasure]) -> None:
    """Delete the recorded failures of these erasures, and mark each as done."""
    for record in begun:
        if record.failure_table:
            _delete_recorded(record.failure_table, record.ids)
        mark_done(archive, record.erase_id)


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

    drains_by_message = defaultdict[str, set[str]](set)
    for row in rows.to_pylist():
        drains_by_message[row["message_id"]].add(row["drain_id"])
    archived = len(drains_by_message)
    archived_ids = {*drains_by_message, *map(str, rows["first_id"].to_pylist())}
    archived_ids.update(filter(None, rows["last_id"].to_pylist()))
    copy_ids = {*request.ids, *archived_ids}
    unknown_ids = set(request.ids) - archived_ids

    # Copies that have expired: reports of plans that had them may quote them.
    erased_ids: set[str] = set()
    for record in erasures(archive):
        erased_ids.update(record.messages)
    for row in planned_copies(archive, copy_ids):
        if row["message_id"] not in erased_ids:
            drains_by_message[row["message_id"]].add(drain_of(row["file"]))
            unknown_ids -= {row["message_id"], row["first_id"]}

    failures = None
    if request.failure_table:
        copy_ids |= sent_copies(archive, drains_by_message)
        failures = _recorded(request.failure_table, {*drains_by_message, *copy_ids})

    new = Erasure(
        erase_id=new_id(now),
        who=actor(),
        reason=request.reason,
        time=timestamp(now),
        messages=_sorted(drains_by_message),
        other_ids=sorted(copy_ids - drains_by_message.keys()),
        failure_table=request.failure_table,
    )
    begun = erasures(archive, unfinished=True)
    gone_ids: set[str] = set()
    drains: set[str] = set()
    for record in (new, *begun):
        gone_ids |= record.ids
        drains |= record.drains

    deleted_files = _deleted_files(archive, gone_ids)
    drains.update(map(drain_of, deleted_files))
    reports = reports_quoting(archive, drains)

    summary = EraseSummary(
        erase_id="",
        messages=archived,
        rows=0,
        drains=tuple(sorted(drains)),
        reports=tuple(reports),
        resumed=tuple(record.erase_id for record in begun),
        unknown_ids=tuple(message_id for message_id in request.ids if message_id in unknown_ids),
        deleted_files=deleted_files,
        failures=failures,
        expired=len(drains_by_message) - archived,
    )
    return summary, new, begun, reports


def _sorted(drains_by_message: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Sort messages by their ids, and the drains of each."""
    in_order: dict[str, list[str]] = {}
    for message_id in sorted(drains_by_message):
        in_order[message_id] = sorted(drains_by_message[message_id])
    return in_order


def _deleted_files(archive: Archive, message_ids: Collection[str]) -> tuple[str, ...]:
    """Return the files of which the bucket keeps an old version with one of these messages."""
    paths: list[str] = []
    for path in archive.outdated(MESSAGES):
        if any(holds_any(content, message_ids) for content in archive.outdated_contents(path)):
            paths.append(path)
    return tuple(paths)


def _named(archive: Archive, ids: Collection[str]) -> pa.Table:
    """Select the rows with these message ids or first ids, and those of their copies."""
    files = message_files(archive)
    first_ids: set[str] = set()
    for _, matches in rows_by_file(archive, files, ["first_id"], ids, _IDS):
        first_ids.update(map(str, matches["first_id"].to_pylist()))

    copies = with_files(rows_by_file(archive, files, _IDS, first_ids, ["first_id"]), _IDS)
    return copies.append_column("drain_id", drains_of(copies))


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

    # A clock that was ahead lets a drain look younger, and its messages stay for longer. A drain
    # that looks older does no harm: each message's own time counts, too.
    counts = Counter[str]()
    old_files: dict[str, list[str]] = {}
    oldest_drain = new_id(oldest_seconds)
    for drain_id, paths in groupby(message_files(archive), drain_of):
        if drain_id < oldest_drain:
            old_files[drain_id] = list(paths)
        else:
            counts["younger"] += sum(rows_named(path) or 0 for path in paths)

    drains: list[str] = []
    oldest = pa.scalar(datetime.fromtimestamp(oldest_seconds, UTC), pa.timestamp("us", "UTC"))
    pending_ids, acted_ids = _kept_ids(archive, oldest_seconds) if old_files else (None, None)
    for drain_id, paths_of_drain in sorted(old_files.items()):
        # Otherwise Arrow keeps what earlier drains took.
        pa.default_memory_pool().release_unused()
        columns = ("message_id", "drained_at")
        rows = with_files(rows_by_file(archive, paths_of_drain, columns), columns)

        ids = rows["message_id"]
        is_pending = is_in(ids, pending_ids)
        is_old = pc.less(rows["drained_at"], oldest)
        is_leaving = pc.and_not(pc.and_not(is_old, is_pending), is_in(ids, acted_ids))
        leaving = ids.filter(is_leaving).unique()

        pending = len(ids.filter(is_pending).unique())
        younger = len(ids.unique()) - len(leaving) - pending
        counts.update(messages=len(leaving), younger=younger, pending=pending)
        if len(leaving):
            drains.append(drain_id)
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
    oldest = timestamp(oldest_seconds)
    oldest_drain = new_id(oldest_seconds)

    def acted(rows: pa.Table) -> Any:  # noqa: ANN401 - an Arrow mask
        # Somebody changed a time that cannot be read: the message stays.
        is_time = pc.match_substring_regex(rows["time"], _TIME)
        is_long_ago = pc.and_(is_time, pc.less(rows["time"], pa.scalar(oldest)))
        drains = pc.coalesce(rows["drain_id"], pa.scalar(""))
        return pc.and_(pc.invert(is_long_ago), pc.less(drains, pa.scalar(oldest_drain)))

    pending = read_messages(archive).pending()["message_id"]
    older_results: set[str] = set()
    for path, span in stored_open_set(archive).runs.items():
        if span.last_time < oldest:
            older_results.add(path)
    claimed = claimed_table(archive, without=older_results, wanted=acted)
    return pending, claimed["message_id"]


def reports_quoting(archive: Archive, drain_ids: Collection[str]) -> dict[str, list[str]]:
    """Find the archive's own reports that may quote a message of one of these drains.

    Returns:
        By folder of the report, its files, with those of which only an old version exists, but for
        its table, which holds no content.
    """
    paths = sorted({*archive.list(REPORTS), *archive.outdated(REPORTS)})
    with_content = (path for path in paths if f"/{TABLE}/" not in path)
    reports: dict[str, list[str]] = {}
    for folder, files in groupby(with_content, lambda path: "/".join(path.split("/")[:2])):
        plan = _plan_in(archive, folder)
        # Without a plan, or if that has faults, the report may be about any message.
        if not set(drain_ids).isdisjoint(plan.snapshot.drain_ids if plan else drain_ids):
            reports[folder] = list(files)
    return reports


def strip_report(archive: Archive, folder: str, files: Sequence[str]) -> None:
    """Remove all of a report but its plan, which is written again without quotes and comments."""
    path = f"{folder}/{PLAN}"
    plan = _plan_in(archive, folder)
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
    client = aws_client("dynamodb", table_client_config())
    items = 0

    def read(keys: list[_Key]) -> Any:  # noqa: ANN401 - boto3's
        nonlocal items
        wanted = {"ProjectionExpression": "message_id", "ConsistentRead": True, "Keys": keys}
        answer = client.batch_get_item(RequestItems={table: wanted})
        items += len(answer["Responses"].get(table, ()))
        return answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys")

    try:
        _in_batches(table, message_ids, MAX_READS, read)
    except (ClientError, BotoCoreError) as error:
        raise InputError(
            f"--failure-table {table}: {describe(error)}; check the name, the Region, and that you "
            "may call dynamodb:BatchGetItem and dynamodb:BatchWriteItem on it"
        ) from error
    return items


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
    keys: list[_Key] = []
    for message_id in sorted(message_ids):
        if _MARK_OF_OTHER_KEYS not in message_id:
            keys.append({"message_id": {"S": message_id}})

    for start in range(0, len(keys), size):
        if _BUSY_TABLE.finish(call, keys[start : start + size]):
            raise ArchiveError(f"failure table {table}: DynamoDB is too busy; run again")
