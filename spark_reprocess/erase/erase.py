"""The verb ``erase``: deletes messages from the archive, with the reports that quote them.

Every archived copy with the same first id is deleted, in every drain, and of copies that have
expired the quotes in reports. Who, when, why and which ids is recorded before the first file is
changed, so that after a crash the next run completes what was begun.

A plan's condition may identify a person, so it is removed from each plan about these drains. The
plan's table names its messages; that of a version-1 plan is saved first.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.actor import actor, caller, require_reason
from spark_reprocess.analysis.groups import with_groups
from spark_reprocess.analysis.message_table import message_table
from spark_reprocess.archive.erasures import (
    Erasure,
    expired_copies,
    mark_done,
    record_erasure,
    unfinished,
)
from spark_reprocess.archive.files import MESSAGES, Archive, new_id, open_archive
from spark_reprocess.archive.frames import archive_rows, column_texts
from spark_reprocess.archive.ledger import timestamp
from spark_reprocess.archive.lookup import sent_copies
from spark_reprocess.archive.message_index import REPORTS
from spark_reprocess.archive.message_store import (
    drain_ids,
    drain_of,
    holds_any,
    remove_messages,
)
from spark_reprocess.archive.plan_lock import PlanLock, erase_holder, plan_lock
from spark_reprocess.erase.failures import delete_recorded, recorded
from spark_reprocess.erase.reports import Report, remove_report, reports_of, strip_report
from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.progress import Progress, silent
from spark_reprocess.spark.allowed_sql import matching
from spark_reprocess.spark.failures import explained

_ANY_MESSAGE = "message_id IS NOT NULL"
"""In place of a plan's condition: it quotes nothing. The plan's table names its messages."""


@dataclass(frozen=True, slots=True)
class EraseOptions:
    """What to erase. Exactly one of *ids* and *where* is given.

    Attributes:
        archive: a folder or S3 prefix.
        ids: message ids, of any copy, or first ids.
        where: a Spark SQL condition over the archive's columns. It is not recorded, because it may
            identify a person.
        reason: why, for the ledger; required with *execute*. It is recorded.
        execute: without it nothing is changed.
        failure_table: the table in which consumers record failures; None for none.
    """

    archive: str
    ids: Sequence[str] = ()
    where: str | None = None
    failure_table: str | None = None
    reason: str = ""
    execute: bool = False

    def check(self) -> None:
        """Raise InputError if the options contradict each other."""
        if bool(self.ids) == (self.where is not None):
            raise InputError("erase needs --id or --where, and not both: what is to go")
        require_reason(self.reason, execute=self.execute)


@dataclass(frozen=True, slots=True)
class EraseSummary:
    """What was erased, or would be.

    Attributes:
        erase_id: empty for a dry run.
        messages: archived copies; each counts once, also if several files have it.
        rows: their rows in files, duplicates counted; 0 for a dry run.
        drains: the drains of these messages.
        reports: folders of reports that may quote them.
        resumed: erasures that an earlier run began and this one completed, or would.
        unknown_ids: given ids that the archive does not have.
        deleted_files: deleted files of which a versioned bucket keeps a version with one of the
            messages.
        failures: items of the failure table; None without a table.
        kept_conditions: empty; older versions named plans that kept their condition.
        expired: copies that have expired, and may be quoted in reports.
    """

    erase_id: str
    messages: int
    rows: int
    drains: tuple[str, ...]
    reports: tuple[str, ...]
    resumed: tuple[str, ...]
    unknown_ids: tuple[str, ...]
    deleted_files: tuple[str, ...] = ()
    failures: int | None = None
    kept_conditions: tuple[str, ...] = ()
    expired: int = 0

    @property
    def is_new(self) -> bool:
        """Whether there is more to erase than an earlier run began."""
        return bool(self.messages or self.deleted_files or self.failures or self.expired)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to erase."""
        return not (self.is_new or self.resumed)


