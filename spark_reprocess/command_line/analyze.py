"""``analyze``: archive to report and plan."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from spark_reprocess.analysis.mask import shorten
from spark_reprocess.archive.message_index import REPORTS
from spark_reprocess.command_line.arguments import WHERE, add_masks, add_policy_sha256, since
from spark_reprocess.command_line.terminal import print_answer, print_line, print_table
from spark_reprocess.command_line.verb import DONE, STACK, Verb, progress_here, suggestion
from spark_reprocess.errors import InputError
from spark_reprocess.figures import counted, percent
from spark_reprocess.findings import (
    LEAST_GROUP,
    TOO_FEW,
    Findings,
    GroupFinding,
    format_lead,
    format_predicate,
    format_statuses,
)

_ABOUT = """\
Groups the archive's undecided messages by failure, and finds what sets each group apart (its
leads). Writes report.html (one self-contained page), summary.json and groups.parquet for programs,
and plan.yaml, in which each group's action is "leave" unless a rule of a policy sets another one.
Uses no queue. Titles and leads are printed on a terminal only: elsewhere, as in the log of a
scheduled job, it prints group ids, counts and the report's address. docs/analysis.md explains
groups and leads."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", metavar="FOLDER", help="the report's folder (default: FOLDER/reports/ID)")
    add("--where", metavar="SQL", help=WHERE)
    add(
        "--since",
        type=since,
        metavar="AGE|TIME",
        help="only messages parked since then: 45m, 12h, 7d, 2w, or a time such as "
        "2026-11-01T09:30:00Z; the plan keeps the time",
    )
    add(
        "--policy",
        metavar="FILE",
        help="rules that set the plan's actions: a file, or s3://BUCKET/KEY (see run --help)",
    )
    add_policy_sha256(parser)
    add(
        "--logs",
        metavar="GROUP|FILE",
        action="append",
        help="a log group of the consumer's, or a FILE.jsonl of its events: look there for the "
        "errors of messages without a recorded one; may be repeated",
    )
    add_masks(
        parser,
        "hide a field with everything below it (body.customer.name, attribute.tenant), or what a "
        "regular expression matches, in samples, titles and leads; e-mail addresses, card, phone "
        "and account numbers, tokens and fields named like secrets are always hidden, but not "
        "names, addresses and free text",
        "show no values of messages: no samples, no words of text bodies in titles; keys, values "
        "that name a kind of message (type, action) and recorded errors are still shown",
    )


def _run(values: dict[str, Any]) -> int:
    from spark_reprocess.analysis.analyze import AnalyzeOptions, analyze, load_policy
    from spark_reprocess.command_line.spark_session import start_spark

    location, sha256 = values.pop("policy"), values.pop("policy_sha256")
    values["logs"] = values["logs"] or ()
    if sha256 and not location:
        raise InputError("--policy-sha256 needs --policy: the file that has this hash")
    spark = start_spark()
    # Only Spark can check its conditions.
    policy = load_policy(spark, location, sha256) if location else None
    options = AnalyzeOptions(**values, policy=policy, stack=STACK.get())
    findings = analyze(spark, options, progress=progress_here())
    print_answer(analysis_fields(findings), lambda: print_analysis(findings))
    return DONE


_COLUMNS = ("group", "count", "share", "trend")
_FIELDS = (
    *("plan_id", "archive", "analyzed_at", "messages", "unlisted_groups"),
    *("unlisted_messages", "statuses", "unreadable", "left_for_people", "logs"),
)
_GROUP = ("group_id", "count", "share", "trend", "status")
_GROUPS_IN_A_LOG = 30
_GROUPS_ON_A_TERMINAL = 12
_TITLE_ON_A_TERMINAL = 100
"""Characters: two lines in a table of 100 columns. The report has the whole title."""
_TREND_CHARACTERS = 12
_BARS = "▁▂▃▄▅▆▇█"


