"""Format a difference for people, and as a Spark SQL condition for ``--where``. Pure.

A masked value appears neither in the difference nor in its condition.

The condition selects the messages that have the difference. A test compares it with the features.
It is empty for what SQL expresses badly: a key that contains an id, a body in base64, what elements
of an array lack. It is exact where a place in the payload is always an object, or always an array,
or always a text that holds JSON, or never a number beside a text that looks like one; and where no
object has a key twice.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dlq.explain.differences.features import (
    ARRAY,
    ATTRIBUTE,
    BINARY,
    BODY,
    BOOLEAN,
    COLUMNS,
    ELEMENT,
    EMPTY,
    FROM_BASE64,
    INNER_JSON,
    MAGNITUDE,
    MASKED_KEY,
    MISSING,
    NULL,
    NUMBER,
    OBJECT,
    POINTERS,
    PRESENT,
    SIZE,
    STEP,
    TEXT,
    VALUE,
    path_text,
)
from dlq.explain.differences.predicates import Predicate
from dlq.explain.findings import Difference, Part, Synonym, state_of
from dlq.explain.signature.mask import Masks, shorten

_VALUE_CHARACTERS = 80
_FIELD_CHARACTERS = 120
_ALIKE = "others like these"
_ALL = "all others"

_PLAIN_KEY = re.compile(r"[^.\[\]*]+")
_TYPES = {
    TEXT: "= 'STRING'",
    NUMBER: "RLIKE '^(BIGINT|DECIMAL|DOUBLE|FLOAT)'",
    BOOLEAN: "= 'BOOLEAN'",
    NULL: "= 'VOID'",
    OBJECT: "LIKE 'OBJECT%'",
    ARRAY: "LIKE 'ARRAY%'",
}


def difference_of(
    conditions: Iterable[tuple[Sequence[Predicate], tuple[float, float]]],
    shares: tuple[float, float],
    weight: float,
    masks: Masks,
    *,
    others_alike: bool,
) -> Difference:
    """Format a difference. What is masked is neither in its values nor in its condition.

    Args:
        conditions: of each a predicate with its synonyms, and the shares of the group and of the
            others for which the predicate holds.
        shares: the shares for which all predicates hold.
        weight: the score is the difference of *shares*, multiplied by this.
        masks: what is hidden.
        others_alike: whether the others are like the group's messages.
    """
    parts = []
    sql = []
    for (predicate, *same), (group_share, other_share) in conditions:
        field, value, is_masked = _shown(predicate, masks)
        synonyms = []
        for synonym in same:
            synonym_field, synonym_value, _ = _shown(synonym, masks)
            synonyms.append(Synonym(synonym_field, synonym_value))
        parts.append(Part(field, value, group_share, other_share, tuple(synonyms)))
        sql.append("" if is_masked else condition(*predicate))

    group_share, other_share = shares
    return Difference(
        parts=tuple(parts),
        group_share=group_share,
        other_share=other_share,
        score=weight * (group_share - other_share),
        condition=" AND ".join(sql) if all(sql) else "",
        compared_with=_ALIKE if others_alike else _ALL,
    )


def _shown(predicate: Predicate, masks: Masks) -> tuple[str, str, bool]:
    """Return field and value as they may be shown, and whether anything in them is masked."""
    field = path_text(predicate.path)
    value = _value_text(*predicate)

    shown_field = masks.text(field)
    shown_value = value
    if predicate.tag.startswith((VALUE, MAGNITUDE)) and field != SIZE:
        shown_value = masks.value(field, value)
    is_masked = shown_value != value or shown_field != field
    return (
        shorten(shown_field, _FIELD_CHARACTERS),
        shorten(shown_value, _VALUE_CHARACTERS),
        is_masked,
    )


def _value_text(path: str, tag: str) -> str:
    if tag.startswith(VALUE):
        value = tag[1:]
        needs_quotes = not value or state_of(value)
        return f'"{value}"' if needs_quotes else value
    if not tag.startswith(MAGNITUDE):
        return f"({tag})"

    if path == SIZE:
        least, end = _sizes(tag)
        return f"{least:,} to {end - 1:,}" if end > 1 else "0"
    bounds = _bounds(tag)
    if bounds.least < 0 < bounds.most:
        return "between -1 and 1"
    return f"{bounds.least:,} to {bounds.most:,}"


def _sizes(tag: str) -> tuple[int, int]:
    """Return the least size in bytes, and the first one that is too large."""
    end = 2 ** int(tag[1:])
    return end // 2, end


class _Bounds(NamedTuple):
    """The bounds of a magnitude, and how a number compares with each."""

    least: int
    above: str
    most: int
    below: str


def _bounds(tag: str) -> _Bounds:
    digits = int(tag[1:])
    if digits == 0:
        return _Bounds(-1, ">", 1, "<")
    near = 10 ** (abs(digits) - 1)
    far = 10 ** abs(digits)
    if digits > 0:
        return _Bounds(near, ">=", far, "<")
    return _Bounds(-far, ">", -near, "<=")


def condition(path: str, tag: str) -> str:
    """Return the SQL condition for a ``Predicate``, empty where SQL cannot express it."""
    if any(mark in path for mark in (MASKED_KEY, FROM_BASE64, f"{BODY}{INNER_JSON}")):
        return ""
    if path == SIZE:
        return _size(tag)
    if path in COLUMNS or path in POINTERS:
        return _column(POINTERS.get(path, path), tag)
    if path.startswith(f"{ATTRIBUTE}{STEP}"):
        name = path.partition(STEP)[2]
        return _attribute(f"attributes[{quoted(name)}]", tag)
    return _in_body(path, tag)


def _size(tag: str) -> str:
    if not tag.startswith(MAGNITUDE):
        return ""
    least, end = _sizes(tag)
    return f"body_bytes >= {least} AND body_bytes < {end}"


def _column(column: str, tag: str) -> str:
    if tag.startswith(VALUE):
        return f"{column} = {quoted(tag[1:])}"
    return f"{column} {_null_test(tag)}"


def _null_test(tag: str) -> str:
    return "IS NULL" if tag == MISSING else "IS NOT NULL"


def quoted(text: str) -> str:
    """Format *text* as an SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _attribute(attribute: str, tag: str) -> str:
    if tag.startswith(VALUE):
        return f"{attribute}.string_value = {quoted(tag[1:])}"
    values = {TEXT: ".string_value", BINARY: ".binary_value", PRESENT: "", MISSING: ""}
    if tag not in values:
        return ""
    return f"{attribute}{values[tag]} {_null_test(tag)}"


