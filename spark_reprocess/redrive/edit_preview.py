"""What an edit would do to a few messages, as a difference that a person reads. Pure.

Both sides are masked before they are compared, so nothing that a mask hides shows up in the
difference either.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff

from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import CONTEXT_ATTRIBUTE
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message
from spark_reprocess.analysis.mask import Masks, shorten
from spark_reprocess.editing.json_text import INDENTED, JsonTextError, read_json

PREVIEW_SAMPLES = 3
"""Messages shown of each group."""

_CONTEXT_LINES = 2
_MOST_LINES = 40
_LINE_CHARACTERS = 160
_OURS = (CONTEXT_ATTRIBUTE, REPLAY_COUNT_ATTRIBUTE)


@dataclass(frozen=True, slots=True)
class EditSample:
    """One message of a group; *lines* begin with ``+``, ``-``, ``@`` or a space, as in a patch."""

    group_id: str
    message_id: str
    lines: tuple[str, ...]


def edit_sample(group_id: str, before: Message, after: Message, masks: Masks) -> EditSample:
    """Show what changed between the two, masked and shortened."""
    old, new = list(_lines(before, masks)), list(_lines(after, masks))
    found = unified_diff(old, new, lineterm="", n=_CONTEXT_LINES)
    lines = [f"{line[0]}{shorten_line(line[1:])}" for line in found][2:]
    if not lines:
        same = (before.body, before.attributes) == (after.body, after.attributes)
        lines = [" nothing changes" if same else " only what is masked changes"]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f" … {len(lines) - _MOST_LINES} more lines"]
    return EditSample(group_id, before.message_id, tuple(lines))


def shorten_line(line: str) -> str:
    """Cut a line that is too long for a terminal; its indentation stays."""
    bare = line.lstrip(" ")
    return line[: len(line) - len(bare)] + shorten(bare, _LINE_CHARACTERS)


def _lines(message: Message, masks: Masks) -> Iterator[str]:
    yield from masks.text(_readable(message.body, masks)).splitlines()
    for name, attribute in sorted(message.attributes.items()):
        if name not in _OURS:
            shown = masks.value(f"attribute.{name}", _spelled(attribute))
            yield f"attribute {masks.text(name)} ({attribute.data_type}): {shown}"


def _readable(body: str, masks: Masks) -> str:
    try:
        return INDENTED.write(masks.tree("body", read_json(body)))
    except JsonTextError:
        return body


def _spelled(attribute: MessageAttribute) -> str:
    if isinstance(attribute.value, str):
        return attribute.value
    return f"{len(attribute.value):,} bytes"
