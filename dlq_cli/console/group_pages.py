"""Pages about many groups: the list, and decisions."""

from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from dlq_cli.console.deciding import MeanwhileError, decide_groups
from dlq_cli.console.listing import ORDERS, Page, Wanted, page_of
from dlq_cli.console.reading import Group, Report, entry_digest, read_report
from dlq_cli.console.site import GROUPS, Visit, done_of, page_route, see_other
from spark_reprocess.errors import InputError
from spark_reprocess.findings import Findings
from spark_reprocess.plan.plan import Action
from spark_reprocess.plan.plan_file import NoReportError
from spark_reprocess.report.views import COLOURS, arrivals_table, outline, without_time
from spark_reprocess.triage import Status, note_of


def _groups(visit: Visit) -> Response:
    try:
        report = read_report(visit.console.archive, visit.query.get("plan"))
    except NoReportError:
        # Where a person begins: this page has the buttons to drain and to analyze.
        return see_other("/works", begin="yes")
    wanted = Wanted.of(visit.query)
    page = page_of(report.groups, wanted)
    values: dict[str, Any] = {
        "report": report,
        "rows": _rows(report, page),
        "page": page,
        "wanted": wanted,
    }
    values |= {"orders": ORDERS, "place": report.place}
    if visit.is_fragment:
        return visit.page("groups_list.html.jinja", **values, done=None)
    return visit.page(
        "groups.html.jinja",
        view=report.findings and list_view(report.findings),
        statuses=[one.value for one in Status if one is not Status.GONE],
        actions=[one.value for one in Action],
        done=done_of(visit),
        **values,
    )


def _rows(report: Report, page: Page) -> list[dict[str, Any]]:
    total = sum(one.planned.count for one in report.groups) or 1
    return [_row(one, total) for one in page.groups]


def _row(one: Group, total: int) -> dict[str, Any]:
    return {
        "group": one,
        "said": one.listed,
        "found": one.found,
        "colour": one.rank if one.rank <= COLOURS else 0,
        "share": one.planned.count / total,
        "outline": outline(one.found.arrivals) if one.found else "",
        "width": max(1, len(one.found.arrivals)) if one.found else 1,
        "lead": next(iter(one.found.leads), None) if one.found else None,
    }


def list_view(findings: Findings) -> dict[str, Any]:
    """Return what the report's templates need for its head and its chart.

    The groups without a colour of their own are one row of numbers: a page need not carry the
    arrivals of a thousand.
    """
    columns = [one.arrivals for one in findings.groups]
    others = [sum(bucket) for bucket in zip(*columns[COLOURS:], strict=False)]
    starts = [one.first_sent_at for one in findings.groups if one.first_sent_at]
    ends = [one.last_sent_at for one in findings.groups if one.last_sent_at]
    return {
        "findings": findings,
        "groups": [
            {
                "found": one,
                "anchor": one.group_id,
                "title": one.title.strip() or "(no title)",
                "colour": rank if rank <= COLOURS else 0,
                "lead": next(iter(one.leads), None),
            }
            for rank, one in enumerate(findings.groups, start=1)
        ],
        "first_sent": min(starts, default=None),
        "last_sent": max(ends, default=None),
        "table": arrivals_table(findings),
        "without_time": without_time(findings),
        "path_of_groups": GROUPS,
        "data": {
            "starts": [int(start.timestamp()) for start in findings.bucket_starts],
            "seconds": findings.bucket_seconds,
            "colours": COLOURS,
            "arrivals": [*columns[:COLOURS], *([others] if others else [])],
        },
    }


def _decide(visit: Visit) -> Response:
    """Decide about the groups that a form names, or about all that match its search."""
    plan_id, action, note = _decision(visit)
    seen = _seen(visit)
    if visit.field("all_matching"):
        report = read_report(visit.console.archive, plan_id)
        fields = {
            name: visit.field(name) for name in ("q", "status", "action", "sort", "from", "to")
        }
        matching = page_of(
            report.groups, Wanted.of({**fields, "action": visit.field("with_action")})
        )
        digests = {one.group_id: one.seen for one in matching.matching}
        if str(len(digests)) != visit.field("all_matching"):
            raise InputError("the list has changed since: look at it again, then decide")
        # What the page did show counts as it was shown.
        seen = {**digests, **{one: seen[one] for one in digests.keys() & seen.keys()}}
    else:
        chosen = visit.fields("group")
        seen = {one: seen.get(one, "") for one in chosen}
    if not seen:
        raise InputError("choose at least one group")
    try:
        decide_groups(visit.console, plan_id, seen, action, note)
    except MeanwhileError as error:
        return _meanwhile(visit, error, seen)
    back = visit.field("back")
    if back and len(seen) == 1:
        return see_other(
            f"{GROUPS}{next(iter(seen))}", plan=visit.field("shown_plan"), decided=action.value
        )
    return see_other(
        "/", plan=visit.field("shown_plan"), decided=action.value, count=str(len(seen))
    )


def _decision(visit: Visit) -> tuple[str, Action, str | None]:
    try:
        action = Action(visit.field("decision"))
    except ValueError as error:
        raise InputError(f"choose one of {', '.join(Action)}") from error
    return visit.field("plan"), action, note_of(visit.field("note").strip()) or None


def _seen(visit: Visit) -> dict[str, str]:
    pairs = (one.partition(":") for one in visit.fields("seen"))
    return {group_id: digest for group_id, _, digest in pairs}


def _meanwhile(visit: Visit, error: MeanwhileError, seen: dict[str, str]) -> Response:
    """Show what somebody else said meanwhile, with the same form to confirm."""
    now = {**seen, **{one.group_id: entry_digest(one) for one in error.groups}}
    return visit.page(
        "meanwhile.html.jinja",
        HTTPStatus.CONFLICT,
        groups=error.groups,
        plan=error.plan,
        seen=now,
        decision=visit.field("decision"),
        note=visit.field("note"),
        shown_plan=visit.field("shown_plan"),
        back=visit.field("back"),
        commands=[
            visit.console.command("decide", one, visit.field("decision"), *_note_words(visit))
            for one in list(now)[:20]
        ],
    )


def _note_words(visit: Visit) -> tuple[str, ...]:
    note = visit.field("note").strip()
    return ("--note", note) if note else ()


ROUTES = (
    page_route("/", _groups),
    page_route("/decide", _decide, "POST"),
)
