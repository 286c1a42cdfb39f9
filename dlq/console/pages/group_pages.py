"""Pages about many groups: the list with its search, and decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from dlq.archive.ledger.claims import open_run_notes
from dlq.console import reports
from dlq.console.reports import Group, MeanwhileError, Report
from dlq.console.site import GROUPS, PAGE_ROWS, Visit, number_of, page_route
from dlq.errors import InputError
from dlq.explain.findings import NO_QUEUE, Findings, GroupFinding, format_predicate, in_rows
from dlq.explain.triage import Status, note_of
from dlq.plan.changes import decide
from dlq.plan.plan import Action
from dlq.plan.plan_file import NoReportError
from dlq.report.views import View, group_view, head_view

_SEVERITY = [status.value for status in Status]

_FIELDS = ("q", "status", "action", "queue", "sort", "from", "to")
"""Fields of an address, or of a form, that select the listed groups and their order."""

_MOST_COMMANDS = 20
"""Commands that are shown for groups that somebody else changed."""


def _time_range(fields: Mapping[str, str]) -> range:
    """Return the buckets of time whose messages a group must have; empty for all groups."""
    first = number_of(fields.get("from", ""), -1)
    last = number_of(fields.get("to", ""), -1)
    return range(first, last + 1) if first >= 0 else range(0)


def matching_groups(groups: Sequence[Group], fields: Mapping[str, str]) -> list[Group]:
    """Return the groups that match, by severity of their status, and then in the plan's order.

    With the field ``sort`` they are sorted by queue first.
    """
    words = fields.get("q", "").lower().split()
    status = fields.get("status", "")
    action = fields.get("action", "")
    queue = fields.get("queue", "")
    times = _time_range(fields)

    def matches(group: Group) -> bool:
        listed = group.listed
        arrivals = group.finding.arrivals if group.finding else ()
        return (
            status in ("", listed.status)
            and queue in ("", listed.queue or NO_QUEUE)
            and action in ("", listed.action, "edited" if listed.is_edited else "")
            and (not times or any(arrivals[times.start : times.stop]))
            and (not words or all(map(_searched_text(group).__contains__, words)))
        )

    matching = sorted(filter(matches, groups), key=_severity)
    if fields.get("sort") == "queue":
        matching.sort(key=lambda group: (not group.listed.queue, group.listed.queue))
    return matching


def _severity(group: Group) -> int:
    """Return the position of a group's status; a status that is not known comes last."""
    status = group.listed.status
    return _SEVERITY.index(status) if status in _SEVERITY else len(_SEVERITY)


def _searched_text(group: Group) -> str:
    parts = [group.group_id, group.listed.title, group.listed.note]
    finding = group.finding
    if finding:
        parts.append(finding.note)
        parts += map(format_predicate, finding.differences)
        parts += [*finding.reasons, *finding.sources]
    return "\n".join(parts).lower()


def _groups(visit: Visit) -> Response:
    try:
        report = reports.read_report(visit.console, visit.query.get("plan"))
    except NoReportError:
        # A new user begins there: that page has the button to collect.
        return visit.see_other("/jobs", begin="yes")

    matching = matching_groups(report.groups, visit.query)
    rows = in_rows(matching, report.findings.similar if report.findings else {})
    number, pages = visit.page_number(len(rows))
    values: dict[str, Any] = {
        "report": report,
        "rows": rows[(number - 1) * PAGE_ROWS : number * PAGE_ROWS],
        "matching": len(matching),
        "number": number,
        "pages": pages,
        "messages": sum(group.planned.count for group in report.groups) or 1,
        "wanted": {name: visit.query.get(name, "") for name in _FIELDS},
        "address_plan": report.address_plan,
        "queues": report.findings.queues if report.findings else {},
    }
    if visit.is_fragment:
        return visit.page("groups_list.html.jinja", **values)
    return visit.page(
        "groups.html.jinja",
        view=report.findings and list_view(report, report.findings),
        open_runs=open_run_notes(visit.console.archive),
        times=_time_range(visit.query),
        statuses=[status.value for status in Status if status is not Status.GONE],
        actions=[action.value for action in Action],
        **values,
    )


