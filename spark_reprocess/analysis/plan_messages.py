"""The messages of a plan: its table, joined with the archive and checked against what it froze."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.erasures import ErasedOfPlan, erased_of, erasures
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.frames import (
    FILE,
    Held,
    column_texts,
    message_set,
    read_archive,
    read_rows,
)
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Plan


def plan_messages(
    archive: Archive,
    plan: Plan,
    table: DataFrame,
    columns: Sequence[str] | None,
    *,
    each_once: bool,
) -> tuple[DataFrame, DataFrame]:
    """Join a plan's *table* with the archive.

    Args:
        archive: which holds the messages.
        plan: the plan.
        table: see ``message_table``.
        columns: wanted of each message, ``message_id`` among them; None for all.
        each_once: whether a message that a crash left in two files comes once. This looks at all
            ids first.

    Returns:
        The archive's rows of the plan's drains; others than the plan's may be among them. And
        *columns* of the plan's messages, with the columns of *table*. If the plan has no condition,
        every message of its drains is in the latter, for ``check_messages``.

    Raises:
        InputError: the archive lacks one of the plan's drains.
    """
    spark, drains = table.sparkSession, plan.snapshot.drain_ids
    if each_once:
        rows = read_archive(spark, archive, drains)
        wanted = rows.select(*columns or rows.columns)
    else:
        rows, wanted = read_rows(spark, archive, drains, columns or ["message_id"])
        rows = rows.drop(FILE)
        wanted = wanted if columns else rows
    how = "left" if plan.snapshot.where is None else "inner"
    return rows, wanted.join(table, on="message_id", how=how)


def erased_messages(
    archive: Archive, plan: Plan, table: DataFrame, rows: DataFrame
) -> list[ErasedOfPlan]:
    """Return who erased which messages of a plan. Brings no other ids to the driver.

    Args:
        archive: which held the messages.
        plan: the plan.
        table: see ``message_table``.
        rows: of the plan's drains.
    """
    erased = {message_id for one in erasures(archive) for message_id in one.drains}
    if not erased:
        return []
    named = pa.table({"message_id": pa.array(sorted(erased), pa.string())})
    ids = F.broadcast(table.sparkSession.createDataFrame(named))
    found = column_texts(rows.select("message_id").join(ids, "message_id", "left_semi"))
    snapshot, frozen = plan.snapshot, None
    if snapshot.table_sha256 is not None:
        frozen = column_texts(table.select("message_id").join(ids, "message_id", "left_semi"))
    return erased_of(archive, plan.plan_id, snapshot.drain_ids, snapshot.where, found, frozen)


def check_messages(plan: Plan, messages: Held, erased: Sequence[str]) -> bool:
    """Check the ids of *messages*, and the *erased* ones, against the digest that the plan froze.

    Returns:
        Whether each message has one row.

    Raises:
        InputError: the archive does not hold this set of messages.
    """
    gone = pa.table({"message_id": pa.array(erased, pa.string())})
    if messages.table is not None:
        found = message_set(pa.concat_tables([messages.table.select(["message_id"]), gone]))
    else:
        ids = messages.frame.select("message_id")
        found = message_set(ids.union(ids.sparkSession.createDataFrame(gone)) if erased else ids)
    snapshot = plan.snapshot
    if (found.messages, found.sha256) != (snapshot.messages, snapshot.sha256):
        raise InputError(
            f"plan {plan.plan_id}: its drains hold {found.messages - len(erased)} messages, not "
            f"the {snapshot.messages} that it froze, or others; the archive has changed since or "
            "is another one: analyze again"
        )
    return found.rows == found.messages
