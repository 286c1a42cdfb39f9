"""The verb ``status``: counts of messages in the parked queue and in the archive."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
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
"""Plans and drains that are printed at most, and plans of which returns are read."""


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """The arguments of ``status``: see its help. The archive is empty for none."""

    archive: str
    parked_queue_url: str | None = None
    failure_table: str | None = None
    main_queue_url: str | None = None
    dlq_url: str | None = None
    queue_tag: str | None = None
    fifo_parked_queue_url: str | None = None
    sweep_rule: str | None = None
    queue: str | None = None


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
class BlockingMessage:
    """A pending message of a FIFO queue, and the number of its group that wait behind it."""

    message_id: str
    waiting: int


@dataclass(frozen=True, slots=True)
class NewestReport:
    """The newest report, compared with the messages that are pending now.

    Attributes:
        unlisted: pending messages that are not in it.
        decided: pending messages that its plan redrives or discards, without those of groups that
            are halted. A newer plan would leave them.
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

    *blockers* are the messages that most others wait for, at most ``EXAMPLES``. *pending_sources*
    are the numbers of pending messages by the name of their source queue, "" where it is unknown.
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
    blockers: tuple[BlockingMessage, ...] = ()
    dlq: DlqStatus | None = None
    report: NewestReport | None = None
    open_runs: tuple[str, ...] = ()
    pending_sources: Mapping[str, int] = field(default_factory=dict)
    dead_letters: QueueCounts | None = None

    def count(self, state: str) -> int:
        """Return the number of messages in a state, or pending."""
        return self.counts.get(state, 0)


_COLUMNS = (
    "message_id",
    "drained_at",
    "message_group_id",
    "sequence_number",
    "sent_at",
    "queue_url",
    "source_queue",
    "source_arn",
)
"""Columns of the archive that ``count`` needs."""


def status(options: StatusOptions, *, progress: Progress = silent) -> ArchiveStatus:
    """Count messages, without Spark. Writes nothing and receives nothing.

    Raises:
        InputError: the queue or the archive cannot be used as given.
    """
    archive = open_archive(options.archive) if options.archive else None
    url = options.parked_queue_url
    queue = require_queue("--parked-queue-url", url, sqs_client).counts if url else None
    counts = _without_archive()
    if archive:
        counts = _archive_status(archive, options, progress)

    dlq_url = options.dlq_url
    dead_letters = queue_counts(SqsQueue(sqs_client(dlq_url), dlq_url)) if dlq_url else None
    return replace(
        counts,
        queue=queue,
        dead_letters=dead_letters,
        dlq=_dlq_status(options, dead_letters),
    )


def _without_archive() -> ArchiveStatus:
    return ArchiveStatus(
        archive="",
        at=datetime.now(UTC),
        queue=None,
        messages=0,
        counts={},
        oldest_pending_at=None,
        drains=(),
        plans=(),
    )


def _archive_status(archive: Archive, options: StatusOptions, progress: Progress) -> ArchiveStatus:
    """Count what is archived, and what failed again of the latest plans."""
    with progress("counting", str):
        counts = count_with_report(archive, is_fleet=bool(options.queue_tag))

    table = options.failure_table
    latest = [_with_returns(archive, plan, table) for plan in counts.plans[-LATEST:]]
    return replace(counts, plans=(*counts.plans[:-LATEST], *latest))


def count_with_report(archive: Archive, *, is_fleet: bool = False) -> ArchiveStatus:
    """As ``count``, and compare the newest report with what is pending."""
    now_seconds = time.time()
    messages = read_messages(archive)
    pending = messages.pending()
    counts = _counted(archive, messages, pending, now_seconds, is_fleet=is_fleet)
    return replace(counts, report=_newest_report(archive, pending))


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

    acting_groups = {group.group_id for group in plan.groups if group.action is not Action.LEAVE}
    acting_groups -= read_memory(archive).halted.keys()
    is_acting = is_in(members["group_id"].cast(pa.string()), sorted(acting_groups))
    chosen = members.filter(is_acting)

    pending_ids = pending["message_id"]
    # A plan does not send messages that are unconfirmed or in progress.
    is_free = pc.equal(states_in(pending["entry"]), pa.scalar(PENDING))
    return NewestReport(
        plan_id=plan.plan_id,
        unlisted=_count(pc.invert(is_in(pending_ids, members["message_id"]))),
        decided=_count(pc.and_(is_free, is_in(pending_ids, chosen["message_id"]))),
    )


