"""A plan's messages: the frozen set, checked against the archive, and the fate of each."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.analysis.grouping import with_groups
from spark_reprocess.archive.erasures import ErasedOfPlan, erased_of
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_set import message_set
from spark_reprocess.archive.message_store import column_texts
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Plan
from spark_reprocess.redrive.redrive_values import EXAMPLES, HINDERED, Tally
from spark_reprocess.redrive.selection import (
    DETAIL,
    ORDER_COLUMNS,
    PARKED_QUEUE,
    POSITION,
    SOURCE_COLUMNS,
    WORK,
    has_room,
    parked_queue,
)
from spark_reprocess.spark.allowed_sql import Place
from spark_reprocess.spark.conditions import matching

_DETAILS = 4
"""So many causes of one hindrance are named."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """The messages that a plan froze, but for those that were erased since.

    Attributes:
        plan: the one that froze them.
        messages: their rows, as long as ``check`` does not say otherwise.
        erased: the ids of those that are gone.
        notes: who erased how many, a sentence each.
    """

    plan: Plan
    messages: DataFrame
    erased: tuple[str, ...]
    notes: tuple[str, ...]

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


def frozen_messages(archive: Archive, plan: Plan, rows: DataFrame) -> Frozen:
    """Choose among the *rows* of the plan's drains those of the messages that it froze."""
    messages = matching(rows, plan.snapshot.where, Place.PLAN_WHERE)
    gone = _erased_since(archive, plan, messages)
    erased = [message_id for one in gone for message_id in one.message_ids]
    return Frozen(plan, messages, tuple(erased), tuple(one.sentence for one in gone))


def _erased_since(archive: Archive, plan: Plan, messages: DataFrame) -> list[ErasedOfPlan]:
    """Who erased which of the plan's messages. Brings those ids alone to the driver."""
    of_plan = (archive, plan.plan_id, plan.snapshot.drain_ids, plan.snapshot.where)
    erased = [message_id for one in erased_of(*of_plan, ()) for message_id in one.message_ids]
    if not erased:
        return []
    ids = F.broadcast(_ids(messages.sparkSession, erased))
    still_there = column_texts(messages.select("message_id").join(ids, "message_id", "left_semi"))
    return erased_of(*of_plan, still_there)


def _ids(spark: SparkSession, message_ids: Sequence[str]) -> DataFrame:
    return spark.createDataFrame(pa.table({"message_id": pa.array(message_ids, pa.string())}))


def grouped_messages(messages: DataFrame, where: str | None, max_message_bytes: int) -> DataFrame:
    """Keep what a plan needs of each message; add its group, and whether *where* selects it.

    ``has_room`` says whether it can carry counter and context within *max_message_bytes*.

    Raises:
        InputError: *where* is no condition over the archive's columns.
    """
    derived = {"has_room": has_room(max_message_bytes), PARKED_QUEUE: parked_queue()}
    slim = with_groups(messages.withColumns(derived), (*ORDER_COLUMNS, *SOURCE_COLUMNS, *derived))
    if where is None:
        return slim.withColumn("selected", F.lit(True))  # noqa: FBT003 - a value
    chosen = matching(messages, where).select("message_id", F.lit(True).alias("selected"))  # noqa: FBT003
    joined = slim.join(chosen, on="message_id", how="left")
    return joined.withColumn("selected", F.col("selected").isNotNull())


def work_rows(messages: DataFrame, fates: DataFrame, tasks: int, *, in_order: bool) -> DataFrame:
    """The messages that make work, each chunk whole and in order in one partition.

    With *in_order* each unit is, so that its chunks follow each other in one task.
    """
    work = fates.where(F.col("fate").isin(*WORK)).select(
        "message_id", "group_id", "fate", *POSITION
    )
    rows = messages.join(work, on="message_id", how="inner")
    together = ["unit"] if in_order else ["unit", "chunk"]
    spread = rows.repartition(tasks, *together)
    return spread.sortWithinPartitions(*POSITION)


def hindered(fates: DataFrame, planned: Iterable[Tally]) -> list[Tally]:
    """Say what stands in the way before anything is sent: causes, and the ids of the first few."""
    counts = Counter[str]()
    for tally in planned:
        counts[tally.word] += tally.count
    return [
        Tally("", word, counts[word], *_hindered_by(fates.where(F.col("fate") == word)))
        for word in HINDERED
        if counts[word]
    ]


def _hindered_by(rows: DataFrame) -> tuple[str, tuple[str, ...]]:
    causes = rows.where(F.col(DETAIL).isNotNull()).groupBy(DETAIL).count()
    found = causes.orderBy(F.desc("count"), DETAIL).limit(_DETAILS + 1).collect()
    named = [f"{row[DETAIL]} ({row['count']:,})" for row in found[:_DETAILS]]
    more = ["…"] if len(found) > _DETAILS else []
    ids = column_texts(rows.orderBy(*POSITION).select("message_id").limit(EXAMPLES))
    return ", ".join([*named, *more]), tuple(ids)