def list_view(report: Report, findings: Findings) -> View:
    """Return the values that the report's templates need for its head and its chart.

    The head counts the messages that are pending now, where that is known, and the groups that are
    halted now, not those of the analysis.
    """
    settled = 0
    pending_groups = 0
    current_findings: list[GroupFinding] = []
    views: list[View] = []
    for group in report.groups:
        listed = group.listed
        pending = listed.count if listed.pending is None else listed.pending
        settled += listed.count - pending
        if pending:
            pending_groups += 1
        if group.finding:
            finding = replace(group.finding, status=listed.status)
            current_findings.append(finding)
            views.append(group_view(finding, len(current_findings), has_samples=False))

    findings = replace(
        findings,
        messages=findings.messages - settled,
        different=0 if settled else findings.different,
        groups=tuple(current_findings),
    )
    return {
        **head_view(findings),
        "groups": views,
        "pending_groups": pending_groups if settled else None,
    }


def _decide(visit: Visit) -> Response:
    """Decide about the groups that a form names, or about all that match its search."""
    try:
        action = Action(visit.field("decision"))
    except ValueError as error:
        raise InputError(f"choose one of {', '.join(Action)}") from error

    plan_id = visit.field("plan")
    note = note_of(visit.field("note").strip()) or None
    seen = _seen_groups(visit, plan_id)
    if not seen:
        raise InputError("choose at least one group")

    try:
        change = partial(decide, group_ids=[*seen], action=action, note=note)
        reports.change_groups(visit.console, plan_id, seen, change, action, note)
    except MeanwhileError as error:
        return _meanwhile(visit, error, seen)

    done = {"plan": visit.field("shown_plan"), "decided": action.value}
    if visit.field("back") and len(seen) == 1:
        return visit.see_other(f"{GROUPS}{next(iter(seen))}", **done)
    return visit.see_other("/", **done, count=str(len(seen)))


def _seen_groups(visit: Visit, plan_id: str) -> dict[str, str]:
    """Return the digests of the groups that a form is about, as its page showed them, by id.

    Raises:
        InputError: other groups match the search than the page counted.
    """
    shown: dict[str, str] = {}
    for text in visit.fields("seen"):
        group_id, _, digest = text.partition(":")
        shown[group_id] = digest
    if not visit.field("all_matching"):
        return {group_id: shown.get(group_id, "") for group_id in visit.fields("group")}

    report = reports.read_report(visit.console, plan_id)
    fields = {name: visit.field(f"find_{name}") for name in _FIELDS}
    matching = matching_groups(report.groups, fields)
    if str(len(matching)) != visit.field("all_matching"):
        raise InputError("the list has changed since: look at it again, then decide")
    # A group that the page did show counts as it was shown.
    return {group.group_id: shown.get(group.group_id, group.seen) for group in matching}


def _meanwhile(visit: Visit, error: MeanwhileError, seen: dict[str, str]) -> Response:
    current = {**seen}
    for group in error.groups:
        current[group.group_id] = reports.entry_digest(group)

    note = visit.field("note").strip()
    words = [visit.field("decision")]
    if note:
        words += ["--note", note]
    shown_ids = list(current)[:_MOST_COMMANDS]
    return visit.page(
        "meanwhile.html.jinja",
        HTTPStatus.CONFLICT,
        groups=error.groups,
        plan=error.plan,
        seen=current,
        decision=visit.field("decision"),
        note=visit.field("note"),
        shown_plan=visit.field("shown_plan"),
        back=visit.field("back"),
        commands=[visit.console.command("decide", group_id, *words) for group_id in shown_ids],
    )


ROUTES = (
    page_route("/", _groups),
    page_route("/decide", _decide, "POST"),
)
