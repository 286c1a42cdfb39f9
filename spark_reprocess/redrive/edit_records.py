"""Which edits a plan's runs used: in the ledger, so that a change of mind between two runs shows.

``ledger/plan_id=<id>/edits/<group>.<digest>.json`` holds the edit itself, and the run that first
used it. Each claim names the digests of its groups.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import (
    LEDGER,
    timestamp,
)
from spark_reprocess.errors import ArchiveError
from spark_reprocess.plan.plan import Plan
from spark_reprocess.redrive.run_context import RunContext


@dataclass(frozen=True, slots=True)
class EditRecord:
    """An edit that a run set out to send with, by whom and when (ISO 8601, UTC)."""

    group_id: str
    digest: str
    run_id: str
    who: str
    time: str


def record_edits(archive: Archive, context: RunContext, now_seconds: float) -> None:
    """Write down the edits of a run before its first message is sent.

    Raises:
        ArchiveError: they cannot be written; nothing may be sent then.
    """
    head = {
        "version": 1,
        "run_id": context.run_id,
        "who": context.who,
        "time": timestamp(now_seconds),
    }
    for group_id, edit in context.edits.items():
        content = json.dumps({**head, **json.loads(edit.text)}, indent=1)
        path = f"{_folder(context.plan_id)}/{group_id}.{edit.digest}.json"
        archive.create(path, content.encode())


def other_edits(archive: Archive, plan: Plan, sent_before: Mapping[str, int]) -> Iterator[str]:
    """Say of which groups earlier runs sent messages otherwise than this plan would now.

    Args:
        archive: where the ledger is.
        plan: as it reads now.
        sent_before: how many messages of each group were sent before.
    """
    records = list(edit_records(archive, plan.plan_id))
    for group_id, count in sent_before.items():
        if not count:
            continue
        now = plan.edits[group_id].digest if group_id in plan.edits else None
        of_group = [record for record in records if record.group_id == group_id]
        others = [f"edit {r.digest} (run {r.run_id}, {r.who})" for r in of_group if r.digest != now]
        if now is not None and not of_group:
            others = ["no edit"]
        if others:
            yield (
                f"group {group_id}: {count:,} messages were sent before, by runs with "
                f"{', '.join(others)}; the rest goes with {f'edit {now}' if now else 'no edit'}"
            )


def edit_records(archive: Archive, plan_id: str) -> Iterator[EditRecord]:
    """Read which edits this plan's runs have used.

    Raises:
        ArchiveError: one cannot be read, or somebody changed it.
    """
    for path in archive.list(_folder(plan_id)):
        group_id, digest, _ = path.rsplit("/", 1)[1].split(".")
        try:
            raw = json.loads(archive.read(path) or b"")
            yield EditRecord(group_id, digest, raw["run_id"], raw["who"], raw["time"])
        except (ValueError, KeyError, TypeError) as error:
            raise ArchiveError(
                f"archive {archive.root}: {path} cannot be read ({type(error).__name__}); "
                "somebody changed it: restore it, do not delete it"
            ) from error


def _folder(plan_id: str) -> str:
    return f"{LEDGER}/plan_id={plan_id}/edits"
