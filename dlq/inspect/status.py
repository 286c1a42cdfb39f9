"""The verb ``status``: counts of messages in the parked queue and in the archive."""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.group_records import read_memory
from dlq.archive.ledger.claims import list_runs, open_run_notes
from dlq.archive.ledger.disposition import DECIDED, Disposition
from dlq.archive.ledger.message_state import PENDING, field_in, states_in
from dlq.archive.ledger.open_set import Messages, claimed_table, read_messages
from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.archive.messages.message_index import read_table_columns
from dlq.archive.messages.message_store import first_rows, is_in, rows_by_file
from dlq.archive.storage.files import Archive, open_archive
from dlq.aws.clients import (
    Limit,
    QueueCounts,
    queue_counts,
    read_limit,
    require_queue,
    sqs_client,
)
from dlq.errors import ArchiveError, InputError
from dlq.inspect.outcomes import counts_of_ramps, read_outcomes
from dlq.plan.plan import Action
from dlq.plan.plan_file import NoReportError, find_plan
from dlq.progress import Progress, silent
from dlq_replay.aws.sqs import SqsQueue

EXAMPLES = 5
"""Message ids that are named for a state, at most."""

LATEST = 20
"""Plans and drains that are printed at most, and plans of which what came back is read."""


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """What to count: the arguments of ``status``, see its help."""

    archive: str
    parked_queue_url: str | None = None
    failure_table: str | None = None
    main_queue_url: str | None = None
    dlq_url: str | None = None


@dataclass(frozen=True, slots=True)
class DrainCount:
    """A drain and its distinct messages. A message of two drains counts in the first."""

    drain_id: str
    messages: int
    pending: int


@dataclass(frozen=True, slots=True)
class PlanCount:
    """A plan that was executed, at least in part, and the states of its messages.

    Each message counts in the plan whose attempt holds. One that every run failed to send has none.
    *returned_at* is when that was counted, if not now; None where nothing is known.
    """

    plan_id: str
    counts: Mapping[str, int]
    returned: int | None = None
    returned_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Blocker:
    """A pending message of a FIFO queue, and the number of its group that wait behind it."""

    message_id: str
    waiting: int


@dataclass(frozen=True, slots=True)
class NewestReport:
    """The newest report, and what of the messages that are pending now it knows.

    Attributes:
        unlisted: pending messages that are not in it.
        decided: pending messages that its plan redrives or discards, without those of groups that
            are stopped. A newer plan would leave them.
        fault: why its plan cannot be read; empty if it can be.
    """

    plan_id: str
    unlisted: int = 0
    decided: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class DlqStatus(Limit):
    """The limit of a main queue, and while there is one, its dead-letter queue.

    Attributes:
        waiting: messages that wait in the DLQ, about; None where SQS does not say.
    """

    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class ArchiveStatus:
    """All counts; docs/reference.md describes the fields, under "status".

    *blockers* are the messages that most others wait for, at most ``EXAMPLES``.
    """

    archive: str
    at: datetime
    queue: QueueCounts | None
    messages: int
    counts: Mapping[str, int]
    oldest_pending_at: datetime | None
    drains: tuple[DrainCount, ...]
    plans: tuple[PlanCount, ...]
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    waiting: int = 0
    blockers: tuple[Blocker, ...] = ()
    dlq: DlqStatus | None = None
    report: NewestReport | None = None
    open_runs: tuple[str, ...] = ()

    def count(self, word: str) -> int:
        """Return the number of messages in a state, or pending."""
        return self.counts.get(word, 0)


_COLUMNS = (
    "message_id",
    "drained_at",
    "message_group_id",
    "sequence_number",
    "sent_at",
    "queue_url",
)
"""What ``count`` needs of each row of the archive."""


