"""Estimate how much a verb will read, before an engine is chosen.

Sizes of bodies come from the archive's column of sizes. They are read only of few messages.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.ledger.open_set import read_messages
from dlq.archive.messages.message_index import read_table_columns
from dlq.archive.messages.message_store import is_in, message_files, rows_by_file, rows_named
from dlq.archive.storage.files import Archive
from dlq.plan.plan import Action, Plan

_FEW = 10_000
"""Sizes of bodies are read of at most this many messages; more are too many anyway."""


@dataclass(frozen=True, slots=True)
class Size:
    """Messages and the bytes of their bodies; 0 bytes where the messages alone are too many."""

    messages: int
    body_bytes: int

    def plus(self, messages: int) -> "Size":
        """Return the size with this number of messages more, of unknown bodies."""
        return Size(self.messages + messages, self.body_bytes)


def size_of_archive(archive: Archive) -> Size:
    """Return the size of all messages in the archive, copies included."""
    paths = message_files(archive)
    messages = sum(rows_named(path) or 0 for path in paths)
    if messages > _FEW:
        return Size(messages, 0)
    return Size(messages, _body_bytes(archive, paths))


def size_of_pending(archive: Archive) -> Size:
    """Return the size of the pending messages, or of the whole archive where that is small."""
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
    group_ids = [group.group_id for group in plan.groups if group.action is not Action.LEAVE]
    columns = ("group_id", "body_bytes")
    table = read_table_columns(archive, plan.plan_id, columns, plan.snapshot.table_sha256)
    is_selected = is_in(table["group_id"].cast(pa.string()), group_ids)
    body_bytes = table["body_bytes"].filter(is_selected)
    return Size(len(body_bytes), _total(body_bytes))


def _body_bytes(archive: Archive, paths: Collection[str]) -> int:
    total = 0
    for _, rows in rows_by_file(archive, list(paths), ["body_bytes"]):
        total += _total(rows["body_bytes"])
    return total


def _total(numbers: Any) -> int:  # noqa: ANN401 - an Arrow column
    return int(pc.sum(numbers).as_py() or 0)
