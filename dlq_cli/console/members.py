"""The messages of a group: a page of them, sorted and searched. Opens no file of messages for that.

The table of the plan has what a list needs. Only a search for text opens files, a few at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from dlq_cli.console.site import number_of
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_index import shown_table
from spark_reprocess.archive.message_store import rows_of_file
from spark_reprocess.archive.open_set import planned_states
from spark_reprocess.plan.plan import Plan

PAGE_MESSAGES = 50
FILES_AT_ONCE = 16
"""Files of messages that a search for text opens, at most: some 32,000 messages."""

MOST_FOUND = 200
"""Messages that a search for text finds, at most; the reader searches further from there."""

SORTS: Mapping[str, tuple[str, str]] = {
    "oldest": ("sent_at", "ascending"),
    "newest": ("sent_at", "descending"),
    "largest": ("body_bytes", "descending"),
    "smallest": ("body_bytes", "ascending"),
    "received": ("receive_count", "descending"),
    "state": ("state", "ascending"),
}
"""By the word in the address: a column, and its order. Ties are sorted by id."""

ShownText = Callable[[Mapping[str, Any]], str]
"""Returns what a reader may see of a row with ``body``, ``attributes`` and ``error_message``."""


@dataclass(frozen=True, slots=True)
class WantedMessages:
    """Which messages of a group a reader wants to see.

    Attributes:
        text: a part of their ids, or of their texts if *in_texts*; in any case.
        sort: a key of ``SORTS``.
        page: from 1.
        skip: of the files that a search for text opens: how many were searched before.
    """

    text: str = ""
    in_texts: bool = False
    sort: str = "oldest"
    page: int = 1
    skip: int = 0

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Read the fields of an address; an unknown word counts as its default."""
        return cls(
            text=query.get("q", "").strip()[:200],
            in_texts=query.get("in") == "text",
            sort=query.get("sort", "") if query.get("sort", "") in SORTS else "oldest",
            page=max(1, number_of(query.get("page", ""))),
            skip=number_of(query.get("skip", "")),
        )

    @property
    def fields(self) -> dict[str, str]:
        """The fields of an address with the same list; without page and skip."""
        return {
            "q": self.text,
            "in": "text" if self.in_texts else "",
            "sort": "" if self.sort == "oldest" else self.sort,
        }


@dataclass(frozen=True, slots=True)
class MemberPage:
    """A part of a group's messages.

    Attributes:
        rows: on this page, with the columns of the plan's table, and its ``state``.
        matching: how many match.
        total: how many the plan froze in this group.
        number: of the page, from 1.
        pages: how many there are, at least 1.
        searched: messages whose texts were looked at; None if no text was searched for.
        searched_before: of those in files that an earlier part of the search opened.
        next_skip: where the search goes on; None where it has seen everything.
    """

    rows: Sequence[Mapping[str, Any]]
    matching: int
    total: int
    number: int
    pages: int
    searched: int | None = None
    searched_before: int = 0
    next_skip: int | None = None


def group_messages(
    archive: Archive,
    plan: Plan,
    group_id: str,
    wanted: WantedMessages,
    now: datetime,
    shown_text: ShownText,
) -> MemberPage:
    """Return a page of a group's messages.

    Args:
        archive: which has them.
        plan: of the group.
        group_id: of the group.
        wanted: which of them, and in which order.
        now: what the ages of claims are counted to.
        shown_text: what a search for text looks through: what it hides is not found.

    Raises:
        InputError: the plan has no table, or the archive has another one.
        ArchiveError: the archive cannot be read.
    """
    members = group_members(archive, plan, group_id)
    total = members.num_rows
    searched, before, next_skip = None, 0, None
    if wanted.text and wanted.in_texts:
        members, searched, before, next_skip = _with_text(archive, members, wanted, shown_text)
    elif wanted.text:
        is_in = pc.match_substring(members["message_id"], wanted.text, ignore_case=True)
        members = members.filter(is_in)
    pages = max(1, -(-members.num_rows // PAGE_MESSAGES))
    number = min(wanted.page, pages)
    column, order = SORTS[wanted.sort]
    if column == "state":
        members = _with_states(archive, plan, members, now)
    keys: Any = [(column, order), ("message_id", "ascending")]
    last = min(number * PAGE_MESSAGES, members.num_rows)
    # The first few of many: a sort of all is for the last pages alone.
    found: Any = members
    places = pc.select_k_unstable(found, k=last, sort_keys=keys) if last else pa.array([], "u8")
    shown = members.take(places[(number - 1) * PAGE_MESSAGES :])
    rows = (shown if column == "state" else _with_states(archive, plan, shown, now)).to_pylist()
    return MemberPage(rows, members.num_rows, total, number, pages, searched, before, next_skip)


def group_members(archive: Archive, plan: Plan, group_id: str) -> pa.Table:
    """Return id, file, and what people sort by, of each message that the plan froze in a group.

    Raises: as ``group_messages`` does.
    """
    table = shown_table(archive, plan.plan_id, plan.snapshot.table_sha256)
    return table.filter(pc.equal(table["group_id"], pa.scalar(group_id)))


def files_of(members: pa.Table) -> list[str]:
    """Return the files that hold these messages, in order."""
    return sorted({str(one) for one in pc.unique(members["file"]).to_pylist()})


def ids_in_file(members: pa.Table, path: str) -> list[str]:
    """Return the ids of those of the messages that one file holds."""
    in_file = members.filter(pc.equal(members["file"].cast(pa.string()), pa.scalar(path)))
    return list(map(str, in_file["message_id"].to_pylist()))


def _with_states(archive: Archive, plan: Plan, members: pa.Table, now: datetime) -> pa.Table:
    states = planned_states(archive, plan.plan_id, members["message_id"], now.timestamp())
    return members.append_column("state", states)


def _with_text(
    archive: Archive, members: pa.Table, wanted: WantedMessages, shown_text: ShownText
) -> tuple[pa.Table, int, int, int | None]:
    """Search the next files.

    Return what was found, and ``searched``, ``searched_before`` and ``next_skip``.
    """
    files = files_of(members)
    part = files[wanted.skip : wanted.skip + FILES_AT_ONCE]
    paths = members["file"].cast(pa.string())
    before = members.filter(
        pc.is_in(paths, value_set=pa.array(files[: wanted.skip], pa.string()))
    ).num_rows
    found: list[str] = []
    looked_at, opened, text = 0, 0, wanted.text.lower()
    columns = ("message_id", "body", "error_message", "attributes")
    for path in part:
        ids = ids_in_file(members, path)
        looked_at += len(ids)
        opened += 1
        if rows := rows_of_file(archive, path, ids, columns):
            in_body = pc.match_substring(rows["body"], text, ignore_case=True)
            in_error = pc.match_substring(rows["error_message"], text, ignore_case=True)
            # Three-valued OR (SQL semantics).
            candidates = rows.filter(pc.or_kleene(in_body, in_error)).to_pylist()
            # Only what a reader may see counts: else a search would tell what a mask hides.
            found += [row["message_id"] for row in candidates if text in shown_text(row).lower()]
        if len(found) >= MOST_FOUND:
            break
    next_skip = wanted.skip + opened
    matching = members.filter(
        pc.is_in(members["message_id"], value_set=pa.array(found, pa.string()))
    )
    return matching, looked_at, before, next_skip if next_skip < len(files) else None
