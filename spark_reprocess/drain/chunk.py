"""What a drain task holds between its receives and one file: rows, and what deletes them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlq_replay.attributes import size_bytes
from dlq_replay.message import Message
from spark_reprocess.archive.dead_letter_schema import Row


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is kept of a message once its row is written: enough to delete it."""

    message_id: str
    receipt_handle: str


@dataclass(slots=True)
class Chunk:
    """Rows by message id. Where a message comes twice, its later receipt is the good one."""

    size_bytes: int = 0
    _rows: dict[str, Row] = field(default_factory=dict)
    _receipts: dict[str, Receipt] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, message: Message, row: Row) -> bool:
        """Take a message in; return whether it is a new one."""
        is_new = message.message_id not in self._rows
        if is_new:
            self._rows[message.message_id] = row
            self.size_bytes += size_bytes(message.body, message.attributes)
        self._receipts[message.message_id] = Receipt(message.message_id, message.receipt_handle)
        return is_new

    @property
    def rows(self) -> list[Row]:
        """In the order in which they came."""
        return list(self._rows.values())

    def receipts(self, at_most: int) -> list[Sequence[Receipt]]:
        """What deletes them, in batches."""
        receipts = list(self._receipts.values())
        return [receipts[start : start + at_most] for start in range(0, len(receipts), at_most)]
