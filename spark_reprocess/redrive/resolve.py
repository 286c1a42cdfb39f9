"""Resolves a plan: finds and counts the disposition of each of its messages. Sends nothing."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.analysis.message_table import message_table
from spark_reprocess.archive.disposition import DECIDED, WORK, Disposition
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger_states import ledger_states
from spark_reprocess.archive.message_store import column_texts, drain_ids
from spark_reprocess.archive.reading import archive_rows
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Plan
from spark_reprocess.plan.reading import plan_faults
from spark_reprocess.progress import Progress
from spark_reprocess.redrive.dispositions import (
    ORDER_COLUMNS,
    PARKED_QUEUE,
    Queues,
    parked_queue,
    with_dispositions,
    with_waiting,
)
from spark_reprocess.redrive.edited_rows import FAULT, first_rows, with_edit_faults
from spark_reprocess.redrive.editor import Editor
from spark_reprocess.redrive.plan_messages import (
    PlanMessages,
    hindered,
    plan_messages,
)
from spark_reprocess.redrive.redrive_values import EXAMPLES, RedriveOptions, Tally
from spark_reprocess.redrive.row_limits import keep_groups_whole, limited
from spark_reprocess.spark.conditions import explained


@dataclass(frozen=True, slots=True)
class ResolvedPlan:
    """A plan's messages and their dispositions.

    Attributes:
        messages: the archive's rows of the plan's drains, one for each message. Others than the
            plan's may be among them; ``dispositions`` has none of those.
        dispositions: one row per message; see ``with_dispositions``. Persisted.
        planned: how many messages of each group have which disposition.
        hindered: what stands in the way of messages, with the ids of the first few.
        notes: what else the operator should know, a sentence each.
    """

    messages: DataFrame
    dispositions: DataFrame
    planned: tuple[Tally, ...]
    hindered: tuple[Tally, ...]
    notes: tuple[str, ...]

    @property
    def spark(self) -> SparkSession:
        """The session that holds them."""
        return self.messages.sparkSession

    def counts(self, word: str) -> dict[str, int]:
        """How many messages of each group have this disposition."""
        return {tally.group_id: tally.count for tally in self.planned if tally.word == word}

    def first_edited(self, editor: Editor, count: int) -> list[dict[str, Any]]:
        """The first *count* rows that are to be sent of each group with an edit."""
        return (
            first_rows(self.messages, self.dispositions, editor.edits, count)
            if editor.edits
            else []
        )


@contextmanager
def resolved_plan(
    spark: SparkSession,
    archive: Archive,
    plan: Plan,
    options: RedriveOptions,
    queues: Queues,
    editor: Editor,
    progress: Progress,
) -> Iterator[ResolvedPlan]:
    """Resolve the plan, for as long as the block lasts.

    Raises:
        InputError: the archive does not hold the plan's messages, the plan names a group that they
            do not have, they are of several parked queues and nobody said which is meant, or the
            operator's SQL fails on one of them.
    """
    with ExitStack() as stack:
        with progress("resolving each message", str), explained(options.where, _expressions(plan)):
            frozen, dispositions = _resolve(spark, archive, plan, options, queues, editor)
            stack.callback(dispositions.unpersist)
            _require_one_parked_queue(dispositions, queues)
            # A group that was erased as a whole is named in the plan and has no message.
            planned = _counted(dispositions) if frozen.notes else _planned(plan, dispositions)
            problems = (*hindered(dispositions, planned), *_unedited(dispositions, planned))
        yield ResolvedPlan(frozen.rows, dispositions, planned, problems, frozen.notes)


def _resolve(
    spark: SparkSession,
    archive: Archive,
    plan: Plan,
    options: RedriveOptions,
    queues: Queues,
    editor: Editor,
) -> tuple[PlanMessages, DataFrame]:
    """Return the plan's messages, and the disposition of each, persisted.

    The same pass checks whether the archive holds exactly the plan's messages. Only after a crash
    a message has several rows; then one of them is chosen, and the pass is repeated.
    """
    table = message_table(spark, archive, plan, saves=options.execute).persist()

    def attempt(*, each_once: bool) -> tuple[PlanMessages, DataFrame, bool]:
        frozen = plan_messages(archive, plan, table, queues.room_bytes, each_once=each_once)
        dispositions = _dispositions(frozen, archive, options, queues, editor).persist()
        try:
            return frozen, dispositions, frozen.check(dispositions)
        except BaseException:
            dispositions.unpersist()
            raise

    try:
        frozen, dispositions, is_settled = attempt(each_once=False)
        if not is_settled:
            dispositions.unpersist()
            frozen, dispositions, _ = attempt(each_once=True)
    finally:
        table.unpersist()
    return frozen, dispositions


def _expressions(plan: Plan) -> list[str]:
    where = plan.snapshot.where
    return [
        *([] if where is None else [f"the plan's where {where!r}"]),
        *(f"set_attributes of group {g}" for g, edit in plan.edits.items() if edit.set_attributes),
    ]


def _dispositions(
    frozen: PlanMessages, archive: Archive, options: RedriveOptions, queues: Queues, editor: Editor
) -> DataFrame:
    plan, spark, ttl = frozen.plan, frozen.rows.sparkSession, options.claim_ttl_seconds
    numbered = frozen.selected(options.where)
    states = ledger_states(spark, archive, time.time(), ttl).select("message_id", "state")
    dispositions = with_dispositions(
        with_edit_faults(numbered, frozen.rows, editor),
        states,
        plan.actions,
        queues,
        send_in_doubt=options.send_in_doubt,
        requires_room=options.requires_room,
    )
    if queues.is_fifo and not options.allow_reordering:
        if options.where is not None:
            dispositions = keep_groups_whole(dispositions)
        dispositions = with_waiting(
            dispositions, _undecided_elsewhere(archive, plan, numbered, states)
        )
    return (
        dispositions
        if options.limit is None
        else limited(dispositions, options.limit, to_fifo=queues.is_fifo)
    )


def _undecided_elsewhere(
    archive: Archive, plan: Plan, numbered: DataFrame, states: DataFrame
) -> DataFrame | None:
    """The archive's messages that are no part of the plan and that nobody has decided about."""
    drains = drain_ids(archive)
    if plan.snapshot.where is None and set(drains) <= set(plan.snapshot.drain_ids):
        return None
    rows = archive_rows(numbered.sparkSession, archive, drains, (*ORDER_COLUMNS, "queue_url"))
    decided = states.where(F.col("state").isin(*DECIDED))
    return (
        rows.where(F.col("message_group_id").isNotNull())
        .join(numbered.select("message_id"), "message_id", "left_anti")
        .join(decided, "message_id", "left_anti")
        .select(*ORDER_COLUMNS, parked_queue().alias(PARKED_QUEUE))
    )


