"""The verb ``analyze``: undecided messages, grouped by failure; a report and a plan."""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.analysis.grouping import with_groups
from spark_reprocess.analysis.groups import summarize_groups
from spark_reprocess.analysis.mask import compile_masks, mask, shorten
from spark_reprocess.analysis.signature import PARKED_BY_SQS, SIGNATURE_VERSION
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledger import DECIDED
from spark_reprocess.archive.ledger_states import ledger_states
from spark_reprocess.archive.message_store import column_texts, drain_ids, new_id, read_archive
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Action, Plan, PlannedGroup, Snapshot, digest
from spark_reprocess.plan.plan_text import plan_text
from spark_reprocess.progress import Progress, silent
from spark_reprocess.spark.conditions import explained, matching

SAMPLE_CHARACTERS = 300
REPORTS = "reports"

_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("group_id", pa.string()),
    pa.field("title", pa.string()),
    pa.field("count", pa.int64()),
    pa.field("share", pa.float64()),
    pa.field("first_sent_at", pa.timestamp("us", tz="UTC")),
    pa.field("last_sent_at", pa.timestamp("us", tz="UTC")),
    pa.field("reasons", pa.map_(pa.string(), pa.int64())),
    pa.field("replay_count_min", pa.int64()),
    pa.field("replay_count_max", pa.int64()),
    pa.field("body_bytes_min", pa.int64()),
    pa.field("body_bytes_max", pa.int64()),
    pa.field("sources", pa.list_(pa.string())),
    pa.field("samples", pa.list_(pa.string())),
]
_GROUPS_SCHEMA = pa.schema(_FIELDS)


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    """What to analyse and where the report goes.

    Attributes:
        archive: the folder that a drain filled.
        out: a folder for the report, None for ``<archive>/reports/<id>``.
        where: a Spark SQL condition over the archive's columns, None for all messages.
        masks: regular expressions of what samples and titles must not show, besides our own.
        has_samples: whether the report shows (masked, shortened) bodies at all.
    """

    archive: str
    out: str | None = None
    where: str | None = None
    masks: tuple[str, ...] = ()
    has_samples: bool = True


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One failure and its numbers; *share* is of the undecided messages, 0 to 1."""

    group_id: str
    title: str
    count: int
    share: float
    first_sent_at: datetime | None
    last_sent_at: datetime | None
    reasons: tuple[tuple[str, int], ...]
    replay_count_min: int | None
    replay_count_max: int | None
    body_bytes_min: int
    body_bytes_max: int
    sources: tuple[str, ...]
    samples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnalysisSummary:
    """What was found and where it was written.

    Attributes:
        messages: distinct messages that the plan freezes.
        decided: how many of them were sent or discarded before; they are in no group.
    """

    plan_id: str
    archive: str
    folder: str
    plan_path: str
    messages: int
    decided: int
    groups: tuple[GroupSummary, ...]


def analyze(
    spark: SparkSession, options: AnalyzeOptions, *, progress: Progress = silent
) -> AnalysisSummary:
    """Group the messages that nobody has decided about yet; write report and plan.

    Raises:
        InputError: the archive has no messages, or the condition or a mask is wrong.
        ArchiveError: the archive cannot be read, or the report cannot be written.
    """
    archive = open_archive(options.archive)
    masks = _compile(options.masks)
    plan_id = new_id(time.time())
    reports = open_archive(options.out or f"{archive.root}/{REPORTS}/{plan_id}")
    reports.check_writable()
    drains = drain_ids(archive)
    with progress("analysing", lambda: f"{len(drains)} drains"), explained(options.where):
        messages = matching(read_archive(spark, archive, drains), options.where)
        message_ids = column_texts(messages.select("message_id"))
        ids = _decided(spark, archive)
        decided = messages.select("message_id").join(ids, "message_id", "left_semi").count()
        rows = _group_rows(messages, ids)
    undecided = len(message_ids) - decided
    summary = AnalysisSummary(
        plan_id=plan_id,
        archive=archive.root,
        folder=reports.root,
        plan_path=f"{reports.root}/plan.yaml",
        messages=len(message_ids),
        decided=decided,
        groups=tuple(_group(row, undecided, masks, options.has_samples) for row in rows),
    )
    snapshot = Snapshot(tuple(drains), len(message_ids), digest(message_ids), options.where)
    _write(reports, summary, snapshot)
    return summary


def _compile(patterns: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    try:
        return compile_masks(patterns)
    except ValueError as error:
        raise InputError(f"--mask {error}") from error


def _decided(spark: SparkSession, archive: Archive) -> DataFrame:
    states = ledger_states(spark, archive, time.time(), claim_ttl_seconds=0)
    return states.where(F.col("state").isin(*DECIDED)).select("message_id")


def _group_rows(messages: DataFrame, decided: DataFrame) -> list[dict[str, Any]]:
    undecided = messages.drop("attributes").join(decided, "message_id", "left_anti")
    rows = summarize_groups(with_groups(undecided), PARKED_BY_SQS).toArrow().to_pylist()
    return [dict(row) for row in rows]


def _group(
    row: dict[str, Any], total: int, masks: Sequence[re.Pattern[str]], has_samples: bool
) -> GroupSummary:
    samples = row.pop("samples") if has_samples else []
    return GroupSummary(
        group_id=row["group_id"],
        title=mask(row["title"], masks),
        count=row["count"],
        share=row["count"] / total,
        first_sent_at=row["first_sent_at"],
        last_sent_at=row["last_sent_at"],
        reasons=tuple(row["reasons"]),
        replay_count_min=row["replay_count_min"],
        replay_count_max=row["replay_count_max"],
        body_bytes_min=row["body_bytes_min"],
        body_bytes_max=row["body_bytes_max"],
        sources=tuple(row["sources"]),
        samples=tuple(shorten(mask(one, masks), SAMPLE_CHARACTERS) for one in samples),
    )


def _write(reports: Archive, summary: AnalysisSummary, snapshot: Snapshot) -> None:
    """Write the plan last: where it stands, the rest is there too."""
    groups = [asdict(group) for group in summary.groups]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(groups, schema=_GROUPS_SCHEMA), sink, compression="zstd")
    reports.write("groups.parquet", sink.getvalue().to_pybytes())
    reports.write("summary.json", _summary_json(summary, groups).encode())
    plan = Plan(
        plan_id=summary.plan_id,
        archive=summary.archive,
        snapshot=snapshot,
        groups=tuple(
            PlannedGroup(g.group_id, g.title, g.count, Action.LEAVE) for g in summary.groups
        ),
    )
    reports.write("plan.yaml", plan_text(plan).encode())


def _summary_json(summary: AnalysisSummary, groups: list[dict[str, Any]]) -> str:
    content = {
        "version": 1,
        "signature": SIGNATURE_VERSION,
        **{k: v for k, v in asdict(summary).items() if k not in ("groups", "folder", "plan_path")},
        "groups": [{**group, "reasons": dict(group["reasons"])} for group in groups],
    }
    return json.dumps(content, indent=1, default=datetime.isoformat)
