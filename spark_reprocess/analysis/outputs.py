"""What an analysis writes: ``groups.parquet``, ``summary.json``, a plan's comments. Pure."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime
from shlex import quote
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa

from spark_reprocess.archive.storage.records import DAMAGE, record_of
from spark_reprocess.figures import percent
from spark_reprocess.groups.findings import Findings, GroupFinding, format_lead
from spark_reprocess.groups.grouping import SIGNATURE_VERSION

_ARROW_TYPES: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    datetime: pa.timestamp("us", tz="UTC"),
}


def arrow_type(kind: Any) -> pa.DataType:  # noqa: ANN401 - a type
    """Return the Arrow type of a type of ``findings``: a dataclass is a struct of its fields."""
    if kind in _ARROW_TYPES:
        return _ARROW_TYPES[kind]
    if is_dataclass(kind):
        return pa.struct([(name, arrow_type(one)) for name, one in get_type_hints(kind).items()])
    arguments = get_args(kind)
    if get_origin(kind) is Mapping:
        return pa.map_(arrow_type(arguments[0]), arrow_type(arguments[1]))
    inside = arrow_type(arguments[0])
    return pa.list_(inside) if get_origin(kind) is tuple else inside


GROUPS_SCHEMA = pa.schema(
    {name: arrow_type(kind) for name, kind in get_type_hints(GroupFinding).items()}
)
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
