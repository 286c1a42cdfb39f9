"""The edits of a plan on single messages: applied, checked and shown.

An edited copy always carries ``sqs-dlq-context`` with the message's first id, which shows where it
came from. A message without room for that, and for what the replay function adds, is left.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from typing import Any

import pyarrow as pa

from dlq.archive.messages.dead_letter_schema import from_row
from dlq.engine import CHANGES, AttributeSql
from dlq.explain.signature.mask import Masks
from dlq.figures import truncate
from dlq.ids.columns import EDIT_FAULT
from dlq.plan.edit import AttributeChange, Edit, EditError
from dlq.plan.json_text import JsonTextError, read_json, write_indented
from dlq_replay.rules.outgoing import has_room_for_redrive
from dlq_replay.rules.policy import MAX_MESSAGE_BYTES
from dlq_replay.wire.attributes import MAX_ATTRIBUTES, MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message

FAULTS = pa.schema([("message_id", pa.string()), (EDIT_FAULT, pa.string())])
"""The rows that ``Editor.faults`` yields."""

_CONTEXT_LINES = 2
_MOST_LINES = 40
_LINE_CHARACTERS = 160
_OURS = (CONTEXT_ATTRIBUTE, REPLAY_COUNT_ATTRIBUTE)


@dataclass(frozen=True, slots=True)
class Editor:
    """Makes messages of rows, edited if their group has an edit. Tasks carry it.

    Attributes:
        plan_id: goes into the context of what is sent, and so counts against its size.
        max_message_bytes: how large a copy may be on its way.
    """

    edits: Mapping[str, Edit] = field(default_factory=dict)
    plan_id: str = ""
    max_message_bytes: int = MAX_MESSAGE_BYTES

    @property
    def attribute_sql(self) -> AttributeSql:
        """The SQL of the edits, for the engine that evaluates it."""
        sql: dict[str, Sequence[tuple[str, str | None]]] = {}
        for group_id, edit in self.edits.items():
            if edit.set_attributes:
                sql[group_id] = edit.set_attributes
        return sql

    def message(self, row: Mapping[str, Any]) -> Message:
        """Return the message of an archived row that also has ``group_id`` and ``CHANGES``.

        Raises:
            EditError: its group's edit does not fit it.
        """
        original = from_row(row)
        edit = self.edits.get(row["group_id"])
        if edit is None:
            return original
        edited = edit.apply(original, [*map(_attribute_change, row[CHANGES] or ())])
        if not has_room_for_redrive(edited, self.plan_id, self.max_message_bytes, row["group_id"]):
            raise EditError(
                f"with {' and '.join(_OURS)}, which name its origin, it would have more than "
                f"{MAX_ATTRIBUTES} attributes, or be larger than MaximumMessageSize of a queue on "
                f"its way, {self.max_message_bytes:,} bytes"
            )
        return edited

    def faults(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Edit each row. Yield the rows that cannot be edited, with the reason: ``EDIT_FAULT``."""
        for batch in batches:
            faults = []
            for row in batch.to_pylist():
                try:
                    self.message(row)
                except EditError as error:
                    faults.append({"message_id": row["message_id"], EDIT_FAULT: str(error)})
            yield pa.RecordBatch.from_pylist(faults, FAULTS)


def _attribute_change(change: Mapping[str, Any]) -> AttributeChange:
    data_type = change["data_type"]
    value = change["binary_value"] if data_type == "Binary" else change["string_value"]
    return change["name"], None if value is None else MessageAttribute(data_type, value)


@dataclass(frozen=True, slots=True)
class EditSample:
    """One message of a group; *lines* begin with ``+``, ``-``, ``@`` or a space, as in a patch."""

    group_id: str
    message_id: str
    lines: tuple[str, ...]


def edit_sample(group_id: str, before: Message, after: Message, masks: Masks) -> EditSample:
    """Show what changed between the two, shortened.

    Both are masked before they are compared, so the difference shows nothing that a mask hides.
    """
    old = list(_lines(before, masks))
    new = list(_lines(after, masks))
    difference = list(unified_diff(old, new, lineterm="", n=_CONTEXT_LINES))

    # The first two lines would name files.
    lines = [truncate(line, _LINE_CHARACTERS) for line in difference[2:]]
    if not lines:
        lines = [" nothing changes, or only what is masked"]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f" … {len(lines) - _MOST_LINES} more lines"]
    return EditSample(group_id, before.message_id, tuple(lines))


def _lines(message: Message, masks: Masks) -> Iterator[str]:
    try:
        body = write_indented(masks.tree("body", read_json(message.body)))
    except JsonTextError:
        body = masks.value("body", message.body)
    yield from body.splitlines()
    for name, attribute in sorted(message.attributes.items()):
        if name not in _OURS:
            shown = masks.value(f"attribute.{name}", attribute.value)
            yield f"attribute {masks.text(name)} ({attribute.data_type}): {shown}"
