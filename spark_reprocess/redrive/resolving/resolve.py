"""Resolves a plan: finds and counts the disposition of each of its messages. Sends nothing."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.analysis.message_table import message_table, plan_messages
from spark_reprocess.archive.group_records import read_memory
from spark_reprocess.archive.ledger.claims import chunk_count
from spark_reprocess.archive.ledger.disposition import WORK, Disposition
from spark_reprocess.archive.ledger.message_state import strongest
from spark_reprocess.archive.ledger.open_set import claimed_of_plan, read_messages
from spark_reprocess.archive.messages.frames import FILE, Held, read_some
from spark_reprocess.archive.messages.message_index import read_table_columns
from spark_reprocess.archive.messages.message_order import (
    DETAIL,
    ORDER_COLUMNS,
    PARKED_QUEUE,
    keep_groups_whole,
    limited,
    parked_queue,
    with_waiting,
)
from spark_reprocess.archive.messages.message_store import is_in
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.errors import InputError
from spark_reprocess.figures import counted
from spark_reprocess.plan.plan import Plan
from spark_reprocess.redrive.redrive_values import EXAMPLES, RedriveOptions, ResendOptions, Tally
from spark_reprocess.redrive.resolving.dispositions import (
    DESTINATION,
    has_room,
    with_chunks,
    with_dispositions,
)
from spark_reprocess.redrive.resolving.editor import Editor
from spark_reprocess.redrive.resolving.edits import with_edit_faults
from spark_reprocess.redrive.resolving.queues import SOURCE_COLUMNS, Queues
from spark_reprocess.spark.allowed_sql import condition
from spark_reprocess.spark.evaluation import evaluated, where_option

_DETAILS = 5
"""So many causes of one problem are named."""

_COLUMNS = (FILE, *ORDER_COLUMNS, *SOURCE_COLUMNS, "attributes", "body_bytes", "queue_url")
"""What decides about a message beside the plan's table. A body does not."""

_NUMBERED = (
    *(FILE, *ORDER_COLUMNS, *SOURCE_COLUMNS, "unit", "position"),
    *("group_id", "selected", "has_room", PARKED_QUEUE),
)


@dataclass(frozen=True, slots=True)
class ResolvedPlan:
    """A plan's messages and their dispositions.

    Attributes:
        messages: the archive's rows of the plan's files. Others than the plan's may be among them.
        dispositions: one row per message of the plan; see ``with_dispositions``. ``message_id`` and
            ``FILE`` name its row in *messages*.
        planned: how many messages of each group have which disposition.
        work: of those that make work the same, by the URL of their destination.
        hindered: what stands in the way of messages, with the ids of the first few.
        notes: what else the operator should know, a sentence each.
    """

    messages: DataFrame
    dispositions: Held
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
    stack: ExitStack,
) -> ResolvedPlan:
    """Resolve the plan, until *stack* is closed.

    Raises:
        InputError: the plan's messages are of several parked queues and nobody said which is meant,
            or the operator's SQL fails on one of them.
    """
    edits = plan.edits.items()
    expressions = [f"set_attributes of group {one}" for one, e in edits if e.set_attributes]
    rows = plan.snapshot.messages

    def resolving() -> ResolvedPlan:
        messages, dispositions = _dispositions(spark, archive, plan, options, queues, editor)
        held = with_chunks(Held.of(dispositions, rows, stack), chunk_count(rows))
        return resolve(messages, held, rows, options, stack, to_fifo=queues.is_fifo)

    resolved = evaluated(spark, resolving, *where_option(options.where), *expressions)
    if queues.parked is None:
        counts = resolved.dispositions.counts("disposition", PARKED_QUEUE)
        parked = {row[PARKED_QUEUE] for row in counts if row["disposition"] in WORK} - {None}
        if len(parked) > 1:
            # A message must not go to a queue only because another one's messages do.
            raise InputError(
                f"the plan has messages of {len(parked)} parked queues: "
                f"{', '.join(sorted(parked))}; say with --parked-queue-url whose messages go to "
                "the destination; the others are left"
            )
    gone = rows - sum(tally.count for tally in resolved.planned)
    are = "is" if gone == 1 else "are"
    note = f"{counted(gone, 'message')} of the plan {are} gone: erased or expired"
    return replace(resolved, notes=(note,) if gone else ())


