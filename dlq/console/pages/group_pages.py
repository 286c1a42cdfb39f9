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
from dlq.explain.findings import Findings, format_predicate, in_rows
from dlq.explain.triage import Status, note_of
from dlq.plan.decision import decide
from dlq.plan.plan import Action
from dlq.plan.plan_file import NoReportError
from dlq.report.views import group_view, head_view

_SEVERITY = {status.value: place for place, status in enumerate(Status)}

_FIELDS = ("q", "status", "action", "from", "to")
"""Fields of an address, or of a form, that say which groups are listed."""


def _time_range(fields: Mapping[str, str]) -> range:
    """Return the buckets of time whose messages a group must have; empty for all groups."""
    first, last = (number_of(fields.get(name, ""), -1) for name in ("from", "to"))
    return range(first, last + 1) if first >= 0 else range(0)


def matching_groups(groups: Sequence[Group], fields: Mapping[str, str]) -> list[Group]:
    """Return the groups that match, by severity of their status, and then in the plan's order."""
    words = fields.get("q", "").lower().split()
    status, action = fields.get("status", ""), fields.get("action", "")
    times = _time_range(fields)

    def matches(group: Group) -> bool:
        listed, arrivals = group.listed, group.found.arrivals if group.found else ()
        return (
            status in ("", listed.status)
            and action in ("", listed.action, "edited" if listed.is_edited else "")
            and (not times or any(arrivals[times.start : times.stop]))
            and (not words or all(map(_text(group).__contains__, words)))
        )

    return sorted(
        filter(matches, groups), key=lambda one: _SEVERITY.get(one.listed.status, len(_SEVERITY))
    )


def _text(group: Group) -> str:
    """Return all that a search looks through."""
    listed, finding = group.listed, group.found
    parts = [group.group_id, listed.title, listed.note]
    if finding:
        parts += [finding.note, *map(format_predicate, finding.leads)]
        parts += [*finding.reasons, *finding.sources]
    return "\n".join(parts).lower()


def _groups(visit: Visit) -> Response:
    try:
        report = reports.read_report(visit.console, visit.query.get("plan"))
    except NoReportError:
        # Where a person begins: this page has the button to collect.
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
        "place": report.place,
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


def list_view(report: Report, findings: Findings) -> dict[str, Any]:
    """Return what the report's templates need for its head and its chart.

    The head counts what is pending now, where that is known, and which groups are stopped now, not
    what the analysis found.
    """
    listed = [group.listed for group in report.groups]
    left = [group.count if group.pending is None else group.pending for group in listed]
    settled = sum(group.count for group in listed) - sum(left)
    groups = tuple(
        replace(one.found, status=one.listed.status) for one in report.groups if one.found
    )
    different = 0 if settled else findings.different
    messages = findings.messages - settled
    findings = replace(findings, messages=messages, different=different, groups=groups)
    return {
        **head_view(findings),
        "groups": [
            group_view(group, rank, has_samples=False) for rank, group in enumerate(groups, start=1)
        ],
        "pending_groups": sum(map(bool, left)) if settled else None,
    }


def _decide(visit: Visit) -> Response:
    """Decide about the groups that a form names, or about all that match its search."""
    try:
        action = Action(visit.field("decision"))
    except ValueError as error:
        raise InputError(f"choose one of {', '.join(Action)}") from error
    plan_id, note = visit.field("plan"), note_of(visit.field("note").strip()) or None
    pairs = (text.partition(":") for text in visit.fields("seen"))
    seen = {group_id: digest for group_id, _, digest in pairs}
    if visit.field("all_matching"):
        report = reports.read_report(visit.console, plan_id)
        fields = {name: visit.field(f"find_{name}") for name in _FIELDS}
        digests = {one.group_id: one.seen for one in matching_groups(report.groups, fields)}
        if str(len(digests)) != visit.field("all_matching"):
            raise InputError("the list has changed since: look at it again, then decide")
        # What the page did show counts as it was shown.
        seen = digests | {group_id: seen[group_id] for group_id in digests.keys() & seen.keys()}
    else:
        seen = {group_id: seen.get(group_id, "") for group_id in visit.fields("group")}
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


def _meanwhile(visit: Visit, error: MeanwhileError, seen: dict[str, str]) -> Response:
    now = {**seen, **{group.group_id: reports.entry_digest(group) for group in error.groups}}
    note = visit.field("note").strip()
    words = (visit.field("decision"), *(("--note", note) if note else ()))
    return visit.page(
        "meanwhile.html.jinja",
        HTTPStatus.CONFLICT,
        groups=error.groups,
        plan=error.plan,
        seen=now,
        **{name: visit.field(name) for name in ("decision", "note", "shown_plan", "back")},
        commands=[visit.console.command("decide", group_id, *words) for group_id in list(now)[:20]],
    )


ROUTES = (
    page_route("/", _groups),
    page_route("/decide", _decide, "POST"),
)
