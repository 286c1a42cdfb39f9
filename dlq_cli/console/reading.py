"""What the console reads of an archive, without Spark."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.group_events import read_memory, with_notes
from spark_reprocess.command_line.groups import ListedGroup, list_groups
from spark_reprocess.plan.plan import Plan
from spark_reprocess.plan.plan_file import PlanFile, find_plan
from spark_reprocess.plan.reading import read_plan
from spark_reprocess.triage.status import GroupMemory


@dataclass(frozen=True, slots=True)
class Report:
    """One report as it is now: its plan, its summary, and what is remembered of its groups.

    Attributes:
        file: the plan's.
        text: of the plan, as it was read.
        summary: of the analysis; with no groups where the plan is not beside its report.
        memory: what people said, without the texts of notes.
    """

    file: PlanFile
    text: str
    plan: Plan
    summary: Any
    memory: GroupMemory
    groups: list[ListedGroup]


def read_report(archive: Archive, plan_id: str | None, now: datetime) -> Report:
    """Read a report.

    Args:
        archive: which has it.
        plan_id: of the report; None for the newest.
        now: which snoozes are over.

    Raises:
        InputError: there is no such report, or its plan has faults.
        ArchiveError: the archive cannot be read.
    """
    file = find_plan(archive, plan_id)
    text = file.read()
    plan = read_plan(text)
    summary: Any = json.loads(file.summary() or b'{"groups": []}')
    memory = read_memory(archive)
    notes = with_notes(archive, memory, [group.group_id for group in plan.groups])
    return Report(file, text, plan, summary, memory, list_groups(plan, summary, memory, notes, now))
