"""What a plan says beside each group, as comments. Pure.

The lead's lines begin as ``plan.titles`` knows them: to erase a message is to take them away too.
"""

from shlex import quote

from spark_reprocess.analysis.lead_words import lead_words
from spark_reprocess.figures import percent
from spark_reprocess.findings import Findings, GroupFinding


def plan_notes(findings: Findings) -> dict[str, list[str]]:
    """Return the lines of each group's comment, by group id."""
    return {group.group_id: _notes(group, findings.undecided) for group in findings.groups}


def _notes(group: GroupFinding, undecided: int) -> list[str]:
    share = f"{percent(group.share)} of {undecided:,} undecided messages"
    notes = [f"{share}, {group.trend}" if group.trend else share]
    if group.leads:
        best = group.leads[0]
        notes.append(f"lead: {lead_words(best)}")
        if best.condition:
            notes.append(f"--where {quote(best.condition)}")
    return notes