def _count(flags: Any) -> int:  # noqa: ANN401 - an Arrow column of booleans
    return int(pc.sum(flags).as_py() or 0)


def _dlq_status(options: StatusOptions, dead_letters: QueueCounts | None) -> DlqStatus | None:
    """Ask for the limit of a queue, whose DLQ has *dead_letters*. Never raises an error of AWS."""
    if not options.failure_table or not options.main_queue_url:
        return None

    limit = read_limit(options.failure_table, options.main_queue_url)
    if limit.per_minute is None:
        return DlqStatus(fault=limit.fault, unjudged=limit.unjudged)

    return DlqStatus(
        per_minute=limit.per_minute,
        sentence=limit.sentence,
        unjudged=limit.unjudged,
        # Held by a delayed re-send, or on FIFO by visibility.
        waiting=dead_letters.delayed + dead_letters.in_flight if dead_letters else None,
    )


def _with_returns(archive: Archive, plan: PlanCount, failure_table: str | None) -> PlanCount:
    if not plan.counts.get(Disposition.SENT):
        return plan
    if failure_table is None and not counts_of_ramps(archive, plan.plan_id):
        return plan

    try:
        planned = find_plan(archive, plan.plan_id, takes_files=False).plan()
    except InputError:
        # The report is gone.
        return plan

    claimed = claimed_table(archive, by_plan=plan.plan_id)
    outcomes = read_outcomes(archive, planned, failure_table, claimed)
    returned: list[int] = []
    times: list[float] = []
    for outcome in outcomes.values():
        if not outcome.sent:
            continue
        if outcome.known_returned is None:
            return plan
        returned.append(outcome.known_returned)
        if outcome.counted_at is not None:
            times.append(outcome.counted_at)

    if not returned:
        return plan
    returned_at = datetime.fromtimestamp(min(times), UTC) if times else None
    return replace(plan, returned=sum(returned), returned_at=returned_at)


def count(archive: Archive, *, is_fleet: bool = False) -> ArchiveStatus:
    """Count the messages that an archive holds now. Holds the ids of the pending ones in memory.

    *is_fleet*: a message waits only for those of its own source, see ``ids.order``.
    """
    now_seconds = time.time()
    messages = read_messages(archive)
    return _counted(archive, messages, messages.pending(), now_seconds, is_fleet=is_fleet)


def _counted(
    archive: Archive,
    messages: Messages,
    pending: pa.Table,
    now_seconds: float,
    *,
    is_fleet: bool,
) -> ArchiveStatus:
    counts = Counter({PENDING: pending.num_rows})
    drains: dict[str, DrainCount] = {}
    plans: dict[str, Counter[str]] = {plan_id: Counter() for plan_id, _ in list_runs(archive)}
    numbers = messages.counts()
    for (drain_id, plan_id, state), number in numbers.items():
        if state != PENDING:
            counts[state] += number
        if plan_id:
            plans.setdefault(plan_id, Counter())[state] += number

        drain = drains.get(drain_id, DrainCount(drain_id, 0, 0))
        drains[drain_id] = DrainCount(
            drain_id=drain_id,
            messages=drain.messages + number,
            pending=drain.pending + (0 if state in DECIDED else number),
        )

    oldest_pending_at, pending_sources, rows = _pending_rows(archive, pending)
    waiting, blockers = _waiting(rows, ["source_queue"] if is_fleet else [])
    return ArchiveStatus(
        archive=archive.root,
        at=datetime.fromtimestamp(now_seconds, UTC),
        queue=None,
        messages=numbers.total(),
        counts=dict(counts),
        oldest_pending_at=oldest_pending_at,
        pending_sources=dict(pending_sources),
        drains=tuple(sorted(drains.values(), key=lambda drain: drain.drain_id)),
        plans=tuple(PlanCount(plan_id, dict(plans[plan_id])) for plan_id in sorted(plans)),
        examples=_examples(pending),
        waiting=waiting,
        blockers=blockers,
        open_runs=tuple(open_run_notes(archive)),
    )


