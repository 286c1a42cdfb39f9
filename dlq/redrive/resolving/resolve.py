"""Resolves a plan: finds and counts the disposition of each of its messages. Sends nothing.

Ids, and what else the rules need, are read as Arrow tables; see ``ids`` for the rules. Only
what needs bodies is found by an engine: which messages a condition takes, and which cannot be
edited.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.group_records import read_memory
from dlq.archive.ledger.claims import chunk_count
from dlq.archive.ledger.disposition import WORK
from dlq.archive.ledger.message_state import strongest
from dlq.archive.ledger.open_set import claimed_of_plan, read_messages
from dlq.archive.messages.dead_letter_schema import ORDER_COLUMNS, READ_COLUMNS
from dlq.archive.messages.message_index import read_table_columns
from dlq.archive.messages.message_reading import DRAIN_ID, FILE, read_messages_work
from dlq.archive.messages.message_store import combined, is_in
from dlq.archive.storage.files import Archive
from dlq.engine import Engine
from dlq.errors import InputError
from dlq.figures import counted
from dlq.ids.columns import (
    DESTINATION,
    DISPOSITION,
    EDIT_FAULT,
    PARKED_QUEUE,
    SELECTED,
    SIZE_BYTES,
    arrow,
    flags,
    have_disposition,
    values_among,
    with_column,
)
from dlq.ids.counts import causes_of_problems, counted_by
from dlq.ids.dispositions import with_dispositions, with_states
from dlq.ids.limit import limited
from dlq.ids.order import has_order, keep_groups_whole, with_chunks, with_waiting
from dlq.ids.origins import ORIGIN_COLUMNS, Queues, with_origins
from dlq.ids.room import ROOM_COLUMNS, with_room
from dlq.memory import available_bytes, require_memory
from dlq.redrive.resolving.archived_rows import read_archived
from dlq.redrive.resolving.editor import Editor
from dlq.redrive.resolving.edits import edit_faults
from dlq.redrive.send_run import RedriveRun
from dlq.redrive.summary import EXAMPLES, Tally
from dlq.sql.allowed import named_columns

_PLANNED = ("message_id", "group_id", "unit", "position", FILE)
"""Columns of the plan's table."""

RULE_INPUTS = (*ORDER_COLUMNS, *ORIGIN_COLUMNS, *ROOM_COLUMNS)
"""Columns of the archive that decide about a message. A body does not."""


@dataclass(frozen=True, slots=True)
class ResolvedPlan:
    """A plan's messages and their dispositions.

    Attributes:
        dispositions: one row per message of the plan that is still in the archive, by file; see
            ``ids.columns``. ``message_id`` and ``FILE`` name its row in the archive.
        planned: how many messages of each group have which disposition.
        work: of those that make work the same, by the URL of their destination.
        work_bytes: the size of those that make work; of the destination with the most.
        blocked: the reasons for which messages cannot go, with the ids of the first few.
        notes: what else the operator should know, a sentence each.
    """

    dispositions: pa.Table
    planned: tuple[Tally, ...]
    work: Mapping[str, Sequence[Tally]]
    work_bytes: int
    blocked: tuple[Tally, ...]
    notes: tuple[str, ...] = ()


def resolved_plan(engine: Engine, run: RedriveRun) -> ResolvedPlan:
    """Resolve the plan.

    Raises:
        InputError: the plan's messages are of several parked queues and nobody said which is meant,
            or the operator's SQL fails on one of them; or their ids do not fit into memory.
    """
    messages = run.plan.snapshot.messages
    if run.request.group is not None:
        messages = _planned(run, ["group_id"]).num_rows
    require_memory_for(engine, messages)

    dispositions = dispositions_of_plan(engine, run)
    in_chunks = with_chunks(dispositions, chunk_count(messages))
    resolved = resolve(in_chunks, run.request.limit)

    if not run.queues.parked:
        _require_one_parked_queue(resolved)

    gone = messages - resolved.dispositions.num_rows
    are = "is" if gone == 1 else "are"
    note = f"{counted(gone, 'message')} of the plan {are} gone: erased or expired"
    return replace(resolved, notes=(note,) if gone else ())


def require_memory_for(engine: Engine, messages: int) -> None:
    """Refuse to read the ids of this number of messages if they do not fit beside the engine.

    Raises:
        InputError: they do not fit.
    """
    require_memory(messages, available_bytes(engine.reserved_bytes))


def _require_one_parked_queue(resolved: ResolvedPlan) -> None:
    """Refuse work of several parked queues.

    A message must not go to a queue only because another one's messages do.
    """
    counts = counted_by(resolved.dispositions, DISPOSITION, PARKED_QUEUE)
    parked = {row[PARKED_QUEUE] for row in counts if row[DISPOSITION] in WORK} - {None}
    if len(parked) > 1:
        raise InputError(
            f"the plan has messages of {len(parked)} parked queues: "
            f"{', '.join(sorted(parked))}; say with --parked-queue-url whose messages go to "
            "the destination; the others are left"
        )


def resolve(rows: pa.Table, limit: int | None) -> ResolvedPlan:
    """Count the dispositions of *rows*, which are in chunks; let *limit* of them make work."""
    if limit is not None:
        rows = limited(rows, limit)
    planned = Counter[tuple[str, str]]()
    work = defaultdict[str, list[Tally]](list)
    for row in counted_by(rows, "group_id", DISPOSITION, DESTINATION):
        planned[row["group_id"], row[DISPOSITION]] += row["count"]
        if row[DISPOSITION] in WORK:
            tally = Tally(row["group_id"], row[DISPOSITION], row["count"])
            work[row[DESTINATION]].append(tally)

    tallies: list[Tally] = []
    for (group_id, disposition), count in planned.items():
        tallies.append(Tally(group_id, disposition, count))

    blocked: list[Tally] = []
    for cause in causes_of_problems(rows, EXAMPLES):
        tally = Tally("", cause.disposition, cause.number, cause.detail, cause.examples)
        blocked.append(tally)

    return ResolvedPlan(
        dispositions=rows,
        planned=tuple(tallies),
        work=work,
        work_bytes=_work_bytes(rows),
        blocked=tuple(blocked),
    )