def erase(
    spark: SparkSession, options: EraseOptions, *, progress: Progress = silent
) -> EraseSummary:
    """Find what would be erased and, with ``execute``, erase it. Safe to repeat at any time.

    Raises:
        InputError: the options are wrong, or the archive is. Nothing was changed.
        BusyError: a redrive, a restore, an analysis or another erase is running. Nothing was
            changed.
        ArchiveError: something could not be removed and may still be there: run again.
    """
    options.check()
    archive = open_archive(options.archive)
    if not options.execute:
        return _find(spark, archive, options, progress).summary
    # A new id for each run, so that no two runs share a record.
    erase_id = new_id(time.time())
    with plan_lock(archive, erase_holder(erase_id, actor())) as lock:
        found = _find(spark, archive, options, progress)
        if found.summary.is_empty:
            return found.summary
        # Before the first change: afterwards a table would lack messages that the plan froze.
        with progress("reading the plans", str):
            tables = _tables(spark, archive, found.reports)
        begun, is_new = list(found.begun), found.summary.is_new
        if is_new:
            begun.append(record_erasure(archive, _erasure(erase_id, options, found, tables)))
        with progress("erasing", lambda: f"{len(found.summary.drains)} drains"):
            rows = _rewrite(archive, begun, found, tables, lock)
            for one in begun:
                if one.failure_table:
                    delete_recorded(one.failure_table, one.ids)
        for one in begun:
            mark_done(archive, one.erase_id)
    return replace(found.summary, erase_id=begun[-1].erase_id if is_new else "", rows=rows)


@dataclass(frozen=True, slots=True)
class _Found:
    """What to erase, and where it is.

    Attributes:
        rows: of the archive.
        drains_by_id: by the id of each message to erase, its drains; of expired ones, too.
        other_ids: see ``Erasure``.
        begun: erasures that an earlier run did not complete.
    """

    rows: DataFrame
    drains_by_id: dict[str, list[str]]
    other_ids: tuple[str, ...]
    begun: tuple[Erasure, ...]
    reports: tuple[Report, ...]
    summary: EraseSummary


def _find(
    spark: SparkSession, archive: Archive, options: EraseOptions, progress: Progress
) -> _Found:
    drains = drain_ids(archive)
    if not drains:
        raise InputError(f"archive {archive.root}: holds no messages; nothing to erase")
    with progress("finding the messages", str), explained(options.where):
        rows = archive_rows(spark, archive, drains, None)
        drains_by_id, first_ids = _to_erase(rows, options)
    messages = len(drains_by_id)
    other_ids = {*first_ids, *options.ids}
    expired = expired_copies(archive, other_ids)
    for message_id, one in expired.items():
        known = drains_by_id.get(message_id, ())
        drains_by_id[message_id] = sorted({*known, *one.drains[message_id]})
    failures = None
    if options.failure_table:
        other_ids |= sent_copies(archive, drains_by_id)
        failures = recorded(options.failure_table, {*drains_by_id, *other_ids})
    begun = tuple(unfinished(archive))
    gone = {*drains_by_id, *other_ids, *(one for erasure in begun for one in erasure.ids)}
    deleted_files = tuple(
        path
        for path in archive.outdated(MESSAGES)
        if any(holds_any(content, gone) for content in archive.outdated_contents(path))
    )
    drains_of_rows = chain(*drains_by_id.values(), *(d for e in begun for d in e.drains.values()))
    touched = tuple(sorted({*drains_of_rows, *map(drain_of, deleted_files)}))
    reports = tuple(one for one in reports_of(archive) if touched and one.may_quote(touched))
    summary = EraseSummary(
        erase_id="",
        messages=messages,
        rows=0,
        drains=touched,
        reports=tuple(report.folder for report in reports),
        resumed=tuple(one.erase_id for one in begun),
        unknown_ids=_unknown(rows, options, expired),
        deleted_files=deleted_files,
        failures=failures,
        expired=len(expired),
    )
    others = tuple(sorted(other_ids - drains_by_id.keys()))
    return _Found(rows, drains_by_id, others, begun, reports, summary)


def _to_erase(rows: DataFrame, options: EraseOptions) -> tuple[dict[str, list[str]], set[str]]:
    """Find the messages to erase: those that match, and all with the same first ids.

    Returns:
        The drains by message id, and the first ids.
    """
    if options.where is not None:
        matched = matching(rows, options.where)
    else:
        wanted = F.col("message_id").isin(*options.ids) | F.col("first_id").isin(*options.ids)
        matched = rows.where(wanted)
    first_ids = matched.select("first_id").distinct()
    copies = rows.join(first_ids, on="first_id", how="left_semi")
    found = copies.groupBy("message_id").agg(F.sort_array(F.collect_set("drain_id")).alias("ids"))
    drains = {row["message_id"]: list(row["ids"]) for row in found.orderBy("message_id").collect()}
    return drains, set(column_texts(first_ids)) if drains else set()


