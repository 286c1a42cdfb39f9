"""The outputs of an analysis: ``groups.parquet``, ``summary.json``, a plan's comments. Pure."""

import json
from contextlib import suppress
from dataclasses import asdict, fields
from datetime import datetime
from shlex import quote

import pyarrow as pa

from dlq.archive.storage.records import DAMAGE, record_of
from dlq.archive.storage.table_parts import arrow_fields
from dlq.explain.findings import (
    NO_QUEUE,
    Findings,
    GroupFinding,
    format_difference,
    format_predicate,
    format_shares,
)
from dlq.explain.grouping import SIGNATURE_VERSION
from dlq.explain.triage import REMEMBERED_GROUPS
from dlq.figures import percent, truncate

GROUPS_SCHEMA = pa.schema(arrow_fields(GroupFinding))
"""The columns of ``groups.parquet``: one row per listed group."""


_PREDICATE_CHARACTERS = 100
"""Characters of a difference in a notice, without its shares."""


def groups_table(findings: Findings) -> pa.Table:
    """Return the rows of ``groups.parquet``."""
    rows = list(map(asdict, findings.groups))
    return pa.Table.from_pylist(rows, schema=GROUPS_SCHEMA)


def summary_json(findings: Findings) -> str:
    """Serialize all findings as JSON; times in ISO 8601."""
    content = {
        "signature": SIGNATURE_VERSION,
        **asdict(findings),
        "statuses": findings.statuses,
    }
    return json.dumps(content, indent=1, default=datetime.isoformat)


def read_findings(summary: bytes | None) -> Findings | None:
    """Return the findings that ``summary_json`` wrote; None where it is missing or was changed."""
    with suppress(*DAMAGE):
        content = json.loads(summary or b"")
        names = [field.name for field in fields(Findings)]
        values = {name: content[name] for name in names if name in content}
        return record_of(Findings, values)
    return None


def notice_json(findings: Findings, *, shows_values: bool) -> str:
    """Serialize what the daily notice says of each group that is remembered.

    *shows_values* says whether the findings have values of messages. A notice leaves these out
    where the stack's own reports do.
    """
    groups = {}
    for group in findings.groups[:REMEMBERED_GROUPS]:
        difference = ""
        if group.differences:
            best = group.differences[0]
            predicate = truncate(format_predicate(best), _PREDICATE_CHARACTERS)
            difference = f"{predicate}: {format_shares(best)}"
        groups[group.group_id] = {
            "title": group.title,
            "queue": group.queue,
            "difference": difference,
        }
    return json.dumps({"shows_values": shows_values, "groups": groups}, indent=1)


def plan_notes(findings: Findings) -> dict[str, list[str]]:
    """Return the lines of each group's comment in plan.yaml, by group id.

    ``erase.reports`` knows how a difference's lines begin, and takes them away.
    """
    notes = {}
    for group in findings.groups:
        share = f"{percent(group.share)} of {findings.messages:,} pending messages"
        lines = [f"{share}, {group.trend}" if group.trend else share]
        if findings.queues:
            lines.append(f"queue: {group.queue or NO_QUEUE}")
        if group.differences:
            best = group.differences[0]
            lines.append(f"difference: {format_difference(best)}")
            if best.condition:
                lines.append(f"--where {quote(best.condition)}")
        notes[group.group_id] = lines
    return notes
