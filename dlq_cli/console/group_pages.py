"""Pages about many groups: the list, searched and sorted, and decisions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Self

from starlette.responses import Response

from dlq_cli.console.deciding import MeanwhileError, decide_groups
from dlq_cli.console.reading import Group, Report, entry_digest, read_report
from dlq_cli.console.site import GROUPS, Visit, done_of, number_of, page_route
from spark_reprocess.errors import InputError
from spark_reprocess.figures import epoch
from spark_reprocess.findings import Findings, format_predicate
from spark_reprocess.plan.plan import Action
from spark_reprocess.plan.plan_file import NoReportError
from spark_reprocess.report.views import COLOURS, chart_data, head_view, outline
from spark_reprocess.triage import Status, note_of

PAGE_GROUPS = 50

_SEVERITY = {status.value: place for place, status in enumerate(Status)}
_TRENDS = {"rising": 0, "steady": 1, "falling": 2, "ended": 3}
_ACTIONS = {"leave": 0, "redrive": 1, "discard": 2}
_LATE = 2**62


ORDERS: Mapping[str, tuple[str, Callable[[Group], float]]] = {
    "count": ("messages", lambda one: -one.planned.count),
    "status": ("status", lambda one: _SEVERITY.get(one.listed.status, len(_SEVERITY))),
    "last": ("last sent", lambda one: -epoch(one.found.last_sent_at if one.found else None)),
    "first": ("first sent", lambda one: epoch(one.found.first_sent_at if one.found else None)),
    "trend": ("trend", lambda one: _TRENDS.get(one.found.trend if one.found else "", len(_TRENDS))),
    "score": ("lead", lambda one: -max((lead.score for lead in one.leads), default=0)),
    "expires": ("expiry", lambda one: epoch(one.found.expires_at if one.found else None) or _LATE),
    "decision": ("decision", lambda one: _ACTIONS.get(one.listed.action, len(_ACTIONS))),
}
"""By the word in the address: its name, and what to sort by, ascending. Ties are in the order of
the plan."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Search, order and page of the list; an unknown word in an address counts as its default.

    Attributes:
        words: all of them must be in a group's texts, in any case.
        status: of the groups; empty for all.
        action: likewise; ``edited`` for those with an edit.
        sort: a key of ``ORDERS``.
        page: from 1.
        first: with *last*: only groups with messages in these buckets of time; -1 for all.
        last: the last of the buckets.
    """

    words: str = ""
    status: str = ""
    action: str = ""
    sort: str = "count"
    page: int = 1
    first: int = -1
    last: int = -1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Read the fields of an address, or of a form."""
        return cls(
            words=query.get("q", "")[:500],
            status=query.get("status", "")[:40],
            action=query.get("action", "")[:40],
            sort=query.get("sort", "") if query.get("sort", "") in ORDERS else "count",
            page=max(1, number_of(query.get("page", ""), 1)),
            first=number_of(query.get("from", ""), -1),
            last=number_of(query.get("to", ""), -1),
        )

    @property
    def fields(self) -> dict[str, str]:
        """The fields of an address with the same list; without the page."""
        times = {"from": str(self.first), "to": str(self.last)} if self.has_times else {}
        sort = {} if self.sort == "count" else {"sort": self.sort}
        return {"q": self.words, "status": self.status, "action": self.action, **sort, **times}

    @property
    def has_times(self) -> bool:
        """True if only some buckets count."""
        return 0 <= self.first <= self.last


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list.

    Attributes:
        groups: on this page.
        matching: all that match, in order.
        number: of the page, from 1.
        pages: how many there are, at least 1.
    """

    groups: Sequence[Group]
    matching: Sequence[Group]
    number: int
    pages: int


def page_of(groups: Sequence[Group], wanted: Wanted) -> Page:
    """Return the page that is wanted, or the last one where there are fewer."""
    words = wanted.words.lower().split()
    matching = [group for group in groups if _matches(group, wanted, words)]
    matching.sort(key=ORDERS[wanted.sort][1])
    pages = max(1, -(-len(matching) // PAGE_GROUPS))
    number = min(wanted.page, pages)
    start = (number - 1) * PAGE_GROUPS
    return Page(matching[start : start + PAGE_GROUPS], matching, number, pages)


def _matches(group: Group, wanted: Wanted, words: Sequence[str]) -> bool:
    if wanted.status and group.listed.status != wanted.status:
        return False
    if wanted.action == "edited":
        if not group.listed.is_edited:
            return False
    elif wanted.action and group.listed.action != wanted.action:
        return False
    arrivals = group.found.arrivals if group.found else ()
    if wanted.has_times and not sum(arrivals[wanted.first : wanted.last + 1]):
        return False
    if not words:
        return True
    text = _text(group)
    return all(word in text for word in words)


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
        console = visit.console
        plan_id, table = visit.query.get("plan"), console.failure_table
        report = read_report(console.archive, plan_id, console.now(), table)
    except NoReportError:
        # Where a person begins: this page has the button to collect.
        return visit.see_other("/works", begin="yes")
    wanted = Wanted.of(visit.query)
    page = page_of(report.groups, wanted)
    values: dict[str, Any] = {
        "report": report,
        "rows": [_row(group) for group in page.groups],
        "messages": sum(group.planned.count for group in report.groups) or 1,
        "page": page,
        "wanted": wanted,
        "orders": ORDERS,
        "place": report.place,
    }
    if visit.is_fragment:
        return visit.page("groups_list.html.jinja", **values, done=None)
    return visit.page(
        "groups.html.jinja",
        view=report.findings and list_view(report, report.findings, visit.address(GROUPS)),
        statuses=[status.value for status in Status if status is not Status.GONE],
        actions=[action.value for action in Action],
        done=done_of(visit),
        **values,
    )


def _row(group: Group) -> dict[str, Any]:
    return {
        "group": group,
        "said": group.listed,
        "found": group.found,
        "colour": group.rank if group.rank <= COLOURS else 0,
        "outline": outline(group.found.arrivals) if group.found else "",
        "width": max(1, len(group.found.arrivals)) if group.found else 1,
        "lead": next(iter(group.leads), None),
    }


def list_view(report: Report, findings: Findings, path_of_groups: str) -> dict[str, Any]:
    """Return what the report's templates need for its head and its chart.

    The head counts what is pending now, where that is known, and which groups are stopped now, not
    what the analysis found.

    The groups without a colour of their own are one row of numbers: a page need not carry the
    arrivals of a thousand.
    """
    columns = [group.arrivals for group in findings.groups]
    others = [sum(bucket) for bucket in zip(*columns[COLOURS:], strict=False)]
    listed = [group.listed for group in report.groups]
    left = [group.count if group.pending is None else group.pending for group in listed]
    settled = sum(group.count for group in listed) - sum(left)
    now = {group.group_id: group.status for group in listed}
    groups = tuple(
        replace(group, status=now.get(group.group_id, group.status)) for group in findings.groups
    )
    different = 0 if settled else findings.different
    messages = findings.messages - settled
    findings = replace(findings, messages=messages, different=different, groups=groups)
    return {
        **head_view(findings),
        "groups": [
            {
                "found": group,
                "anchor": group.group_id,
                "title": group.title.strip() or "(no title)",
                "colour": rank if rank <= COLOURS else 0,
                "lead": next(iter(group.leads), None),
            }
            for rank, group in enumerate(findings.groups, start=1)
        ],
        "pending_groups": sum(map(bool, left)) if settled else None,
        "path_of_groups": path_of_groups,
        "data": {
            **chart_data(findings),
            "arrivals": [*columns[:COLOURS], *([others] if others else [])],
        },
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
        report = read_report(visit.console.archive, plan_id, visit.console.now())
        fields = {name: visit.field(name) for name in ("q", "status", "sort", "from", "to")}
        wanted = Wanted.of({**fields, "action": visit.field("with_action")})
        digests = {group.group_id: group.seen for group in page_of(report.groups, wanted).matching}
        if str(len(digests)) != visit.field("all_matching"):
            raise InputError("the list has changed since: look at it again, then decide")
        # What the page did show counts as it was shown.
        seen = digests | {group_id: seen[group_id] for group_id in digests.keys() & seen.keys()}
    else:
        seen = {group_id: seen.get(group_id, "") for group_id in visit.fields("group")}
    if not seen:
        raise InputError("choose at least one group")
    try:
        decide_groups(visit.console, plan_id, seen, action, note)
    except MeanwhileError as error:
        return _meanwhile(visit, error, seen)
    done = {"plan": visit.field("shown_plan"), "decided": action.value}
    if visit.field("back") and len(seen) == 1:
        return visit.see_other(f"{GROUPS}{next(iter(seen))}", **done)
    return visit.see_other("/", **done, count=str(len(seen)))


def _meanwhile(visit: Visit, error: MeanwhileError, seen: dict[str, str]) -> Response:
    """Show what somebody else said meanwhile, with the same form to confirm."""
    now = {**seen, **{group.group_id: entry_digest(group) for group in error.groups}}
    note = visit.field("note").strip()
    words = (visit.field("decision"), *(("--note", note) if note else ()))
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
        commands=[visit.console.command("decide", group_id, *words) for group_id in list(now)[:20]],
    )


ROUTES = (
    page_route("/", _groups),
    page_route("/decide", _decide, "POST"),
)
