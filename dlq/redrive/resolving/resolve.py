"""Resolves a plan: finds and counts the disposition of each of its messages. Sends nothing.

Ids, and what else the rules need, are read into the driver as Arrow tables; see ``redrive.ids`` for
the rules. Only what needs bodies is found by Spark: which messages a condition takes, and which
cannot be edited.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from dlq.archive.group_records import read_memory
from dlq.archive.ledger.claims import chunk_count
from dlq.archive.ledger.disposition import WORK
from dlq.archive.ledger.message_state import strongest
from dlq.archive.ledger.open_set import claimed_of_plan, read_messages
from dlq.archive.messages.dead_letter_schema import ORDER_COLUMNS
from dlq.archive.messages.frames import read_some, tuned
from dlq.archive.messages.message_index import read_table_columns
from dlq.archive.messages.message_store import is_in
from dlq.archive.storage.files import Archive
from dlq.errors import InputError
from dlq.figures import counted
from dlq.memory import available_bytes, require_memory
from dlq.plan.plan import Plan
from dlq.redrive.ids.columns import (
    DESTINATION,
    DISPOSITION,
    EDIT_FAULT,
    PARKED_QUEUE,
    SELECTED,
    flags,
    texts_of,
    values_among,
    with_column,
)
from dlq.redrive.ids.counts import causes_of_problems, counted_by
from dlq.redrive.ids.dispositions import with_dispositions, with_states
from dlq.redrive.ids.limit import limited
from dlq.redrive.ids.order import keep_groups_whole, with_chunks, with_waiting
from dlq.redrive.ids.origins import (
    ORIGIN_COLUMNS,
    Queues,
    with_origins,
    with_parked_queue,
)
from dlq.redrive.ids.room import ROOM_COLUMNS, with_room
from dlq.redrive.redrive_values import EXAMPLES, RedriveOptions, ResendOptions, Tally
from dlq.redrive.resolving.archived_rows import FILE, read_archived
from dlq.redrive.resolving.editor import Editor
from dlq.redrive.resolving.edits import edit_faults
from spark_reprocess.allowed_sql import condition
from spark_reprocess.evaluation import evaluated, to_arrow, where_option

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
        hindered: what stands in the way of messages, with the ids of the first few.
        notes: what else the operator should know, a sentence each.
    """

    dispositions: pa.Table
    planned: tuple[Tally, ...]
    work: Mapping[str, Sequence[Tally]]
    hindered: tuple[Tally, ...]
    notes: tuple[str, ...] = ()


def resolved_plan(
    spark: SparkSession,
    archive: Archive,
    plan: Plan,
    options: RedriveOptions,
    queues: Queues,
    editor: Editor,
) -> ResolvedPlan:
    """Resolve the plan.

    Raises:
        InputError: the plan's messages are of several parked queues and nobody said which is meant,
            or the operator's SQL fails on one of them; or their ids do not fit into memory.
    """
    require_memory_for(spark, plan.snapshot.messages)
    edits = plan.edits.items()
    expressions = [f"set_attributes of group {one}" for one, e in edits if e.set_attributes]
    messages = plan.snapshot.messages

    def resolving() -> ResolvedPlan:
        dispositions = dispositions_of_plan(spark, archive, plan, options, queues, editor)
        in_chunks = with_chunks(dispositions, chunk_count(messages))
        return resolve(in_chunks, options, to_fifo=queues.is_fifo)

    resolved = evaluated(spark, resolving, *where_option(options.where), *expressions)
    tuned(spark, texts_of(resolved.dispositions[FILE].unique()))
    if queues.parked is None:
        _require_one_parked_queue(resolved)
    gone = messages - resolved.dispositions.num_rows
    are = "is" if gone == 1 else "are"
    note = f"{counted(gone, 'message')} of the plan {are} gone: erased or expired"
    return replace(resolved, notes=(note,) if gone else ())


def require_memory_for(spark: SparkSession, messages: int) -> None:
    """Refuse to read so many messages' ids where they do not fit beside Spark's JVM.

    Raises:
        InputError: they do not fit.
    """
    java: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no public question
    runtime: Any = java.java.lang.Runtime.getRuntime()
    heap_may_grow_bytes = runtime.maxMemory() - runtime.totalMemory()
    require_memory(messages, available_bytes(heap_may_grow_bytes))


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


