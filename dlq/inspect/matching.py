"""Which messages have a value: in the body, in an attribute, or as an id. Pure; RE2, by Arrow."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.messages.dead_letter_schema import Row, from_row
from dlq.errors import InputError

ID_COLUMNS = ("message_id", "first_id", "message_group_id", "deduplication_id", "trace_header")
"""The columns in which a whole value may be the value that is looked for."""

MATCHED_COLUMNS = ("body", "attributes", *ID_COLUMNS)
"""The columns that ``matching_rows`` needs."""

_BODY = "body"
_NO = pa.scalar(value=False)
_LEVELS = 100
"""Values that are nested more deeply are not named."""

# Before a word in the text of JSON: an escape, whose last character looks like a part of the word.
_BEFORE = r"(?:^|\W|\\[bfnrt]|\\u[0-9A-Fa-f]{4})"
_AFTER = r"(?:\W|$)"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A value that is looked for, or a pattern.

    Attributes:
        text: the value, or a regular expression of RE2.
        is_pattern: whether *text* is a regular expression.
    """

    text: str
    is_pattern: bool = False

    def __post_init__(self) -> None:
        """Check it.

        Raises:
            InputError: *text* is empty, no Unicode, or no regular expression of RE2.
        """
        if not self.text:
            raise InputError("VALUE is empty: give an order number, an id, a word")
        try:
            pc.match_substring_regex(pa.array([""]), self.pattern)
        except UnicodeEncodeError as error:
            raise InputError(f"VALUE {self.text!r}: is no Unicode text") from error
        except pa.ArrowInvalid as error:
            raise InputError(
                f"--regex {self.text!r}: is no regular expression of RE2: {error}"
            ) from error

    @property
    def pattern(self) -> str:
        """A regular expression that matches a text, or the text of JSON, with the value.

        A value counts where it is a whole word: 4711 is in ``ORD-4711``, and not in ``14711``.
        """
        if self.is_pattern:
            return self.text
        forms = "|".join(map(re.escape, sorted(_json_forms(self.text))))
        before = _BEFORE if _is_of_word(self.text[0]) else ""
        after = _AFTER if _is_of_word(self.text[-1]) else ""
        return f"{before}(?:{forms}){after}"


def _json_forms(value: str) -> set[str]:
    """Return the spellings of a text in JSON, and the text itself."""
    forms = {value}
    for is_ascii in (True, False):
        spelling = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        forms.add(spelling)
        forms.add(spelling.replace("/", r"\/"))
    return forms


def _is_of_word(character: str) -> bool:
    """Return whether RE2 counts a character as one of a word."""
    return character == "_" or (character.isascii() and character.isalnum())


def matching_rows(rows: pa.Table | pa.RecordBatch, wanted: Wanted) -> Any:  # noqa: ANN401 - Arrow's
    """Return for each row whether it has the value: a column of Booleans.

    *rows* have ``MATCHED_COLUMNS``.
    """
    is_match = _matches(rows[_BODY], wanted)
    for name in ID_COLUMNS:
        is_id = _matches(rows[name], wanted) if wanted.is_pattern else _equals(rows[name], wanted)
        is_match = pc.or_(is_match, is_id)
    return pc.or_(is_match, _have_attribute(rows["attributes"], wanted))


def _matches(texts: Any, wanted: Wanted) -> Any:  # noqa: ANN401 - Arrow's columns
    return pc.fill_null(pc.match_substring_regex(texts, wanted.pattern), _NO)


def _equals(texts: Any, wanted: Wanted) -> Any:  # noqa: ANN401 - Arrow's columns
    return pc.fill_null(pc.equal(texts, pa.scalar(wanted.text)), _NO)


def _have_attribute(attributes: Any, wanted: Wanted) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return for each row whether an attribute's text has the value."""
    if isinstance(attributes, pa.ChunkedArray):
        chunks = [_have_attribute(chunk, wanted) for chunk in attributes.chunks]
        return pa.chunked_array(chunks, pa.bool_())

    texts = pc.struct_field(attributes.items, "string_value")
    is_match = _matches(texts, wanted).to_numpy(zero_copy_only=False)
    # The attributes of row n are those from offset n to offset n + 1.
    offsets = attributes.offsets.to_numpy()
    counts = np.concatenate(([0], np.cumsum(is_match)))
    return pa.array(counts[offsets[1:]] > counts[offsets[:-1]])


def places_of(row: Row, wanted: Wanted) -> list[str]:
    """Return where a row has the value, as paths: ``body.customer.id``, ``attribute.tenant``.

    ``body`` alone is a body that is no JSON, or a key of one. *row* is as Arrow returns it.
    """
    leaves = list(_leaves(_json_of(row[_BODY]), _BODY, _LEVELS))
    for name, attribute in from_row(row).attributes.items():
        if isinstance(attribute.value, str):
            leaves.append((f"attribute.{name}", attribute.value))

    texts = pa.array([text for _, text in leaves], pa.string())
    places: list[str] = []
    for (path, _), is_match in zip(leaves, _matches(texts, wanted).to_pylist(), strict=True):
        if is_match and path not in places:
            places.append(path)
    for name in ID_COLUMNS:
        if row[name] is not None and _is_id(row[name], wanted):
            places.append(name)
    return places or [_BODY]


def _is_id(text: str, wanted: Wanted) -> bool:
    column = pa.array([text])
    is_match = _matches(column, wanted) if wanted.is_pattern else _equals(column, wanted)
    return bool(is_match[0].as_py())


def _json_of(body: str) -> object:
    """Return the value of a body; the body itself where it is no JSON."""
    try:
        return json.loads(body, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return body


def _leaves(value: object, path: str, levels: int) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each value in a JSON value that has no parts."""
    if levels == 0:
        return
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves(part, f"{path}.{name}", levels - 1)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part, f"{path}[]", levels - 1)
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)