def analysis_fields(findings: Findings) -> dict[str, object]:
    """Return the fields of the JSON answer.

    Like the answer in a log it has no words of messages: ``groups`` and summary.json have them.
    """
    return {
        **{name: getattr(findings, name) for name in _FIELDS},
        "plan": findings.plan_path,
        "groups": [{name: getattr(one, name) for name in _GROUP} for one in findings.groups],
        "gone": [one.group_id for one in findings.gone],
    }


def print_analysis(findings: Findings) -> None:
    """Print the largest groups, the report's address and the next command.

    Titles and leads quote messages, so they are printed on a terminal only. Elsewhere, as in the
    log of a scheduled job, the answer has ids and counts.
    """
    listed = len(findings.groups)
    groups = listed + findings.unlisted_groups
    print_line(f"{counted(findings.messages, 'message')} undecided in {counted(groups, 'group')}")
    if findings.statuses:
        print_line(f"groups: {format_statuses(findings.statuses)}")
    if findings.logs:
        print_line(findings.logs)
    for path in findings.unreadable:
        print_line(f"note: {path} cannot be read; what it says of a group is left out")
    if left := findings.left_for_people:
        named = [f"{group_id} ({word})" for group_id, word in left.items()]
        more = ", …" if len(named) > _GROUPS_IN_A_LOG else ""
        print_line(
            f"left for a person, who last said otherwise than the policy: "
            f"{counted(len(left), 'group')}: {', '.join(named[:_GROUPS_IN_A_LOG])}{more}"
        )
    folder = findings.plan_path.removesuffix("/plan.yaml")
    if not findings.groups:
        print_line(f"nothing is left to decide; report: {folder}")
        return
    is_terminal = sys.stdout.isatty()
    shown = findings.groups[: _GROUPS_ON_A_TERMINAL if is_terminal else _GROUPS_IN_A_LOG]
    print_table(
        (*_COLUMNS, "what failed, and what sets it apart") if is_terminal else _COLUMNS,
        [
            (
                group.group_id,
                group.count,
                percent(group.share),
                f"{trend_bars(group.arrivals)}\n{group.trend}".rstrip(),
                *(["\n".join(_title_and_lead(group))] if is_terminal else []),
            )
            for group in shown
        ],
    )
    if groups > len(shown):
        rest = findings.messages - sum(group.count for group in shown)
        where = f"the report lists {listed:,}" if listed < groups else "all are in the report"
        more = counted(groups - len(shown), "smaller group")
        print_line(f"… and {more} with {counted(rest, 'message')}; {where}")
    print_line(f"report: {folder}/report.html")
    # The plan of the archive's newest report need not be named.
    is_found = findings.plan_path.startswith(f"{findings.archive}/{REPORTS}/")
    words = () if is_found else ("--plan", findings.plan_path)
    print_line(f"next: {suggestion('groups', findings.archive, *words)}")


def _title_and_lead(group: GroupFinding) -> Iterator[str]:
    yield shorten(group.title, _TITLE_ON_A_TERMINAL)
    for lead in group.leads[:1]:
        yield f"↳ {format_lead(lead)}"
        for synonym in lead.synonyms[:1]:
            more = len(lead.synonyms) - 1
            rest = f" and {more} more" if more else ""
            yield f"  same messages: {format_predicate(synonym)}{rest}"
    if not group.leads and group.count < LEAST_GROUP:
        yield f"↳ {TOO_FEW}"


def trend_bars(arrivals: Sequence[int]) -> str:
    """Draw arrivals as a row of bars, the highest at full height; a space where none arrived."""
    if not any(arrivals):
        return ""
    per_bar = -(-len(arrivals) // _TREND_CHARACTERS)
    sums = [sum(arrivals[start : start + per_bar]) for start in range(0, len(arrivals), per_bar)]
    highest = max(sums)
    return "".join(_BARS[-(-one * len(_BARS) // highest) - 1] if one else " " for one in sums)


VERB = Verb(_ABOUT, _add_arguments, dict, _run)