def resolve(rows: pa.Table, options: ResendOptions, *, to_fifo: bool) -> ResolvedPlan:
    """Count the dispositions of *rows*, which are in chunks; let ``--limit`` of them make work."""
    if options.limit is not None:
        rows = limited(rows, options.limit, to_fifo=to_fifo)
    planned = Counter[tuple[str, str]]()
    work = defaultdict[str, list[Tally]](list)
    for row in counted_by(rows, "group_id", DISPOSITION, DESTINATION):
        planned[row["group_id"], row[DISPOSITION]] += row["count"]
        if row[DISPOSITION] in WORK:
            tally = Tally(row["group_id"], row[DISPOSITION], row["count"])
            work[row[DESTINATION]].append(tally)
    return ResolvedPlan(
        dispositions=rows,
        planned=tuple(Tally(*of, count) for of, count in planned.items()),
        work=work,
        hindered=tuple(
            Tally("", cause.disposition, cause.number, cause.detail, cause.examples)
            for cause in causes_of_problems(rows, EXAMPLES)
        ),
    )


def with_selection(
    spark: SparkSession, archive: Archive, rows: pa.Table, where: str | None
) -> pa.Table:
    """Add ``SELECTED``: whether a run's condition takes the message. Spark evaluates it."""
    if where is None:
        return with_column(rows, SELECTED, pa.array(np.ones(rows.num_rows, dtype=np.bool_)))
    tuned(spark, texts_of(rows[FILE].unique()))
    messages = read_some(spark, archive, rows)
    taken = messages.where(condition(messages.drop(FILE), where)).select("message_id")
    return with_column(rows, SELECTED, is_in(rows["message_id"], to_arrow(taken)["message_id"]))


def read_rows(archive: Archive, wanted: pa.Table, queues: Queues) -> pa.Table:
    """Read what decides about the *wanted* messages; see ``read_archived``."""

    def reduced(rows: pa.Table) -> pa.Table:
        return with_room(with_origins(rows, queues), queues.max_message_bytes)

    return read_archived(archive, wanted, RULE_INPUTS, reduced)


def dispositions_of_plan(
    spark: SparkSession,
    archive: Archive,
    plan: Plan,
    options: RedriveOptions,
    queues: Queues,
    editor: Editor,
) -> pa.Table:
    """Return the dispositions of ``ResolvedPlan``, without chunks.

    Nothing is asked of *spark* where there is neither a condition nor an edit.
    """
    table = read_table_columns(archive, plan.plan_id, _PLANNED, plan.snapshot.table_sha256)
    rows = read_rows(archive, table, queues)
    del table
    rows = with_selection(spark, archive, rows, options.where)
    rows = with_column(rows, EDIT_FAULT, _edit_faults(spark, archive, rows, editor))
    rows = with_states(rows, _states(archive, plan, rows["message_id"]))

    dispositions = with_dispositions(
        rows,
        plan.actions,
        to_fifo=queues.is_fifo,
        in_doubt=options.in_doubt,
        requires_room=options.requires_room,
        stopped=read_memory(archive).stopped,
    )
    if not queues.is_fifo or options.allow_reordering:
        return dispositions
    if options.where is not None:
        dispositions = keep_groups_whole(dispositions)
    return with_waiting(dispositions, _pending_elsewhere(archive, rows["message_id"]))


def _edit_faults(spark: SparkSession, archive: Archive, rows: pa.Table, editor: Editor) -> Any:  # noqa: ANN401 - an Arrow column
    """Return why each message cannot be edited; null if it can, or is not to be."""
    if not editor.edits:
        return pa.nulls(rows.num_rows, pa.string())
    is_edited = flags(rows[SELECTED]) & values_among(rows["group_id"], editor.edits)
    edited = rows.select(["message_id", FILE, "group_id"]).filter(pa.array(is_edited))
    tuned(spark, texts_of(edited[FILE].unique()))
    faults = edit_faults(spark, archive, edited, editor)
    places = pc.index_in(rows["message_id"], value_set=faults["message_id"].combine_chunks())
    return faults[EDIT_FAULT].take(places)


def _states(
    archive: Archive,
    plan: Plan,
    message_ids: Any,  # noqa: ANN401 - an Arrow column
) -> pa.Table:
    """Read what the ledgers say of these messages: ``message_id, state``."""
    claimed = claimed_of_plan(
        archive,
        plan.plan_id,
        wanted=lambda claims: is_in(claims["message_id"], message_ids),
    )
    return strongest(claimed, "message_id")


def _pending_elsewhere(
    archive: Archive,
    message_ids: Any,  # noqa: ANN401 - an Arrow column
) -> pa.Table:
    """Read the archive's pending messages with a message group that are no part of the plan."""
    pending = read_messages(archive).pending()
    pending = pending.select(["message_id", FILE])
    pending = pending.filter(pc.invert(is_in(pending["message_id"], message_ids)))
    columns = (*ORDER_COLUMNS, "queue_url")
    rows = read_archived(archive, pending, columns, with_parked_queue)
    return rows.filter(pc.is_valid(rows["message_group_id"]))