def status(options: StatusOptions, *, progress: Progress = silent) -> ArchiveStatus:
    """Count messages, without Spark. Writes nothing and receives nothing.

    Raises:
        InputError: the queue or the archive cannot be used as given.
    """
    archive = open_archive(options.archive)
    url = options.parked_queue_url
    queue = require_queue("--parked-queue-url", url, sqs_client).counts if url else None
    with progress("counting", str):
        now_seconds = time.time()
        messages = read_messages(archive)
        pending = messages.pending()
        found = _counted(archive, messages, pending, now_seconds)
        report = _newest_report(archive, pending)
    table = options.failure_table
    latest = [_with_returns(archive, one, table) for one in found.plans[-LATEST:]]
    found = replace(found, plans=(*found.plans[:-LATEST], *latest))
    return replace(found, queue=queue, dlq=_dlq_status(options), report=report)


def _newest_report(archive: Archive, pending: pa.Table) -> NewestReport | None:
    """Compare the newest report with ``Messages.pending``; None without a report."""
    try:
        file = find_plan(archive, None)
    except NoReportError:
        return None
    try:
        plan = file.plan()
        columns = ["message_id", "group_id"]
        members = read_table_columns(archive, plan.plan_id, columns, plan.snapshot.table_sha256)
    except (InputError, ArchiveError) as error:
        return NewestReport(file.folder.root.rpartition("/")[2], fault=str(error))
    stopped = read_memory(archive).stopped
    acting = [
        group.group_id
        for group in plan.groups
        if group.action is not Action.LEAVE and group.group_id not in stopped
    ]
    chosen = members.filter(is_in(members["group_id"].cast(pa.string()), acting))
    # What is in doubt or busy is not a plan's to send.
    is_free = pc.equal(states_in(pending["entry"]), pa.scalar(PENDING))
    return NewestReport(
        plan.plan_id,
        unlisted=_count(pc.invert(is_in(pending["message_id"], members["message_id"]))),
        decided=_count(pc.and_(is_free, is_in(pending["message_id"], chosen["message_id"]))),
    )


def _count(flags: Any) -> int:  # noqa: ANN401 - an Arrow column of booleans
    return int(pc.sum(flags).as_py() or 0)


def _dlq_status(options: StatusOptions) -> DlqStatus | None:
    """Ask for the limit of a queue, and for what waits. Never raises for what AWS answers."""
    if not options.failure_table or not options.main_queue_url:
        return None
    limit = read_limit(options.failure_table, options.main_queue_url)
    if limit.per_minute is None:
        return DlqStatus(fault=limit.fault, unjudged=limit.unjudged)
    url = options.dlq_url
    counts = queue_counts(SqsQueue(sqs_client(url), url)) if url else None
    # Held by a delayed re-send, or on FIFO by visibility.
    waiting = counts.delayed + counts.in_flight if counts else None
    return DlqStatus(limit.per_minute, limit.sentence, unjudged=limit.unjudged, waiting=waiting)


def _with_returns(archive: Archive, plan: PlanCount, failure_table: str | None) -> PlanCount:
    if not plan.counts.get(Disposition.SENT):
        return plan
    if failure_table is None and not counts_of_ramps(archive, plan.plan_id):
        return plan
    try:
        of_plan = find_plan(archive, plan.plan_id, takes_files=False).plan()
    except InputError:
        # The report is gone.
        return plan
    claimed = claimed_table(archive, by_plan=plan.plan_id)
    outcomes = read_outcomes(archive, of_plan, failure_table, claimed).values()
    sent = [one for one in outcomes if one.sent]
    known = [one.known_returned for one in sent if one.known_returned is not None]
    if not known or len(known) < len(sent):
        return plan
    times = [one.counted_at for one in sent if one.counted_at is not None]
    at = datetime.fromtimestamp(min(times), UTC) if times else None
    return replace(plan, returned=sum(known), returned_at=at)


def count(archive: Archive) -> ArchiveStatus:
    """Count what an archive holds now. Holds the ids of what is pending."""
    now_seconds = time.time()
    messages = read_messages(archive)
    return _counted(archive, messages, messages.pending(), now_seconds)


