"""The verb ``erase``: messages leave the archive for good, with what quotes them.

Every archived copy of the same dead letter goes, whichever drain brought it. What is written down
is who, when, why and which ids, before the first file is touched; so wherever this dies, the next
run knows what was begun and ends it.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.actor import actor, caller
from spark_reprocess.analysis.grouping import SIGNATURE_INPUTS, with_groups
from spark_reprocess.archive.erasures import Erasure, mark_done, record_erasure, unfinished
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledger import timestamp
from spark_reprocess.archive.message_store import column_texts, drain_ids, new_id, write_without
from spark_reprocess.archive.reading import MESSAGES, archive_rows, drain_folder
from spark_reprocess.archive.turns import Run, Turn, taking_turns
from spark_reprocess.erase.reports import REPORTS, Report, reports_of, strip_report
from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.plan.plan import Snapshot
from spark_reprocess.progress import Progress, silent
from spark_reprocess.spark.allowed_sql import Place
from spark_reprocess.spark.conditions import explained, matching

_TURN_TTL_SECONDS = 900
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
        InputError: the options or the archive do not fit. Nothing was touched.
        BusyError: a redrive, a restore or another erase is under way. Nothing was touched.
        ArchiveError: something could not be removed and may still be there: run again.
    """
    options.check()
    archive = open_archive(options.archive)
    if not options.execute:
        return _look(spark, archive, options, progress).summary
    # An id of its own, so that no two runs share what is theirs.
    erase_id = new_id(time.time())
    run = Run(erase_id, f"erase {erase_id}", "an erase", actor())
    with taking_turns(archive, run, _TURN_TTL_SECONDS) as turn:
        found = _look(spark, archive, options, progress)
        if not found.summary.drains:
            return found.summary
        begun = list(found.begun)
        if found.victims:
            begun.append(_erasure(erase_id, options, found))
            record_erasure(archive, begun[-1])
        with progress("erasing", lambda: f"{len(found.summary.drains)} drains"):
            rows = _rewrite(archive, begun, found, turn)
        for one in begun:
            mark_done(archive, one.erase_id)
    return replace(found.summary, erase_id=erase_id if found.victims else "", rows=rows)


@dataclass(frozen=True, slots=True)
class _Found:
    """What has to go, and where it is.

    Attributes:
        rows: of the archive.
        victims: the drains of each message.
        begun: erasures that an earlier run did not end.
    """

    rows: DataFrame
    victims: dict[str, list[str]]
    begun: tuple[Erasure, ...]
    reports: tuple[Report, ...]
    summary: EraseSummary


def _look(
    spark: SparkSession, archive: Archive, options: EraseOptions, progress: Progress
) -> _Found:
    drains = drain_ids(archive)
    if not drains:
        raise InputError(f"archive {archive.root}: holds no messages; nothing to erase")
    with progress("looking for the messages", str), explained(options.where):
        rows = archive_rows(spark, archive, drains, None)
        victims = _victims(rows, options)
    begun = tuple(unfinished(archive))
    touched = tuple(sorted({d for ids in (*victims.values(), *_drains(begun)) for d in ids}))
    reports = tuple(one for one in reports_of(archive) if touched and one.may_quote(touched))
    summary = EraseSummary(
        erase_id="",
        messages=len(victims),
        rows=0,
        drains=touched,
        reports=tuple(report.folder for report in reports),
        resumed=tuple(one.erase_id for one in begun),
        unknown_ids=_unknown(rows, options),
    )
    return _Found(rows, victims, begun, reports, summary)


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


def _erasure(erase_id: str, options: EraseOptions, found: _Found) -> Erasure:
    gone = found.rows.join(_ids(found.rows, found.victims), on="message_id", how="left_semi")
    plans = {
        report.plan.plan_id: _frozen(gone, report.plan.snapshot)
        for report in found.reports
        if report.plan and report.plan.snapshot.where is not None
    }
    return Erasure(
        erase_id=erase_id,
        who=actor(),
        reason=options.reason,
        time=timestamp(time.time()),
        drains=found.victims,
        plans=plans,
        groups=column_texts(with_groups(gone, ()).select("group_id").distinct()),
        caller=caller(gone.sparkSession.sparkContext.applicationId),
    )


def _frozen(gone: DataFrame, snapshot: Snapshot) -> list[str]:
    drained = gone.where(F.col("drain_id").isin(*snapshot.drain_ids))
    try:
        frozen = matching(drained, snapshot.where, Place.PLAN_WHERE)
    except InputError:
        return []  # Its condition is refused, so no redrive will ask what was erased of this plan.
    return sorted(column_texts(frozen.select("message_id").distinct()))


def _ids(rows: DataFrame, message_ids: Collection[str]) -> DataFrame:
    table = pa.table({"message_id": pa.array(sorted(message_ids), pa.string())})
    return F.broadcast(rows.sparkSession.createDataFrame(table))


def _rewrite(archive: Archive, begun: Iterable[Erasure], found: _Found, turn: Turn) -> int:
    """Take the messages of these erasures out of every file; return how many rows went."""
    message_ids = {one for erasure in begun for one in erasure.drains}
    groups = {group_id for erasure in begun for group_id in erasure.groups}
    count = 0
    for drain_id in found.summary.drains:
        if trouble := turn.trouble():
            raise ArchiveError(f"archive {archive.root}: {trouble}: run the same command again")
        count += sum(
            write_without(archive, path, message_ids) for path in _files(archive, drain_id)
        )
    for report in found.reports:
        strip_report(archive, report, groups)
    for folder in (MESSAGES, REPORTS):
        archive.sweep(folder)
    return count


def _files(archive: Archive, drain_id: str) -> list[str]:
    return [path for path in archive.list(drain_folder(drain_id)) if path.endswith(".parquet")]
