"""What an analysis writes: ``groups.parquet``, ``summary.json``, a plan's comments. Pure."""

import json
from contextlib import suppress
from dataclasses import asdict, fields
from datetime import datetime
from shlex import quote

import pyarrow as pa

from dlq.archive.storage.records import DAMAGE, record_of
from dlq.archive.storage.table_parts import arrow_fields
from dlq.explain.findings import Findings, GroupFinding, format_lead
from dlq.explain.grouping import SIGNATURE_VERSION
from dlq.figures import percent

GROUPS_SCHEMA = pa.schema(arrow_fields(GroupFinding))
"""The columns of ``groups.parquet``: one row per listed group."""


def groups_table(findings: Findings) -> pa.Table:
    """Return the rows of ``groups.parquet``."""
    return pa.Table.from_pylist([asdict(one) for one in findings.groups], schema=GROUPS_SCHEMA)


def summary_json(findings: Findings) -> str:
    """Serialize everything that was found as JSON; times in ISO 8601."""
    statuses = findings.statuses
    content = {"signature": SIGNATURE_VERSION, **asdict(findings), "statuses": statuses}
    return json.dumps(content, indent=1, default=datetime.isoformat)


def read_findings(summary: bytes | None) -> Findings | None:
    """Return what ``summary_json`` wrote; None where it is not there, or was changed."""
    with suppress(*DAMAGE):
        values = json.loads(summary or b"")
        names = [one.name for one in fields(Findings) if one.name in values]
        return record_of(Findings, {name: values[name] for name in names})
    return None


def plan_notes(findings: Findings) -> dict[str, list[str]]:
    """Return the lines of each group's comment in plan.yaml, by group id.

    ``erase.reports`` knows how a lead's lines begin, and takes them away.
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
