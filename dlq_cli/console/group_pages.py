"""Pages about many groups: the list, searched and sorted, and decisions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self

from starlette.responses import Response

from dlq_cli.console.deciding import MeanwhileError, decide_groups
from dlq_cli.console.reading import Group, Report, entry_digest, read_report
from dlq_cli.console.site import GROUPS, Visit, done_of, page_route, see_other
from spark_reprocess.errors import InputError
from spark_reprocess.figures import epoch
from spark_reprocess.findings import Findings, format_predicate
from spark_reprocess.plan.plan import Action
from spark_reprocess.plan.plan_file import NoReportError
from spark_reprocess.report.views import COLOURS, arrivals_table, outline, without_time
from spark_reprocess.triage import Status, note_of

PAGE_GROUPS = 50

_SEVERITY = {status.value: place for place, status in enumerate(Status)}
_TRENDS = {"rising": 0, "steady": 1, "falling": 2, "over": 3}
_ACTIONS = {"leave": 0, "redrive": 1, "discard": 2}
_LATE = 2**62


def _first_sent(one: Group) -> int:
    return epoch(one.found.first_sent_at if one.found else None)


def _last_sent(one: Group) -> int:
    return -epoch(one.found.last_sent_at if one.found else None)


def _trend(one: Group) -> int:
    return _TRENDS.get(one.found.trend if one.found else "", len(_TRENDS))


def _lead(one: Group) -> float:
    return -max((lead.score for lead in (one.found.leads if one.found else ())), default=0)


def _expiry(one: Group) -> int:
    return epoch(one.found.expires_at if one.found else None) or _LATE


ORDERS: Mapping[str, tuple[str, Callable[[Group], float]]] = {
    "count": ("messages", lambda one: -one.planned.count),
    "status": ("status", lambda one: _SEVERITY.get(one.listed.status, len(_SEVERITY))),
    "last": ("last sent", _last_sent),
    "first": ("first sent", _first_sent),
    "trend": ("trend", _trend),
    "score": ("lead", _lead),
    "expires": ("expiry", _expiry),
    "decision": ("decision", lambda one: _ACTIONS.get(one.listed.action, len(_ACTIONS))),
}
"""By the word in the address: its name, and what to sort by, ascending. Ties are in the order of
the plan."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader wants to see; an unknown word in an address counts as its default.

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
            page=max(1, _number(query.get("page", ""), 1)),
            first=_number(query.get("from", ""), -1),
            last=_number(query.get("to", ""), -1),
        )

    @property
    def fields(self) -> dict[str, str]:
        """The fields of an address with the same list; without the page."""
        times = {"from": str(self.first), "to": str(self.last)} if self.has_times else {}
        sort = {} if self.sort == "count" else {"sort": self.sort}
        return {"q": self.words, "status": self.status, "action": self.action, **sort, **times}

    @property
    def has_times(self) -> bool:
        """Whether only some buckets count."""
        return 0 <= self.first <= self.last


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else otherwise  # noqa: PLR2004


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
    matching = [one for one in groups if _matches(one, wanted, words)]
    matching.sort(key=ORDERS[wanted.sort][1])
    pages = max(1, -(-len(matching) // PAGE_GROUPS))
    number = min(wanted.page, pages)
    start = (number - 1) * PAGE_GROUPS
    return Page(matching[start : start + PAGE_GROUPS], matching, number, pages)


def _matches(one: Group, wanted: Wanted, words: Sequence[str]) -> bool:
    if wanted.status and one.listed.status != wanted.status:
        return False
    if wanted.action == "edited":
        if not one.listed.is_edited:
            return False
    elif wanted.action and one.listed.action != wanted.action:
        return False
    arrivals = one.found.arrivals if one.found else ()
    if wanted.has_times and not sum(arrivals[wanted.first : wanted.last + 1]):
        return False
    if not words:
        return True
    text = _text(one)
    return all(word in text for word in words)


def _text(one: Group) -> str:
    """Return all that a search looks through."""
    said, found = one.listed, one.found
    parts = [one.group_id, said.title, said.note]
    if found:
        parts += [found.note, *map(format_predicate, found.leads)]
        parts += [name for name, _ in (*found.reasons, *found.sources)]
    return "\n".join(parts).lower()


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