def resolve(
    messages: DataFrame,
    held: Held,
    rows: int,
    options: ResendOptions,
    stack: ExitStack,
    *,
    to_fifo: bool,
) -> ResolvedPlan:
    """Count the dispositions of so many *rows*; let ``--limit`` of them make work."""
    if options.limit is not None:
        held = Held.of(limited(held.frame, options.limit, to_fifo=to_fifo), rows, stack)
    planned, work = Counter[tuple[str, str]](), defaultdict[str, list[Tally]](list)
    for row in held.counts("group_id", "disposition", DESTINATION):
        planned[row["group_id"], row["disposition"]] += row["count"]
        if row["disposition"] in WORK:
            tally = Tally(row["group_id"], row["disposition"], row["count"])
            work[row[DESTINATION]].append(tally)
    tallies = tuple(Tally(*of, count) for of, count in planned.items())
    return ResolvedPlan(messages, held, tallies, work, tuple(_hindered(held, tallies)))


def is_selected(messages: DataFrame, where: str | None) -> Column:
    """Whether a run's condition takes a message."""
    if where is None:
        return F.lit(True)  # noqa: FBT003 - a value
    taken = condition(messages.drop(FILE), where)
    return F.coalesce(taken, F.lit(False))  # noqa: FBT003 - a value


def _dispositions(
    spark: SparkSession,
    archive: Archive,
    plan: Plan,
    options: RedriveOptions,
    queues: Queues,
    editor: Editor,
) -> tuple[DataFrame, DataFrame]:
    """Return messages and dispositions of ``ResolvedPlan``."""
    # A condition may name any column. Without one, bodies need not be read.
    columns = None if options.where else _COLUMNS
    messages, rows = plan_messages(archive, plan, message_table(spark, archive, plan), columns)
    numbered = rows.withColumns(
        {
            "selected": is_selected(messages, options.where),
            "has_room": has_room(queues.max_message_bytes),
            PARKED_QUEUE: parked_queue(),
        }
    ).select(*_NUMBERED)
    ids = read_table_columns(archive, plan.plan_id, ["message_id"], plan.snapshot.table_sha256)
    claimed = claimed_of_plan(
        archive,
        plan.plan_id,
        wanted=lambda rows: is_in(rows["message_id"], ids["message_id"]),
    )
    dispositions = with_dispositions(
        with_edit_faults(numbered, messages, editor),
        spark.createDataFrame(strongest(claimed, "message_id")),
        plan.actions,
        queues,
        in_doubt=options.in_doubt,
        requires_room=options.requires_room,
        stopped=read_memory(archive).stopped,
    )
    if not queues.is_fifo or options.allow_reordering:
        return messages, dispositions
    if options.where is not None:
        dispositions = keep_groups_whole(dispositions)
    pending = _pending_elsewhere(archive, numbered)
    return messages, with_waiting(dispositions, pending)


def _pending_elsewhere(archive: Archive, numbered: DataFrame) -> DataFrame:
    """The archive's messages that are no part of the plan and that nobody has decided about."""
    pending = read_messages(archive).pending()
    rows = read_some(numbered.sparkSession, archive, pending, (*ORDER_COLUMNS, "queue_url"))
    return (
        rows.where(F.col("message_group_id").isNotNull())
        .join(numbered.select("message_id"), "message_id", "left_anti")
        .select(*ORDER_COLUMNS, parked_queue().alias(PARKED_QUEUE))
    )


def _hindered(dispositions: Held, planned: Iterable[Tally]) -> list[Tally]:
    """Return what stands in the way before anything is sent: each cause, and the first few ids."""
    left = Counter[str]()
    for tally in planned:
        left[tally.word] += tally.count
    words = [word for word in Disposition if word.is_problem and left[word]]
    if not words:
        return []
    of_cause = Window.partitionBy("disposition", DETAIL).orderBy("message_id")
    example = F.when(F.row_number().over(of_cause) <= EXAMPLES, F.col("message_id"))
    causes = (
        dispositions.frame.where(F.col("disposition").isin(*words))
        .select("disposition", DETAIL, example.alias("example"))
        .groupBy("disposition", DETAIL)
        .agg(F.count("*").alias("count"), F.sort_array(F.collect_list("example")).alias("examples"))
    )
    largest = Window.partitionBy("disposition").orderBy(F.desc("count"), DETAIL)
    named = causes.withColumn("rank", F.row_number().over(largest)).where(F.col("rank") <= _DETAILS)
    tallies = [
        Tally("", row["disposition"], row["count"], row[DETAIL] or "", tuple(row["examples"]))
        for row in named.orderBy("disposition", F.desc("count"), DETAIL).collect()
    ]
    for tally in tallies:
        left[tally.word] -= tally.count
    return [*tallies, *(Tally("", word, left[word]) for word in words if left[word])]
