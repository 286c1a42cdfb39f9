"""The messages of a group: a page of them, sorted, and found by a part of their ids.

The table of the plan has what a list needs, so no file of messages is opened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from dlq_cli.console.site import number_of
from spark_reprocess.archive.ledger.open_set import planned_states
from spark_reprocess.archive.messages.message_index import shown_table
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.plan.plan import Plan

PAGE_MESSAGES = 50

SORTS: Mapping[str, tuple[str, str]] = {
    "oldest": ("sent_at", "ascending"),
    "newest": ("sent_at", "descending"),
    "largest": ("body_bytes", "descending"),
    "smallest": ("body_bytes", "ascending"),
    "received": ("receive_count", "descending"),
    "state": ("state", "ascending"),
}
"""By the word in the address: a column, and its order. Ties are sorted by id."""


@dataclass(frozen=True, slots=True)
class WantedMessages:
    """Search, order and page of a list of messages.

    Attributes:
        text: a part of their ids, in any case.
        sort: a key of ``SORTS``.
        page: from 1.
    """

    text: str = ""
    sort: str = "oldest"
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Read the fields of an address; an unknown word counts as its default."""
        return cls(
            text=query.get("q", "").strip()[:200],
            sort=query.get("sort", "") if query.get("sort", "") in SORTS else "oldest",
            page=max(1, number_of(query.get("page", ""))),
        )

    @property
    def fields(self) -> dict[str, str]:
        """The fields of an address with the same list; without the page."""
        return {"q": self.text, "sort": "" if self.sort == "oldest" else self.sort}


@dataclass(frozen=True, slots=True)
class MemberPage:
    """A part of a group's messages.

    Attributes:
        rows: on this page, with the columns of the plan's table, and its ``state``.
        matching: how many match.
        total: how many the plan froze in this group.
        number: of the page, from 1.
        pages: how many there are, at least 1.
    """

    rows: Sequence[Mapping[str, Any]]
    matching: int
    total: int
    number: int
    pages: int


def group_messages(
    archive: Archive,
    plan: Plan,
    group_id: str,
    wanted: WantedMessages,
    now: datetime,
) -> MemberPage:
    """Return a page of a group's messages.

    Args:
        archive: which has them.
        plan: of the group.
        group_id: of the group.
        wanted: which of them, and in which order.
        now: what the ages of claims are counted to.

    Raises:
        InputError: the plan has no table, or the archive has another one.
        ArchiveError: the archive cannot be read.
    """
    members = group_members(archive, plan, group_id)
    total = members.num_rows
    if wanted.text:
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
    return MemberPage(rows, members.num_rows, total, number, pages)


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
