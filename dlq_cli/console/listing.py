"""Which groups the list shows, and in which order. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from dlq_cli.console.reading import Group
from spark_reprocess.figures import epoch
from spark_reprocess.findings import format_predicate
from spark_reprocess.triage import Status

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
