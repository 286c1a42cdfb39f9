"""The plan that ``analyze`` would write, without Spark: for tests of what is done with a plan.

``tests/integration/test_message_table.py`` compares the two.
"""

import time
from binascii import crc32
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from dlq.archive.messages.message_store import drain_ids, drain_of, message_files
from dlq.archive.storage.files import Archive, new_id
from dlq.archive.storage.table_parts import write_whole
from dlq.explain.signature.signature import short_title, signature_of
from dlq.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text

Row = dict[str, Any]

_TABLE = (
    "message_id",
    "group_id",
    "unit",
    "position",
    "file",
    "first_id",
    "sent_at",
    "receive_count",
    "body_bytes",
)


def planned(
    archive: Archive,
    action: str = "redrive",
    where: str | None = None,
    chosen: Collection[str] | None = None,
) -> str:
    """Write a plan over messages of a local archive; return its path.

    Args:
        archive: nobody has decided about any of its messages, or analyze would leave it out of the
            groups.
        action: of each group.
        where: the condition of the analysis, None for all messages.
        chosen: the ids of the messages that *where* selects; None without a condition.
    """
    rows = [row for row in _messages(archive) if chosen is None or row["message_id"] in chosen]
    columns = ("body", "parked_reason", "error_type", "error_message", "error_code")
    signatures = [signature_of(*(row[name] for name in columns)) for row in rows]
    for row, signature in zip(rows, signatures, strict=True):
        row["group_id"] = signature.group_id

    counts = Counter(signatures)
    groups = []
    for signature, count in counts.items():
        title = short_title(signature.text)
        groups.append(PlannedGroup(signature.group_id, title, count, Action.LEAVE))
    groups.sort(key=lambda group: (-group.count, group.group_id))

    plan_id = new_id(time.time())
    folder = f"reports/{plan_id}"
    snapshot = Snapshot(
        tuple(drain_ids(archive)),
        len(rows),
        write_plan_table(archive, f"{folder}/messages.parquet", rows),
        where,
    )

    text = plan_text(Plan(plan_id, archive.root, snapshot, tuple(groups)))
    archive.write(f"{folder}/plan.yaml", text.encode())
    return str(approve(Path(archive.root, folder, "plan.yaml"), action))


def approve(plan: Path, action: str = "redrive") -> Path:
    """Set the action of each group in a plan's file; return its path."""
    content = yaml.safe_load(plan.read_text())
    for group in content["groups"]:
        group["action"] = action
    plan.write_text(yaml.safe_dump(content))
    return plan


def numbered_by_the_rule(rows: Sequence[Row], messages: int) -> list[Row]:
    """Add ``unit`` and ``position`` as the docstrings of ``message_table`` say."""
    in_order = [row for row in rows if row["message_group_id"] is not None]
    others = [row for row in rows if row["message_group_id"] is None]
    numbered = [{**row, "unit": None, "position": None} for row in others]
    counts = Counter[str]()
    for row in sorted(in_order, key=_order):
        share = crc32(row["message_group_id"].encode()) % max(1, min(64, messages // 1000))
        unit = f"in-order-{share:02d}"
        numbered.append({**row, "unit": unit, "position": counts[unit]})
        counts[unit] += 1
    return numbered


def _order(row: Row) -> tuple[Any, ...]:
    number = row["sequence_number"]
    has_number = (1, len(number), number) if number else (0, 0, "")
    return (*has_number, row["sent_at"], row["message_id"])


def _messages(archive: Archive) -> list[Row]:
    """Read one row of each message: that which was drained first."""
    rows = []
    for path in message_files(archive):
        table = pq.ParquetFile(pa.BufferReader(archive.read(path))).read()
        rows += [{**row, "file": path} for row in table.to_pylist()]

    rows.sort(
        key=lambda row: (
            row["drained_at"],
            drain_of(row["file"]),
            row["receive_count"] or 0,
            row["file"],
        )
    )
    return list({row["message_id"]: row for row in reversed(rows)}.values())


def write_plan_table(archive: Archive, folder: str, rows: Sequence[Row]) -> str:
    numbered = numbered_by_the_rule(rows, len(rows))
    table = pa.Table.from_pylist([{name: row[name] for name in _TABLE} for row in numbered])
    return write_whole(archive, folder, [table])
