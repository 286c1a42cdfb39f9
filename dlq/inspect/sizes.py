"""How much a verb will read, counted from the archive before an engine is chosen.

Bodies are counted by the column of their sizes, and only of as many messages as matter.
"""

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.ledger.open_set import read_messages
from dlq.archive.messages.message_index import read_table_columns
from dlq.archive.messages.message_store import is_in, message_files, rows_by_file, rows_named
from dlq.archive.storage.files import Archive
from dlq.plan.plan import Action, Plan

_FEW = 10_000
"""Sizes of bodies are read of so many messages; more are too many anyway."""


@dataclass(frozen=True, slots=True)
class Size:
    """Messages and the bytes of their bodies; 0 bytes where the messages alone are too many."""

    messages: int
    body_bytes: int

    def plus(self, messages: int) -> "Size":
        """Return the size with so many more messages, of unknown bodies."""
        return Size(self.messages + messages, self.body_bytes)


def size_of_archive(archive: Archive) -> Size:
    """Return the size of all messages in the archive, copies included."""
    paths = message_files(archive)
    messages = sum(rows_named(path) or 0 for path in paths)
    if messages > _FEW:
        return Size(messages, 0)
    return Size(messages, _body_bytes(archive, paths))


def size_of_pending(archive: Archive) -> Size:
    """Return the size of the messages that nobody has decided about, or more where that is few."""
    whole = size_of_archive(archive)
    if whole.messages <= _FEW:
        return whole
    pending = read_messages(archive).pending()
    if pending.num_rows > _FEW:
        return Size(pending.num_rows, 0)
    paths = pc.unique(pending["file"].cast(pa.string())).to_pylist()
    return Size(pending.num_rows, _body_bytes(archive, sorted(map(str, paths))))


def size_of_plan(archive: Archive, plan: Plan) -> Size:
    """Return the size of the messages that *plan* acts on.

    Raises:
        InputError: the plan's table is not in this archive.
    """
    acting = [group.group_id for group in plan.groups if group.action is not Action.LEAVE]
    columns = ("group_id", "body_bytes")
    table = read_table_columns(archive, plan.plan_id, columns, plan.snapshot.table_sha256)
    is_acting = is_in(table["group_id"].cast(pa.string()), acting)
    body_bytes = table["body_bytes"].filter(is_acting)
    return Size(len(body_bytes), int(pc.sum(body_bytes).as_py() or 0))


def _body_bytes(archive: Archive, paths: Collection[str]) -> int:
    total = 0
    for _, rows in rows_by_file(archive, list(paths), ["body_bytes"]):
        total += int(pc.sum(rows["body_bytes"]).as_py() or 0)
    return total
