"""The verb ``erase``: messages leave the archive for good, with what quotes them.

Every archived copy of the same dead letter goes, whichever drain brought it. What is written down
is who, when, why and which ids, before the first file is touched; so wherever this dies, the next
run knows what was begun and ends it.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.analysis.grouping import SIGNATURE_INPUTS, with_groups
from spark_reprocess.archive.erasures import Erasure, mark_done, record_erasure, unfinished
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledger import State, timestamp
from spark_reprocess.archive.ledger_states import ledger_states
from spark_reprocess.archive.message_store import column_texts, drain_ids, new_id, write_without
from spark_reprocess.archive.reading import archive_rows, drain_folder
from spark_reprocess.erase.reports import Report, reports_of, strip_report
from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.plan.plan import Snapshot
from spark_reprocess.progress import Progress, silent
from spark_reprocess.spark.conditions import explained, matching
from spark_reprocess.who import who

_CLAIM_TTL_SECONDS = 900
_COLUMNS = ("message_id", "first_id", *SIGNATURE_INPUTS)


@dataclass(frozen=True, slots=True)
class EraseOptions:
    """What has to go. One of *ids* and *where* is given.

    Attributes:
        archive: a folder or S3 prefix.
        ids: message ids, of any copy, or first ids.
        where: a Spark SQL condition over the archive's columns. It is not written down: it may
            say whom it is about.
        reason: why, for the ledger; required with *execute*. It is written down.
        execute: without it nothing is touched.
    """

    archive: str
    ids: tuple[str, ...] = ()
    where: str | None = None
    reason: str = ""
    execute: bool = False

    def check(self) -> None:
        """Raise InputError where the options contradict each other."""
        if bool(self.ids) == (self.where is not None):
            raise InputError("erase needs --id or --where, and not both: what is to go")
        if self.execute and not self.reason.strip():
            raise InputError("--execute needs --reason: one sentence on why, for the ledger")


@dataclass(frozen=True, slots=True)
class EraseSummary:
    """What went, or would.

    Attributes:
        erase_id: empty for a dry run.
        messages: archived copies; each counts once, in however many files it is.
        rows: of these in files, duplicates counted; 0 for a dry run.
        drains: that had brought them.
        reports: folders of reports that may quote them.
        resumed: erasures that an earlier run began and this one ended, or would.
        unknown_ids: given ids of which the archive has nothing.
    """

    erase_id: str
    messages: int
    rows: int
    drains: tuple[str, ...]
    reports: tuple[str, ...]
    resumed: tuple[str, ...]
    unknown_ids: tuple[str, ...]


def erase(
    spark: SparkSession, options: EraseOptions, *, progress: Progress = silent
) -> EraseSummary:
    """Say what would be erased, and with ``execute`` erase it. Safe to repeat at any time.

    Raises:
        InputError: the options or the archive do not fit, or a redrive is under way. Nothing was
            touched.
        ArchiveError: something could not be removed and may still be there: run again.
    """
    options.check()
    archive = open_archive(options.archive)
    drains = drain_ids(archive)
    if not drains:
        raise InputError(f"archive {archive.root}: holds no messages; nothing to erase")
    with progress("looking for the messages", str), explained(options.where):
        rows = archive_rows(spark, archive, drains, None)
        victims = _victims(rows, options)
    begun = unfinished(archive)
    earlier = {one for erasure in begun for one in erasure.drains}
    touched = sorted({d for ids in (*victims.values(), *_drains(begun)) for d in ids})
    reports = [one for one in reports_of(archive) if touched and one.may_quote(touched)]
    summary = EraseSummary(
        erase_id=new_id(time.time()) if options.execute and victims else "",
        messages=len(victims),
        rows=0,
        drains=tuple(touched),
        reports=tuple(report.folder for report in reports),
        resumed=tuple(one.erase_id for one in begun),
        unknown_ids=_unknown(rows, options),
    )
    if not options.execute or not touched:
        return summary
    _require_quiet(spark, archive)
    if victims:
        begun = [*begun, _erasure(summary.erase_id, options, victims, reports, rows)]
        record_erasure(archive, begun[-1])
    groups = {group_id for one in begun for group_id in one.groups}
    with progress("erasing", lambda: f"{len(touched)} drains"):
        count = _rewrite(archive, touched, {*victims, *earlier})
        for report in reports:
            strip_report(archive, report, groups)
    for erase_id in filter(None, (*summary.resumed, summary.erase_id)):
        mark_done(archive, erase_id)
    return EraseSummary(
        summary.erase_id,
        summary.messages,
        count,
        summary.drains,
        summary.reports,
        summary.resumed,
        summary.unknown_ids,
    )


def _victims(rows: DataFrame, options: EraseOptions) -> dict[str, list[str]]:
    """The drains of each message that has to go: those that match, and all with their first id."""
    if options.where is not None:
        matched = matching(rows, options.where)
    else:
        wanted = F.col("message_id").isin(*options.ids) | F.col("first_id").isin(*options.ids)
        matched = rows.where(wanted)
    first_ids = matched.select("first_id").distinct()
    copies = rows.join(first_ids, on="first_id", how="left_semi")
    found = copies.groupBy("message_id").agg(F.sort_array(F.collect_set("drain_id")).alias("ids"))
    return {row["message_id"]: list(row["ids"]) for row in found.orderBy("message_id").collect()}


def _unknown(rows: DataFrame, options: EraseOptions) -> tuple[str, ...]:
    if not options.ids:
        return ()
    known: set[str] = set()
    for column in ("message_id", "first_id"):
        found = rows.where(F.col(column).isin(*options.ids)).select(column).distinct()
        known.update(column_texts(found))
    return tuple(one for one in options.ids if one not in known)


def _drains(begun: Iterable[Erasure]) -> list[list[str]]:
    return [list(drains) for erasure in begun for drains in erasure.drains.values()]


def _require_quiet(spark: SparkSession, archive: Archive) -> None:
    """A redrive that runs now reads the files that are about to go."""
    states = ledger_states(spark, archive, time.time(), _CLAIM_TTL_SECONDS)
    if states.where(F.col("state") == State.BUSY).limit(1).count():
        raise InputError(
            f"archive {archive.root}: a redrive or restore is under way, or died within the last "
            f"{_CLAIM_TTL_SECONDS // 60} min; erase when it is over"
        )


def _erasure(
    erase_id: str,
    options: EraseOptions,
    victims: dict[str, list[str]],
    reports: Iterable[Report],
    rows: DataFrame,
) -> Erasure:
    gone = rows.join(_ids(rows, victims), on="message_id", how="left_semi")
    plans = {
        report.plan.plan_id: _frozen(gone, report.plan.snapshot)
        for report in reports
        if report.plan and report.plan.snapshot.where is not None
    }
    return Erasure(
        erase_id=erase_id,
        who=who(),
        reason=options.reason,
        time=timestamp(time.time()),
        drains=victims,
        plans=plans,
        groups=column_texts(with_groups(gone, ()).select("group_id").distinct()),
    )


def _frozen(gone: DataFrame, snapshot: Snapshot) -> list[str]:
    drained = gone.where(F.col("drain_id").isin(*snapshot.drain_ids))
    return sorted(column_texts(matching(drained, snapshot.where).select("message_id").distinct()))


def _ids(rows: DataFrame, message_ids: Collection[str]) -> DataFrame:
    table = pa.table({"message_id": pa.array(sorted(message_ids), pa.string())})
    return F.broadcast(rows.sparkSession.createDataFrame(table))


def _rewrite(archive: Archive, drains: Iterable[str], message_ids: Collection[str]) -> int:
    """Replace every file that holds one of these messages; return how many rows went."""
    count = 0
    for drain_id in drains:
        for path in _files(archive, drain_id):
            count += write_without(archive, path, message_ids)
        # Somebody else who erases may have written a file anew that we had replaced.
        if any(write_without(archive, path, message_ids) for path in _files(archive, drain_id)):
            raise ArchiveError(
                f"archive {archive.root}: drain {drain_id} changed while it was rewritten; another "
                "erase runs: run the same command again when it is over"
            )
    return count


def _files(archive: Archive, drain_id: str) -> list[str]:
    return [path for path in archive.list(drain_folder(drain_id)) if path.endswith(".parquet")]