def _work_bytes(rows: pa.Table) -> int:
    is_work = arrow(have_disposition(rows, WORK))
    work = rows.select([DESTINATION, SIZE_BYTES]).filter(is_work)
    sums = work.group_by(DESTINATION).aggregate([(SIZE_BYTES, "sum")])
    return int(pc.max(sums[f"{SIZE_BYTES}_sum"]).as_py() or 0)


def with_selection(engine: Engine, archive: Archive, rows: pa.Table, where: str | None) -> pa.Table:
    """Add ``SELECTED``: whether a run's condition takes the message.

    No more columns are read than the condition names: bodies are large.
    """
    if where is None:
        return with_column(rows, SELECTED, pa.array(np.ones(rows.num_rows, dtype=np.bool_)))
    needed = {"message_id", *named_columns(where, READ_COLUMNS)}
    columns = [name for name in READ_COLUMNS if name in needed and name != DRAIN_ID]
    work = read_messages_work(archive, rows, columns, engine.slots)
    taken = engine.run_where(work, where, ["message_id"])
    return with_column(rows, SELECTED, is_in(rows["message_id"], taken["message_id"]))


def read_rows(archive: Archive, wanted: pa.Table, queues: Queues) -> pa.Table:
    """Read what decides about the *wanted* messages; see ``read_archived``."""

    def reduced(rows: pa.Table) -> pa.Table:
        with_queues = with_origins(rows, queues)
        return with_room(with_queues, queues.sizes_for(with_queues))

    return read_archived(archive, wanted, RULE_INPUTS, reduced)


def dispositions_of_plan(engine: Engine, run: RedriveRun) -> pa.Table:
    """Return the dispositions of ``ResolvedPlan``, without chunks.

    The *engine* has nothing to do where there is neither a condition nor an edit.
    """
    archive = run.archive
    request = run.request
    queues = run.queues
    table = _planned(run, _PLANNED)
    rows = read_rows(archive, table, queues)
    del table
    rows = with_selection(engine, archive, rows, request.where)
    rows = with_column(rows, EDIT_FAULT, _edit_faults(engine, archive, rows, run.editor))
    rows = with_states(rows, _states(archive, run.plan_id, rows["message_id"]))

    dispositions = with_dispositions(
        rows,
        run.plan.actions,
        unconfirmed=request.unconfirmed,
        # A ramp counts only what names its plan when it fails again.
        requires_room=request.requires_room or bool(run.probes),
        halted=read_memory(archive).halted,
    )
    if request.allow_reordering or not has_order(dispositions):
        return dispositions
    if request.where is not None or request.queue is not None:
        dispositions = keep_groups_whole(dispositions)
    elsewhere = _pending_elsewhere(engine, archive, rows["message_id"], queues)
    return with_waiting(dispositions, elsewhere)


def _planned(run: RedriveRun, columns: Sequence[str]) -> pa.Table:
    """Read *columns* of the plan's table, ``group_id`` among them: those of a run of one group."""
    table_sha256 = run.plan.snapshot.table_sha256
    table = read_table_columns(run.archive, run.plan_id, columns, table_sha256)
    if run.request.group is None:
        return table
    return table.filter(arrow(values_among(table["group_id"], run.plan.actions)))


def _edit_faults(engine: Engine, archive: Archive, rows: pa.Table, editor: Editor) -> Any:  # noqa: ANN401 - an Arrow column
    """Return why each message cannot be edited; null if it can, or is not to be."""
    if not editor.edits:
        return pa.nulls(rows.num_rows, pa.string())
    is_edited = flags(rows[SELECTED]) & values_among(rows["group_id"], editor.edits)
    edited = rows.select(["message_id", FILE, "group_id"]).filter(pa.array(is_edited))
    faults = edit_faults(engine, archive, edited, editor)
    places = pc.index_in(rows["message_id"], value_set=combined(faults["message_id"]))
    return faults[EDIT_FAULT].take(places)


def _states(
    archive: Archive,
    plan_id: str,
    message_ids: Any,  # noqa: ANN401 - an Arrow column
) -> pa.Table:
    """Read what the ledgers say of these messages: ``message_id, state``."""
    claimed = claimed_of_plan(
        archive,
        plan_id,
        wanted=lambda claims: is_in(claims["message_id"], message_ids),
    )
    return strongest(claimed, "message_id")


def _pending_elsewhere(
    engine: Engine,
    archive: Archive,
    message_ids: Any,  # noqa: ANN401 - an Arrow column
    queues: Queues,
) -> pa.Table:
    """Read the archive's other pending messages with a message group. Raises InputError."""
    pending = read_messages(archive).pending()
    pending = pending.select(["message_id", FILE])
    pending = pending.filter(pc.invert(is_in(pending["message_id"], message_ids)))
    require_memory_for(engine, pending.num_rows)
    columns = (*ORDER_COLUMNS, *ORIGIN_COLUMNS)
    rows = read_archived(archive, pending, columns, partial(with_origins, queues=queues))
    return rows.filter(pc.is_valid(rows["message_group_id"]))