def _unknown(
    rows: DataFrame, options: EraseOptions, expired: Mapping[str, Erasure]
) -> tuple[str, ...]:
    if not options.ids:
        return ()
    known = {*expired, *(one.first_ids.get(gone, gone) for gone, one in expired.items())}
    for column in ("message_id", "first_id"):
        found = rows.where(F.col(column).isin(*options.ids)).select(column).distinct()
        known.update(column_texts(found))
    return tuple(one for one in options.ids if one not in known)


def _tables(
    spark: SparkSession, archive: Archive, reports: Iterable[Report]
) -> dict[str, DataFrame]:
    """Return the tables of plans by the folders of their reports, and save those of version 1.

    Without its table a plan cannot be redriven, and may quote the messages all the same. It has
    none here if it lost it, or if the condition of a version-1 plan cannot be evaluated any more.

    Raises:
        ArchiveError: the table of a version-1 plan cannot be saved.
    """
    tables: dict[str, DataFrame] = {}
    for report in reports:
        if (plan := report.plan) is None:
            continue
        try:
            with explained(plan.snapshot.where):
                tables[report.folder] = message_table(spark, archive, plan)
        except InputError:
            continue
        except ArchiveError:
            if report.is_version_1:
                raise
    return tables


def _erasure(
    erase_id: str, options: EraseOptions, found: _Found, tables: Mapping[str, DataFrame]
) -> Erasure:
    ids = _ids(found.rows, found.drains_by_id)
    plans: dict[str, list[str]] = {}
    groups: set[str] = set()
    for report in found.reports:
        if report.plan is None or report.folder not in tables:
            continue
        of_plan = tables[report.folder].join(ids, "message_id", "left_semi")
        gone = of_plan.select("message_id", "group_id").toArrow().to_pydict()
        groups.update(gone["group_id"])
        if report.is_version_1 and report.plan.snapshot.where is not None:
            plans[report.plan.plan_id] = sorted(gone["message_id"])
    if len(tables) < len(found.reports):
        rows = found.rows.join(ids, "message_id", "left_semi")
        groups.update(column_texts(with_groups(rows, ()).select("group_id").distinct()))
    return Erasure(
        erase_id=erase_id,
        who=actor(),
        reason=options.reason,
        time=timestamp(time.time()),
        drains=found.drains_by_id,
        plans=plans,
        groups=sorted(groups),
        caller=caller(found.rows.sparkSession.sparkContext.applicationId),
        other_ids=found.other_ids,
        failure_table=options.failure_table,
    )


def _ids(rows: DataFrame, message_ids: Collection[str]) -> DataFrame:
    table = pa.table({"message_id": pa.array(sorted(message_ids), pa.string())})
    return F.broadcast(rows.sparkSession.createDataFrame(table))


def _rewrite(
    archive: Archive,
    begun: Iterable[Erasure],
    found: _Found,
    tables: Collection[str],
    lock: PlanLock,
) -> int:
    """Remove the messages of these erasures from every file; return the number of rows."""
    message_ids = {one for erasure in begun for one in erasure.drains}
    groups = {group_id for erasure in begun for group_id in erasure.groups}
    count = 0
    for drain_id in found.summary.drains:
        count += remove_messages(archive, drain_id, message_ids, lock.require)
    for report in found.reports:
        lock.require()
        has_condition = report.plan is not None and report.plan.snapshot.where is not None
        if has_condition and report.is_version_1 and report.folder not in tables:
            remove_report(archive, report)
        else:
            strip_report(archive, report, groups, _ANY_MESSAGE if has_condition else None)
    # Last: by these files a repeat after a crash finds the reports to strip.
    for path in found.summary.deleted_files:
        archive.remove_outdated(path)
    for folder in (MESSAGES, REPORTS):
        archive.sweep(folder)
    return count