def _counted(
    archive: Archive, messages: Messages, pending: pa.Table, now_seconds: float
) -> ArchiveStatus:
    counts = Counter({PENDING: pending.num_rows})
    drains = defaultdict[str, Counter[bool]](Counter)
    plans: dict[str, dict[str, int]] = {plan_id: {} for plan_id, _ in list_runs(archive)}
    for (drain_id, plan_id, state), number in messages.counts().items():
        if state != PENDING:
            counts[state] += number
        drains[drain_id][state in DECIDED] += number
        if plan_id:
            of_plan = plans.setdefault(plan_id, {})
            of_plan[state] = of_plan.get(state, 0) + number
    oldest, rows = _oldest_and_ordered(archive, pending)
    waiting, blockers = _waiting(rows)
    return ArchiveStatus(
        archive=archive.root,
        at=datetime.fromtimestamp(now_seconds, UTC),
        queue=None,
        messages=sum(one.total() for one in drains.values()),
        counts=dict(counts),
        oldest_pending_at=oldest,
        drains=tuple(
            DrainCount(one, drains[one].total(), drains[one][False]) for one in sorted(drains)
        ),
        plans=tuple(PlanCount(one, plans[one]) for one in sorted(plans)),
        examples=_examples(pending),
        waiting=waiting,
        blockers=blockers,
        open_runs=tuple(open_run_notes(archive)),
    )


def _oldest_and_ordered(archive: Archive, pending: pa.Table) -> tuple[datetime | None, pa.Table]:
    """Return when the oldest message was sent, and ``_COLUMNS`` of those of FIFO queues."""
    files: Any = pending["file"].combine_chunks()
    places = {path: place for place, path in enumerate(files.dictionary.to_pylist())}
    oldest, tables = [], [ARROW_SCHEMA.empty_table().select(_COLUMNS)]
    for path, of_file in rows_by_file(archive, sorted(files.unique().to_pylist()), _COLUMNS):
        ids = pending["message_id"]
        if path in places:
            ids = ids.filter(pc.equal(files.indices, pa.scalar(places[path], pa.int32())))
        rows = of_file.filter(is_in(of_file["message_id"], ids))
        oldest.append(pc.min(pc.coalesce(rows["sent_at"], rows["drained_at"])).as_py())
        tables.append(rows.filter(pc.is_valid(rows["sequence_number"])))
    rows = pa.concat_tables(tables)
    first = rows.take(first_rows(rows, "message_id", "drained_at"))
    return min((one for one in oldest if one), default=None), first


def _waiting(rows: pa.Table) -> tuple[int, tuple[Blocker, ...]]:
    """Count what waits in the message groups of each parked queue, and find the first of each."""
    # Sequence numbers are decimal digits without leading zeros, so the longer one is greater.
    found = rows.append_column("digits", pc.utf8_length(rows["sequence_number"]))
    order = ("digits", "sequence_number", "sent_at", "message_id")
    found = found.sort_by([(name, "ascending") for name in order])
    groups = found.group_by(["queue_url", "message_group_id"], use_threads=False).aggregate(
        [("message_id", "first"), ("message_id", "count")]
    )
    blockers = [
        Blocker(one["message_id_first"], one["message_id_count"] - 1)
        for one in groups.to_pylist()
        if one["message_id_count"] > 1
    ]
    blockers.sort(key=lambda one: (-one.waiting, one.message_id))
    return sum(one.waiting for one in blockers), tuple(blockers[:EXAMPLES])


def _examples(rows: pa.Table) -> dict[str, tuple[str, ...]]:
    examples = {}
    for state in (Disposition.IN_DOUBT, Disposition.BUSY):
        is_in_it = pc.equal(field_in(rows["entry"], "state"), pa.scalar(str(state)))
        ids = [str(one) for one in rows.filter(is_in_it)["message_id"].to_pylist()]
        if ids:
            examples[str(state)] = tuple(sorted(ids)[:EXAMPLES])
    return examples
