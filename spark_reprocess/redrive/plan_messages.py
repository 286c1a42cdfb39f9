"""A plan's messages: the frozen set, checked against the archive, and the fate of each."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.analysis.grouping import SIGNATURE_INPUTS, with_groups
from spark_reprocess.archive.erasures import erased_of
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_store import column_texts, read_archive
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Plan, digest
from spark_reprocess.redrive.selection import POSITION, WORK
from spark_reprocess.spark.conditions import matching

_ORDER_COLUMNS = ("message_id", "message_group_id", "sequence_number", "sent_at")


@dataclass(frozen=True, slots=True)
class Frozen:
    """The messages that a plan froze, but for those that were erased since.

    Attributes:
        notes: who erased how many, a sentence each.
    """

    messages: DataFrame
    notes: tuple[str, ...]


def frozen_messages(spark: SparkSession, archive: Archive, plan: Plan) -> Frozen:
    """Read exactly the messages that *plan* froze.

    Raises:
        InputError: the archive does not hold that set any more, or never did, and erasing does not
            explain it.
    """
    rows = read_archive(spark, archive, plan.snapshot.drain_ids)
    messages = matching(rows, plan.snapshot.where)
    found = column_texts(messages.select("message_id"))
    snapshot = plan.snapshot
    gone = erased_of(archive, plan.plan_id, snapshot.drain_ids, snapshot.where, found)
    ids = [*found, *(message_id for one in gone for message_id in one.message_ids)]
    if len(ids) != plan.snapshot.messages or digest(ids) != plan.snapshot.sha256:
        raise InputError(
            f"plan {plan.plan_id}: its drains hold {len(found)} messages, not the "
            f"{plan.snapshot.messages} that it froze, or others; the archive has changed since "
            "or is another one: analyze again"
        )
    return Frozen(messages, tuple(one.sentence for one in gone))


def grouped_messages(messages: DataFrame, where: str | None) -> DataFrame:
    """Keep what a plan needs of each message; add its group, and whether *where* selects it.

    Raises:
        InputError: *where* is no condition over the archive's columns.
    """
    columns = dict.fromkeys((*_ORDER_COLUMNS, *SIGNATURE_INPUTS))
    slim = with_groups(messages.select(*columns)).drop("body", "error_type", "error_message")
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


def first_ids(fates: DataFrame, words: Sequence[str], count: int) -> dict[str, list[str]]:
    """The first *count* message ids of each of these fates."""
    return {
        word: column_texts(
            fates.where(F.col("fate") == word).orderBy(*POSITION).select("message_id").limit(count)
        )
        for word in words
    }
