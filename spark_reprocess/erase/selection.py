"""The rows that an erasure removes: of named messages, or of those that were decided long ago.

Named messages go with every archived copy that has the same first id. By age, each message goes by
its own id's state alone, once the newest of its rows and all that the ledgers say of it are older
than the given days. A message that is undecided, in doubt or busy never goes by age.
"""

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.archive.disposition import DECIDED, Disposition
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import STRENGTH
from spark_reprocess.archive.ledgers import claimed_table
from spark_reprocess.archive.message_store import drain_ids, read_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IDS = ("message_id", "first_id")
_DAY_SECONDS = 86_400


def named(archive: Archive, ids: Collection[str]) -> pa.Table:
    """Select the rows with these message ids or first ids, and those of their copies."""
    rows = read_columns(archive, _IDS)
    wanted = pa.array(ids, pa.string())
    matches = [pc.is_in(rows[column], value_set=wanted) for column in _IDS]
    first_ids = pc.unique(rows.filter(pc.or_(*matches))["first_id"])
    return rows.filter(pc.is_in(rows["first_id"], value_set=first_ids))


def matching(archive: Archive, spark: "SparkSession", where: str) -> pa.Table:
    """Select the rows that match the SQL condition *where*, and those of their copies.

    Raises:
        InputError: the condition is wrong or fails on a message.
    """
    # Only a condition needs Spark, which need not be installed.
    from spark_reprocess.archive.frames import archive_rows, column_texts  # noqa: PLC0415
    from spark_reprocess.spark.allowed_sql import matching as rows_that_match  # noqa: PLC0415
    from spark_reprocess.spark.failures import explained  # noqa: PLC0415

    with explained(where):
        rows = rows_that_match(archive_rows(spark, archive, drain_ids(archive)), where)
        return named(archive, column_texts(rows.select("first_id").distinct()))


def decided_long_ago(archive: Archive, now_seconds: float, days: int) -> tuple[pa.Table, int, int]:
    """Select the rows of messages that were drained and decided more than *days* ago.

    Returns:
        The rows, and the numbers of messages that stay: of those that are decided and younger, and
        of those that are undecided, in doubt or busy, whatever their age.
    """
    oldest_seconds = now_seconds - days * _DAY_SECONDS
    # The rows first: what is drained or decided after that can only stay.
    rows = read_columns(archive, (*_IDS, "drained_at"))
    decided = _decided_at(claimed_table(archive, now_seconds, 0))
    younger, undecided, old = 0, 0, []
    for row in rows.group_by("message_id").aggregate([("drained_at", "max")]).to_pylist():
        settled, drained_at = decided.get(row["message_id"]), row["drained_at_max"]
        if settled is None:
            undecided += 1
        elif drained_at is None or max(settled, drained_at.timestamp()) >= oldest_seconds:
            younger += 1
        else:
            old.append(row["message_id"])
    is_old = pc.is_in(rows["message_id"], value_set=pa.array(old, pa.string()))
    return rows.filter(is_old), younger, undecided


def _decided_at(claimed: pa.Table) -> dict[str, float]:
    """Return when each decided message was last acted on, in epoch seconds.

    A discarded message that a later restore may have sent is in doubt: if it was not sent, the
    archive has the only copy of what the operator wants back.
    """
    grouped = claimed.group_by("message_id").aggregate(
        [("strength", "max"), ("strength", "min"), ("time", "max")]
    )
    found = {}
    for row in grouped.to_pylist():
        state, weakest = STRENGTH[row["strength_max"]], STRENGTH[row["strength_min"]]
        is_open = state is Disposition.DISCARDED and weakest not in DECIDED
        if state in DECIDED and not is_open:
            # Somebody changed a time that cannot be read: the message stays.
            with suppress(ValueError):
                found[row["message_id"]] = datetime.fromisoformat(row["time_max"]).timestamp()
    return found
