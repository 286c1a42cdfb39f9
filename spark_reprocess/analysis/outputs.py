"""What an analysis writes: ``groups.parquet``, ``summary.json``, a plan's comments. Pure."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from shlex import quote
from typing import Any

import pyarrow as pa

from spark_reprocess.archive.storage.records import record_of
from spark_reprocess.figures import percent
from spark_reprocess.findings import Findings, GroupFinding, Lead, format_lead
from spark_reprocess.grouping import SIGNATURE_VERSION

_TIME = pa.timestamp("us", tz="UTC")
_SPREAD = pa.struct([(name, pa.float64()) for name in ("least", "median", "p95", "greatest")])
_SYNONYMS = pa.list_(pa.struct([("field", pa.string()), ("value", pa.string())]))
_SHARES: "list[pa.Field[Any]]" = [
    pa.field("group_share", pa.float64()),
    pa.field("other_share", pa.float64()),
]
_PART: "list[pa.Field[Any]]" = [
    pa.field("field", pa.string()),
    pa.field("value", pa.string()),
    *_SHARES,
    pa.field("synonyms", _SYNONYMS),
]
LEAD_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("parts", pa.list_(pa.struct(_PART))),
    *_SHARES,
    pa.field("score", pa.float64()),
    pa.field("condition", pa.string()),
    pa.field("compared_with", pa.string()),
]
"""The fields of ``findings.Lead``."""

_SAMPLE = pa.struct(
    [
        ("message_id", pa.string()),
        ("sent_at", _TIME),
        ("body", pa.string()),
        ("attributes", pa.map_(pa.string(), pa.string())),
        ("logged", pa.string()),
    ]
)
_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("group_id", pa.string(), nullable=False),
    pa.field("title", pa.string(), nullable=False),
    pa.field("count", pa.int64(), nullable=False),
    pa.field("share", pa.float64(), nullable=False),
    pa.field("first_sent_at", _TIME),
    pa.field("last_sent_at", _TIME),
    pa.field("arrivals", pa.list_(pa.int64())),
    pa.field("trend", pa.string()),
    pa.field("reasons", pa.map_(pa.string(), pa.int64())),
    pa.field("sources", pa.map_(pa.string(), pa.int64())),
    pa.field(
        "replay_counts",
        pa.list_(pa.struct([("replay_count", pa.int64()), ("messages", pa.int64())])),
    ),
    pa.field("body_bytes", _SPREAD),
    pa.field("age_seconds", _SPREAD),
    pa.field("leads", pa.list_(pa.struct(LEAD_FIELDS))),
    pa.field("samples", pa.list_(_SAMPLE)),
    pa.field("status", pa.string()),
    pa.field("first_seen_at", _TIME),
    pa.field("expires_at", _TIME),
    pa.field("resolved_at", _TIME),
    pa.field("last_action", pa.string()),
    pa.field("note", pa.string()),
]
GROUPS_SCHEMA = pa.schema(_FIELDS)
"""The columns of ``groups.parquet``: one row per listed group."""


def groups_table(findings: Findings) -> pa.Table:
    """Lay the groups out as the rows of ``groups.parquet``."""
    return pa.Table.from_pylist([_row(group) for group in findings.groups], schema=GROUPS_SCHEMA)


def summary_json(findings: Findings) -> str:
    """Serialize everything that was found as JSON; times in ISO 8601."""
    content = {
        "signature": SIGNATURE_VERSION,
        **asdict(findings),
        "statuses": findings.statuses,
        "groups": [
            {**_row(one), "reasons": dict(one.reasons), "sources": dict(one.sources)}
            for one in findings.groups
        ],
    }
    return json.dumps(content, indent=1, default=datetime.isoformat)


def findings_of(summary: Mapping[str, Any]) -> Findings:
    """Return what ``summary_json`` wrote.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is no summary.
    """
    groups = [_pairs_in(row) for row in summary["groups"]]
    return record_of(Findings, {**_known(Findings, summary), "groups": groups})


def lead_from_row(row: Mapping[str, Any]) -> Lead:
    """Build a lead from its fields; others are ignored."""
    return record_of(Lead, _known(Lead, row))


def _known(kind: type[Any], row: Mapping[str, Any]) -> dict[str, Any]:
    return {one.name: row[one.name] for one in fields(kind) if one.name in row}


def _pairs_in(row: Mapping[str, Any]) -> dict[str, Any]:
    """Undo ``_row``, and turn the mappings of a group into pairs."""
    pairs = {name: list(row[name].items()) for name in ("reasons", "sources")}
    counts = [(one["replay_count"], one["messages"]) for one in row["replay_counts"]]
    samples = [{**one, "attributes": list(one["attributes"].items())} for one in row["samples"]]
    return {**row, **pairs, "replay_counts": counts, "samples": samples}


def plan_notes(findings: Findings) -> dict[str, list[str]]:
    """Return the lines of each group's comment in plan.yaml, by group id.

    The lead's lines begin as ``erase.reports`` knows them: to erase a message is to take them away
    too.
    """
    notes = {}
    for group in findings.groups:
        share = f"{percent(group.share)} of {findings.messages:,} pending messages"
        notes[group.group_id] = [f"{share}, {group.trend}" if group.trend else share]
        if group.leads:
            best = group.leads[0]
            notes[group.group_id].append(f"lead: {format_lead(best)}")
            if best.condition:
                notes[group.group_id].append(f"--where {quote(best.condition)}")
    return notes


def _row(group: GroupFinding) -> dict[str, Any]:
    row = asdict(group)
    counts = [{"replay_count": count, "messages": n} for count, n in group.replay_counts]
    samples = [{**one, "attributes": dict(one["attributes"])} for one in row["samples"]]
    return {**row, "replay_counts": counts, "samples": samples}
