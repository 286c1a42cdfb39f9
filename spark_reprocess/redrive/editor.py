"""A plan's edits on the rows of its messages: what each task takes along. Pure.

An edited copy always carries ``sqs-dlq-context`` with the message's first id, so that nobody who
meets it later has to guess where it came from; a message without room for that is left.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dlq_replay.attributes import MAX_ATTRIBUTES, MessageAttribute
from dlq_replay.context import CONTEXT_ATTRIBUTE
from dlq_replay.message import Message
from dlq_replay.outgoing import redriven_entry
from spark_reprocess.archive.dead_letter_schema import from_row
from spark_reprocess.editing.edit import AttributeChange, Edit
from spark_reprocess.editing.patch import EditError

_ANY_SIZE = 2**63

CHANGES = "attribute_changes"
"""A column of rows to be edited: what the expressions of ``set_attributes`` gave."""


@dataclass(frozen=True, slots=True)
class Editor:
    """Makes messages of rows, edited where their group has an edit.

    Attributes:
        edits: by group id.
        plan_id: goes into the context of what is sent, and so counts against its size.
        keep_counter: whether the replay count stays.
        max_message_bytes: the destination's limit.
    """

    edits: Mapping[str, Edit]
    plan_id: str
    keep_counter: bool
    max_message_bytes: int

    def message(self, row: Mapping[str, Any]) -> Message:
        """Return the message of an archive's row that has ``group_id`` and ``CHANGES`` as well.

        Raises:
            EditError: its group's edit does not fit it.
        """
        original = from_row(row)
        edit = self.edits.get(row["group_id"])
        if edit is None:
            return original
        edited = edit.apply(original, [_change(change) for change in row[CHANGES] or ()])
        self._require_room(edited)
        return edited

    def fault(self, row: Mapping[str, Any]) -> str | None:
        """Say why the row's message cannot be edited, None where it can."""
        try:
            self.message(row)
        except EditError as error:
            return str(error)
        return None

    def _require_room(self, edited: Message) -> None:
        if not self._has_room(edited, _ANY_SIZE):
            raise EditError(
                f"SQS takes {MAX_ATTRIBUTES} attributes, and one must be {CONTEXT_ATTRIBUTE}, "
                "which names the message's origin"
            )
        if not self._has_room(edited, self.max_message_bytes):
            limit = f"{self.max_message_bytes:,} bytes"
            raise EditError(f"it would be larger than the queue's MaximumMessageSize, {limit}")

    def _has_room(self, edited: Message, max_message_bytes: int) -> bool:
        entry = redriven_entry(
            edited,
            self.plan_id,
            to_fifo=False,
            keep_counter=self.keep_counter,
            max_message_bytes=max_message_bytes,
        )
        return CONTEXT_ATTRIBUTE in entry.attributes


def _change(change: Mapping[str, Any]) -> AttributeChange:
    name, data_type = change["name"], change["data_type"]
    value = change["binary_value"] if data_type == "Binary" else change["string_value"]
    return name, None if value is None else MessageAttribute(data_type, value)