def _in_body(path: str, tag: str, json: str = BODY, variables: str = "xyzuvw") -> str:
    """Return SQL about what *path* leads to in the JSON that the expression *json* yields.

    *variables* are left for elements of arrays.
    """
    path, is_array, path_in_element = path.partition(ELEMENT)
    key = ""
    if tag in (PRESENT, MISSING):
        path, _, key = path.rpartition(STEP)

    *outer_paths, last_path = map(_json_path, path.split(INNER_JSON))
    for outer_path in outer_paths:
        json = _value(json, outer_path)
    value = _value(json, last_path)
    if not value:
        return ""

    if is_array:
        if not (tag.startswith(VALUE) and variables):
            return ""
        element = variables[0]
        test = _in_body(path_in_element, tag, element, variables[1:])
        return f"exists(from_json({value}, 'array<string>'), {element} -> {test})" if test else ""
    if tag not in (PRESENT, MISSING):
        return _tagged(tag, json, last_path)

    container = json if last_path == "$" else value
    has_key = f"array_contains(json_object_keys({container}), {quoted(key)})"
    return has_key if tag == PRESENT else f"NOT {has_key}"


def _tagged(tag: str, json: str, path: str) -> str:
    """Return SQL for: what is at a JSON path has this value, magnitude or type."""
    value = _value(json, path)
    if tag.startswith(VALUE):
        return f"{value} = {quoted(tag[1:])}"
    if tag == EMPTY:
        return r"body RLIKE '^\\s*$'"

    variant = f"try_parse_json({json})"
    if path != "$":
        variant = f"try_variant_get({variant}, {quoted(path)}, 'variant')"
    if tag.startswith(MAGNITUDE):
        is_number = f"schema_of_variant({variant}) {_TYPES[NUMBER]}"
        number = f"try_cast({value} AS DOUBLE)"
        least, above, most, below = _bounds(tag)
        return f"{is_number} AND {number} {above} {least} AND {number} {below} {most}"

    is_text_body = path == "$" and tag == TEXT
    if tag not in _TYPES or is_text_body:
        return ""
    return f"schema_of_variant({variant}) {_TYPES[tag]}"


def _json_path(path: str) -> str:
    """Return the steps of a path as a JSON path; empty where it cannot have a key."""
    steps = "$"
    for name in path.split(STEP)[1:]:
        if _PLAIN_KEY.fullmatch(name):
            steps += f".{name}"
        elif "'" in name or name in ("*", ""):
            return ""
        else:
            steps += f"['{name}']"
    return steps


def _value(json: str, path: str) -> str:
    """Return SQL for the text at a JSON path; empty if *json* or *path* is."""
    if not json or not path:
        return ""
    if path == "$" and json != BODY:
        return json
    return f"get_json_object({json}, {quoted(path)})"
