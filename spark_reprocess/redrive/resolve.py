"""Resolves a plan: finds and counts the disposition of each of its messages. Sends nothing."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.analysis.message_table import message_table
from spark_reprocess.archive.disposition import DECIDED, WORK, Disposition
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger_states import ledger_states
from spark_reprocess.archive.message_store import drain_ids
from spark_reprocess.archive.reading import archive_rows
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Plan
from spark_reprocess.plan.reading import plan_faults
from spark_reprocess.progress import Progress
from spark_reprocess.redrive.dispositions import (
    DESTINATION,
    ORDER_COLUMNS,
    PARKED_QUEUE,
    Queues,
    parked_queue,
    with_dispositions,
    with_waiting,
)
from spark_reprocess.redrive.edits import FAULT, Editor, with_edit_faults
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
        work: of those that make work the same, by the URL of their destination.
        hindered: what stands in the way of messages, with the ids of the first few.
        notes: what else the operator should know, a sentence each.
    """

    messages: DataFrame
    dispositions: DataFrame
    planned: tuple[Tally, ...]
    work: Mapping[str, Sequence[Tally]]
    hindered: tuple[Tally, ...]
    notes: tuple[str, ...]

    @property
    def spark(self) -> SparkSession:
        """The session that holds them."""
        return self.messages.sparkSession

    def counts(self, word: str) -> dict[str, int]:
        """How many messages of each group have this disposition."""
        return {tally.group_id: tally.count for tally in self.planned if tally.word == word}


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
            columns = ("group_id", "disposition", DESTINATION, PARKED_QUEUE)
            counts = dispositions.groupBy(*columns).count().collect()
            _require_one_parked_queue(counts, queues)
            planned = tuple(_tallies(counts))
            # A group that was erased as a whole is named in the plan and has no message.
            if not frozen.notes:
                _require_known_groups(plan, planned)
            problems = (*hindered(dispositions, planned), *_unedited(dispositions, planned))
        yield ResolvedPlan(
            frozen.rows, dispositions, planned, _work(counts), problems, frozen.notes
        )


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


def _require_one_parked_queue(counts: Sequence[Row], queues: Queues) -> None:
    """A message must not go to a queue only because another one's messages do."""
    if queues.parked is not None:
        return
    work = [row for row in counts if row["disposition"] in WORK]
    found = sorted({row[PARKED_QUEUE] for row in work} - {None})
    if len(found) > 1:
        raise InputError(
            f"the plan has messages of {len(found)} parked queues: {', '.join(found)}; say with "
            "--parked-queue-url whose messages go to the destination; the others are left"
        )


def _require_known_groups(plan: Plan, planned: Iterable[Tally]) -> None:
    known = {tally.group_id for tally in planned}
    unknown = {g: "is not in the plan's snapshot" for g in plan.actions if g not in known}
    if unknown:
        raise InputError(plan_faults(plan, unknown))


def _tallies(counts: Iterable[Row]) -> Iterator[Tally]:
    """Add up the counts by group and disposition."""
    found = Counter[tuple[str, str]]()
    for row in counts:
        found[row["group_id"], row["disposition"]] += row["count"]
    return (Tally(group_id, word, count) for (group_id, word), count in found.items())


def _work(counts: Iterable[Row]) -> dict[str, list[Tally]]:
    rows = defaultdict[str, list[Row]](list)
    for row in counts:
        if row["disposition"] in WORK:
            rows[row[DESTINATION]].append(row)
    return {url: list(_tallies(of_url)) for url, of_url in rows.items()}


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