def _pending_rows(
    archive: Archive, pending: pa.Table
) -> tuple[datetime | None, Counter[str], pa.Table]:
    """Read the rows of ``Messages.pending``, file by file.

    Returns:
        When the oldest message was sent, the numbers of messages by source queue, and ``_COLUMNS``
        of those of FIFO queues.
    """
    files: Any = pending["file"].combine_chunks()
    file_numbers = {path: number for number, path in enumerate(files.dictionary.to_pylist())}
    oldest: datetime | None = None
    sources = Counter[str]()
    tables = [ARROW_SCHEMA.empty_table().select(_COLUMNS)]
    for path, of_file in rows_by_file(archive, sorted(files.unique().to_pylist()), _COLUMNS):
        ids = pending["message_id"]
        if path in file_numbers:
            number = pa.scalar(file_numbers[path], pa.int32())
            ids = ids.filter(pc.equal(files.indices, number))
        rows = of_file.filter(is_in(of_file["message_id"], ids))

        sent_at = pc.min(pc.coalesce(rows["sent_at"], rows["drained_at"])).as_py()
        if sent_at and (oldest is None or sent_at < oldest):
            oldest = sent_at
        sources.update(_source_names(rows))
        tables.append(rows.filter(pc.is_valid(rows["sequence_number"])))

    rows = pa.concat_tables(tables)
    return oldest, sources, rows.take(first_rows(rows, "message_id", "drained_at"))


def _source_names(rows: pa.Table) -> Mapping[str, int]:
    """Count messages by the name of their source queue, "" where it is unknown."""
    sources: Any = pc.coalesce(rows["source_queue"], rows["source_arn"], pa.scalar(""))
    counts = Counter[str]()
    for value in pc.value_counts(sources).to_pylist():
        counts[value["values"].rpartition(":")[2]] += value["counts"]
    return counts


def _waiting(
    rows: pa.Table, more_columns: Sequence[str]
) -> tuple[int, tuple[BlockingMessage, ...]]:
    """Count the waiting messages of message groups, and find the first message of each group.

    *more_columns* make a group beside its id and its parked queue.
    """
    # Sequence numbers are decimal digits without leading zeros, so the longer one is greater.
    rows = rows.append_column("digits", pc.utf8_length(rows["sequence_number"]))
    order = ("digits", "sequence_number", "sent_at", "message_id")
    rows = rows.sort_by([(name, "ascending") for name in order])
    columns = ["queue_url", "message_group_id", *more_columns]
    groups = rows.group_by(columns, use_threads=False).aggregate(
        [("message_id", "first"), ("message_id", "count")]
    )

    waiting = 0
    blockers: list[BlockingMessage] = []
    for group in groups.to_pylist():
        behind = group["message_id_count"] - 1
        if behind:
            waiting += behind
            blockers.append(BlockingMessage(group["message_id_first"], behind))
    blockers.sort(key=lambda blocker: (-blocker.waiting, blocker.message_id))
    return waiting, tuple(blockers[:EXAMPLES])


def _examples(pending: pa.Table) -> dict[str, tuple[str, ...]]:
    examples = {}
    states = field_in(pending["entry"], "state")
    for state in (Disposition.UNCONFIRMED, Disposition.IN_PROGRESS):
        in_state = pending.filter(pc.equal(states, pa.scalar(str(state))))
        ids = sorted(map(str, in_state["message_id"].to_pylist()))
        if ids:
            examples[str(state)] = tuple(ids[:EXAMPLES])
    return examples