def _require_one_parked_queue(dispositions: DataFrame, queues: Queues) -> None:
    """A message must not go to a queue only because another one's messages do."""
    if queues.parked is not None:
        return
    work = dispositions.where(F.col("disposition").isin(*WORK) & F.col(PARKED_QUEUE).isNotNull())
    found = sorted(column_texts(work.select(PARKED_QUEUE).distinct()))
    if len(found) > 1:
        raise InputError(
            f"the plan has messages of {len(found)} parked queues: {', '.join(found)}; say with "
            "--parked-queue-url whose messages go to the destination; the others are left"
        )


def _planned(plan: Plan, dispositions: DataFrame) -> tuple[Tally, ...]:
    planned = _counted(dispositions)
    known = {tally.group_id for tally in planned}
    unknown = {g: "is not in the plan's snapshot" for g in plan.actions if g not in known}
    if unknown:
        raise InputError(plan_faults(plan, unknown))
    return planned


def _counted(dispositions: DataFrame) -> tuple[Tally, ...]:
    rows = dispositions.groupBy("group_id", "disposition").count().collect()
    return tuple(Tally(row["group_id"], row["disposition"], row["count"]) for row in rows)


def _unedited(dispositions: DataFrame, planned: Sequence[Tally]) -> list[Tally]:
    """Messages that their group's edit does not fit, by the reason."""
    if not any(tally.word == Disposition.EDIT_FAILED for tally in planned):
        return []
    some = F.slice(F.sort_array(F.collect_list("message_id")), 1, EXAMPLES)
    rows = (
        dispositions.where(F.col("disposition") == Disposition.EDIT_FAILED)
        .groupBy(FAULT)
        .agg(F.count("*").alias("count"), some.alias("examples"))
        .orderBy(F.desc("count"), FAULT)
        .collect()
    )
    return [
        Tally("", Disposition.EDIT_FAILED, row["count"], row[FAULT], tuple(row["examples"]))
        for row in rows
    ]
