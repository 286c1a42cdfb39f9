"""A plan's messages: its table, joined with the archive and checked against what it froze."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.erasures import ErasedOfPlan, erased_of, erasures
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_store import (
    FILE,
    column_texts,
    message_set,
    read_archive,
    read_rows,
)
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Plan
from spark_reprocess.redrive.dispositions import (
    DETAIL,
    ORDER_COLUMNS,
    PARKED_QUEUE,
    POSITION,
    SOURCE_COLUMNS,
    has_room,
    parked_queue,
    with_chunks,
)
from spark_reprocess.redrive.redrive_values import EXAMPLES, Tally
from spark_reprocess.spark.conditions import matching

_DETAILS = 4
"""So many causes of one hindrance are named."""


_RESOLVING_COLUMNS = (*ORDER_COLUMNS, *SOURCE_COLUMNS, "attributes", "body_bytes", "queue_url")
"""What decides about a message beside the plan's table. A body does not."""


@dataclass(frozen=True, slots=True)
class PlanMessages:
    """The messages that a plan froze, but for those that were erased since.

    Attributes:
        plan: the one that froze them.
        rows: of its drains, as they are in the archive. Others than the plan's may be among them.
        numbered: ``ORDER_COLUMNS``, ``SOURCE_COLUMNS``, ``PARKED_QUEUE``, ``has_room``,
            ``group_id`` and ``POSITION`` of each message, as long as ``check`` does not object.
        erased: the ids of those that are gone.
        notes: who erased how many, a sentence each.
    """

    plan: Plan
    rows: DataFrame
    numbered: DataFrame
    erased: tuple[str, ...]
    notes: tuple[str, ...]

    def selected(self, where: str | None) -> DataFrame:
        """Add to ``numbered`` the column ``selected``: whether *where* takes the message.

        Raises:
            InputError: *where* is no condition over the archive's columns.
        """
        if where is None:
            return self.numbered.withColumn("selected", F.lit(True))  # noqa: FBT003 - a value
        rows = self.rows
        if self.plan.snapshot.where is not None:
            # A condition that fails on a message of others is no reason to stop.
            rows = rows.join(self.numbered.select("message_id"), "message_id", "left_semi")
        chosen = matching(rows, where).select("message_id", F.lit(True).alias("selected"))  # noqa: FBT003
        joined = self.numbered.join(chosen, on="message_id", how="left")
        return joined.withColumn("selected", F.col("selected").isNotNull())

    def check(self, ids: DataFrame) -> bool:
        """Hold *ids*, which has the ``message_id`` of each row, against what the plan froze.

        Returns:
            Whether each message has one row.

        Raises:
            InputError: the archive does not hold that set any more, or never did, and erasing does
                not explain it.
        """
        ids = ids.select("message_id")
        if self.erased:
            ids = ids.union(_ids(ids.sparkSession, self.erased))
        found, snapshot = message_set(ids), self.plan.snapshot
        if (found.messages, found.sha256) != (snapshot.messages, snapshot.sha256):
            raise InputError(
                f"plan {self.plan.plan_id}: its drains hold {found.messages - len(self.erased)} "
                f"messages, not the {snapshot.messages} that it froze, or others; the archive has "
                "changed since or is another one: analyze again"
            )
        return found.rows == found.messages


def plan_messages(
    archive: Archive, plan: Plan, table: DataFrame, max_message_bytes: int, *, each_once: bool
) -> PlanMessages:
    """Join a plan's *table* with the archive. Looks only at messages that were erased.

    Args:
        archive: which holds the messages.
        plan: the plan.
        table: see ``message_table``.
        max_message_bytes: within which a message ``has_room`` for counter and context.
        each_once: whether a message that a crash left in two files comes once. This looks at all
            ids first.

    Raises:
        InputError: the archive lacks one of the plan's drains.
    """
    spark, drains = table.sparkSession, plan.snapshot.drain_ids
    if each_once:
        rows = read_archive(spark, archive, drains)
        columns = rows.select(*_RESOLVING_COLUMNS)
    else:
        rows, columns = read_rows(spark, archive, drains, _RESOLVING_COLUMNS)
        rows = rows.drop(FILE)
    # All messages of its drains are the plan's if it has no condition: ``check`` wants to see them.
    how = "left" if plan.snapshot.where is None else "inner"
    places = with_chunks(table.select("message_id", "group_id", "unit", "position"))
    numbered = (
        columns.withColumns({"has_room": has_room(max_message_bytes), PARKED_QUEUE: parked_queue()})
        .drop("attributes", "body_bytes", "queue_url")
        .join(places, on="message_id", how=how)
    )
    gone = _erased_since(archive, plan, table, columns)
    erased = [message_id for one in gone for message_id in one.message_ids]
    notes = tuple(one.sentence for one in gone)
    return PlanMessages(plan, rows, numbered, tuple(erased), notes)


def _erased_since(
    archive: Archive, plan: Plan, table: DataFrame, rows: DataFrame
) -> list[ErasedOfPlan]:
    """Who erased which of the plan's messages. Brings those ids alone to the driver."""
    erased = {message_id for one in erasures(archive) for message_id in one.drains}
    if not erased:
        return []
    ids = F.broadcast(_ids(table.sparkSession, sorted(erased)))
    found = column_texts(rows.select("message_id").join(ids, "message_id", "left_semi"))
    frozen = None
    if plan.snapshot.table_sha256 is not None:
        frozen = column_texts(table.select("message_id").join(ids, "message_id", "left_semi"))
    snapshot = plan.snapshot
    return erased_of(archive, plan.plan_id, snapshot.drain_ids, snapshot.where, found, frozen)


def _ids(spark: SparkSession, message_ids: Sequence[str]) -> DataFrame:
    return spark.createDataFrame(pa.table({"message_id": pa.array(message_ids, pa.string())}))


def hindered(dispositions: DataFrame, planned: Iterable[Tally]) -> list[Tally]:
    """Say what stands in the way before anything is sent: causes, and the ids of the first few."""
    counts = Counter[str]()
    for tally in planned:
        counts[tally.word] += tally.count
    return [
        Tally(
            "", word, counts[word], *_hindered_by(dispositions.where(F.col("disposition") == word))
        )
        for word in Disposition
        if word.is_problem and word is not Disposition.EDIT_FAILED and counts[word]
    ]


def _hindered_by(rows: DataFrame) -> tuple[str, tuple[str, ...]]:
    causes = rows.where(F.col(DETAIL).isNotNull()).groupBy(DETAIL).count()
    found = causes.orderBy(F.desc("count"), DETAIL).limit(_DETAILS + 1).collect()
    named = [f"{row[DETAIL]} ({row['count']:,})" for row in found[:_DETAILS]]
    more = ["…"] if len(found) > _DETAILS else []
    ids = column_texts(rows.orderBy(*POSITION).select("message_id").limit(EXAMPLES))
    return ", ".join([*named, *more]), tuple(ids)
