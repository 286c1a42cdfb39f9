"""What rehearsals say of a plan's messages: only what passed is sent.

A rehearsal counts for a group only in the same plan and with the same edit. What is left for it
stays in the archive, and blocks its FIFO message group like any message that is left.
"""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.rehearsals import (
    Rehearsal,
    Verdict,
    newest_rehearsal,
    read_verdicts,
)
from spark_reprocess.plan.plan import Action, Plan

_VERDICT = "_verdict"
_TYPES: dict[str, pa.DataType] = {"message_id": pa.string(), _VERDICT: pa.string()}


@dataclass(frozen=True, slots=True)
class RehearsedPlan:
    """The verdicts on the messages of the groups that a plan redrives.

    Attributes:
        verdicts: ``message_id`` and the verdict of its group's rehearsal.
        notes: which rehearsals count, and which groups have none, a sentence each.
    """

    verdicts: pa.Table
    notes: tuple[str, ...]

    def with_dispositions(self, dispositions: DataFrame) -> DataFrame:
        """Leave what would be sent and did not pass."""
        table = dispositions.sparkSession.createDataFrame(self.verdicts)
        known = dispositions.join(table, on="message_id", how="left")
        verdict = F.col(_VERDICT)
        refused = (
            F.when(verdict == Verdict.PASS.value, Disposition.SEND)
            .when(verdict == Verdict.FAIL.value, Disposition.WOULD_FAIL)
            .when(verdict == Verdict.UNKNOWN.value, Disposition.REHEARSAL_UNKNOWN)
            .otherwise(Disposition.NOT_REHEARSED)
        )
        is_sent = F.col("disposition") == Disposition.SEND
        return known.withColumn(
            "disposition", F.when(is_sent, refused).otherwise(F.col("disposition"))
        ).drop(_VERDICT)


def rehearsed_plan(archive: Archive, plan: Plan) -> RehearsedPlan:
    """Read the newest rehearsals of the groups that *plan* redrives.

    Raises:
        ArchiveError: one cannot be read, or was changed.
    """
    tables, notes = [], []
    for group in plan.groups:
        if group.action is not Action.REDRIVE:
            continue
        edit = "" if group.edit is None else group.edit.digest
        found = newest_rehearsal(archive, plan.plan_id, group.group_id, edit)
        notes.append(_note(group.group_id, found, has_edit=group.edit is not None))
        if found is not None:
            rows = read_verdicts(archive, found)
            tables.append(pa.table([rows["message_id"], rows["verdict"]], schema=_SCHEMA))
    verdicts = pa.concat_tables(tables) if tables else _SCHEMA.empty_table()
    return RehearsedPlan(verdicts, tuple(notes))


def _note(group_id: str, rehearsal: Rehearsal | None, *, has_edit: bool) -> str:
    if rehearsal is None:
        edited = " with the edit as it is now" if has_edit else " without an edit"
        return (
            f"group {group_id} was not rehearsed in this plan{edited}, so nothing of it is sent: "
            f"run dlq rehearse --group {group_id}"
        )
    counts = rehearsal.counts
    passed, total = counts.get(Verdict.PASS.value, 0), sum(counts.values())
    return (
        f"group {group_id}: {passed:,} of {total:,} messages passed rehearsal "
        f"{rehearsal.rehearsal_id}, by {rehearsal.who} at {rehearsal.time}, of "
        f"{rehearsal.handler} ({rehearsal.code[:24]})"
    )


_SCHEMA = pa.schema(_TYPES)
