"""The answer of ``analyze``: the report's heads as a table.

Where nobody looks, the answer is a log that others read: it has ids and counts, and no words of
messages, which titles and leads quote.
"""

import shlex
import sys
from collections.abc import Sequence

from spark_reprocess.analysis.mask import shorten
from spark_reprocess.command_line.answers import COMMAND
from spark_reprocess.command_line.terminal import print_table, say
from spark_reprocess.figures import counted, percent
from spark_reprocess.findings import Findings, GroupFinding, claim_words, lead_words

_COLUMNS = ("group", "count", "share", "trend")
_GROUPS_IN_A_LOG = 30
_GROUPS_ON_A_SCREEN = 12
_TITLE_ON_A_SCREEN = 100
"""Two lines in a table of 100 columns: the report has the rest."""
_TREND_CHARACTERS = 12
_BARS = "▁▂▃▄▅▆▇█"


def print_analysis(findings: Findings) -> None:
    """Say which failures there are, where the report lies, and what to type next."""
    listed = len(findings.groups)
    groups = listed + findings.unlisted_groups
    say(
        f"{counted(findings.messages, 'message')}, {findings.decided:,} decided before, "
        f"{findings.undecided:,} undecided in {counted(groups, 'group')}"
    )
    folder = findings.plan_path.removesuffix("/plan.yaml")
    if not findings.groups:
        say(f"nothing is left to decide; report: {folder}")
        return
    is_looked_at = sys.stdout.isatty()
    shown = findings.groups[: _GROUPS_ON_A_SCREEN if is_looked_at else _GROUPS_IN_A_LOG]
    print_table(
        (*_COLUMNS, "what failed, and what sets it apart") if is_looked_at else _COLUMNS,
        [_counts_and_words(group) if is_looked_at else _counts(group) for group in shown],
    )
    if groups > len(shown):
        rest = findings.undecided - sum(group.count for group in shown)
        where = f"the report lists {listed:,}" if listed < groups else "all are in the report"
        more = counted(groups - len(shown), "smaller group")
        say(f"… and {more} with {counted(rest, 'message')}; {where}")
    say(f"report: {folder}/report.html")
    say(f"next: edit the actions in {findings.plan_path}, then look at what would happen:")
    say(
        f"  {COMMAND} redrive --archive {shlex.quote(findings.archive)} "
        f"--plan {shlex.quote(findings.plan_path)} --to-queue-url URL"
    )


def _counts(group: GroupFinding) -> tuple[object, ...]:
    trend = f"{trend_bars(group.arrivals)}\n{group.trend}".rstrip()
    return (group.group_id, group.count, percent(group.share), trend)


def _counts_and_words(group: GroupFinding) -> tuple[object, ...]:
    title = shorten(group.title, _TITLE_ON_A_SCREEN)
    return (*_counts(group), "\n".join([title, *_lead_lines(group)]))


def _lead_lines(group: GroupFinding) -> list[str]:
    if not group.leads:
        return []
    lead, *_ = group.leads
    lines = [f"↳ {lead_words(lead)}"]
    if lead.synonyms:
        first, *more = lead.synonyms
        rest = f" and {len(more)} more" if more else ""
        lines.append(f"  same messages: {claim_words(first)}{rest}")
    return lines


def trend_bars(arrivals: Sequence[int], characters: int = _TREND_CHARACTERS) -> str:
    """Draw arrivals as a row of bars, the highest at full height; none of any is a space."""
    if not any(arrivals):
        return ""
    per_bar = -(-len(arrivals) // characters)
    sums = [sum(arrivals[start : start + per_bar]) for start in range(0, len(arrivals), per_bar)]
    highest = max(sums)
    return "".join(_BARS[-(-one * len(_BARS) // highest) - 1] if one else " " for one in sums)
