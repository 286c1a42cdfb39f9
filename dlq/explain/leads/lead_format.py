"""Format a lead for people, and as a Spark SQL condition for ``--where``. Pure.

A masked value appears neither in the lead nor in its condition.

The condition selects the messages that have the lead. A test compares it with the features. It is
empty for what SQL expresses badly: a key that contains an id, a body in base64, what elements of an
array lack. It is exact where a place in the payload is always an object, or always an array, or
always a text that holds JSON, or never a number beside a text that looks like one; and where no
object has a key twice.
"""

import re
from collections.abc import Iterable, Sequence

from dlq.explain.findings import Lead, Part, Synonym, state_of
from dlq.explain.leads.features import (
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
from dlq.explain.leads.predicates import Predicate
from dlq.explain.signature.mask import Masks, shorten

_VALUE_CHARACTERS = 80
_FIELD_CHARACTERS = 120
_ALIKE = "others like these"
_ALL = "all others"

_IS_NULL = ("IS NOT NULL", "IS NULL")
_PLAIN_KEY = re.compile(r"[^.\[\]*]+")
_TYPES = {
    TEXT: "= 'STRING'",
    NUMBER: "RLIKE '^(BIGINT|DECIMAL|DOUBLE|FLOAT)'",
    BOOLEAN: "= 'BOOLEAN'",
    NULL: "= 'VOID'",
    OBJECT: "LIKE 'OBJECT%'",
    ARRAY: "LIKE 'ARRAY%'",
}


def lead_of(
    conditions: Iterable[tuple[Sequence[Predicate], tuple[float, float]]],
    shares: tuple[float, float],
    weight: float,
    masks: Masks,
    *,
    others_alike: bool,
) -> Lead:
    """Format a lead. What is masked is neither in its values nor in its condition.

    Each of *conditions* has a predicate with its synonyms, and the shares of the group and of the
    others for which it holds. *shares* are those for which all hold; the score is their difference,
    multiplied by *weight*.
    """
    parts, sql = [], []
    for (predicate, *same), of_part in conditions:
        field, value, is_masked = _shown(predicate, masks)
        synonyms = tuple(Synonym(*_shown(one, masks)[:2]) for one in same)
        parts.append(Part(field, value, *of_part, synonyms))
        sql.append("" if is_masked else condition(*predicate))
    where, compared_with = " AND ".join(sql) if all(sql) else "", _ALIKE if others_alike else _ALL
    score = weight * (shares[0] - shares[1])
    return Lead(tuple(parts), *shares, score, where, compared_with)


def _shown(predicate: Predicate, masks: Masks) -> tuple[str, str, bool]:
    """Return field and value as they may be shown, and whether anything in them is masked."""
    field, value = path_text(predicate.path), _value_text(*predicate)
    shown_field, shown = masks.text(field), value
    if predicate.tag.startswith((VALUE, MAGNITUDE)) and field != SIZE:
        shown = masks.value(field, value)
    is_masked = shown != value or shown_field != field
    return shorten(shown_field, _FIELD_CHARACTERS), shorten(shown, _VALUE_CHARACTERS), is_masked


def _value_text(path: str, tag: str) -> str:
    if tag.startswith(VALUE):
        return f'"{tag[1:]}"' if not tag[1:] or state_of(tag[1:]) else tag[1:]
    if not tag.startswith(MAGNITUDE):
        return f"({tag})"
    if path == SIZE:
        least, end = _sizes(tag)
        return f"{least:,} to {end - 1:,}" if end > 1 else "0"
    least, most, _ = _bounds(tag)
    return f"{least:,} to {most:,}" if tag[1:] != "0" else "between -1 and 1"


def _sizes(tag: str) -> tuple[int, int]:
    """Return the least size in bytes, and the one that is too large."""
    return 2 ** int(tag[1:]) // 2, 2 ** int(tag[1:])


def _bounds(tag: str) -> tuple[int, int, tuple[str, str]]:
    """Return the bounds of a magnitude, and how a number compares with each."""
    digits = int(tag[1:])
    if not digits:
        return -1, 1, (">", "<")
    near, far = 10 ** (abs(digits) - 1), 10 ** abs(digits)
    return (near, far, (">=", "<")) if digits > 0 else (-far, -near, (">", "<="))


def condition(path: str, tag: str) -> str:
    """Return the SQL condition for a ``Predicate``, empty where SQL cannot express it."""
    if any(mark in path for mark in (MASKED_KEY, FROM_BASE64, f"{BODY}{INNER_JSON}")):
        return ""
    if path == SIZE:
        least, end = _sizes(tag) if tag.startswith(MAGNITUDE) else (0, 0)
        return f"body_bytes >= {least} AND body_bytes < {end}" if end else ""
    if path in COLUMNS or path in POINTERS:
        is_value, column = tag.startswith(VALUE), POINTERS.get(path, path)
        return (
            f"{column} = {quoted(tag[1:])}" if is_value else f"{column} {_IS_NULL[tag == MISSING]}"
        )
    if path.startswith(f"{ATTRIBUTE}{STEP}"):
        return _attribute(f"attributes[{quoted(path.partition(STEP)[2])}]", tag)
    return _in_body(path, tag)


def quoted(text: str) -> str:
    """Format *text* as an SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _attribute(attribute: str, tag: str) -> str:
    if tag.startswith(VALUE):
        return f"{attribute}.string_value = {quoted(tag[1:])}"
    held = {TEXT: ".string_value", BINARY: ".binary_value", PRESENT: "", MISSING: ""}.get(tag)
    return "" if held is None else f"{attribute}{held} {_IS_NULL[tag == MISSING]}"


def _in_body(path: str, tag: str, json: str = BODY, variables: str = "xyzuvw") -> str:
    """Return SQL for what *path* leads to in the JSON that the expression *json* yields.

    *variables* are left for elements of arrays.
    """
    path, is_array, inside = path.partition(ELEMENT)
    name = ""
    if tag in (PRESENT, MISSING):
        path, _, name = path.rpartition(STEP)
    *outer, last = map(_json_path, path.split(INNER_JSON))
    for one in outer:
        json = _value(json, one)
    value = _value(json, last)
    if not value:
        return ""
    if is_array:
        is_value = tag.startswith(VALUE) and variables
        test = is_value and _in_body(inside, tag, variables[0], variables[1:])
        array = f"from_json({value}, 'array<string>')"
        return f"exists({array}, {variables[0]} -> {test})" if test else ""
    if tag not in (PRESENT, MISSING):
        return _tagged(tag, json, last)
    has = f"array_contains(json_object_keys({json if last == '$' else value}), {quoted(name)})"
    return has if tag == PRESENT else f"NOT {has}"


def _tagged(tag: str, json: str, path: str) -> str:
    """Return SQL for: what is at a JSON path has this value, magnitude or type."""
    value, variant = _value(json, path), f"try_parse_json({json})"
    if tag.startswith(VALUE):
        return f"{value} = {quoted(tag[1:])}"
    if tag == EMPTY:
        return r"body RLIKE '^\\s*$'"
    if path != "$":
        variant = f"try_variant_get({variant}, {quoted(path)}, 'variant')"
    if tag.startswith(MAGNITUDE):
        number, (least, most, (above, below)) = f"try_cast({value} AS DOUBLE)", _bounds(tag)
        is_number = f"schema_of_variant({variant}) {_TYPES[NUMBER]}"
        return f"{is_number} AND {number} {above} {least} AND {number} {below} {most}"
    is_known = tag in _TYPES and (path, tag) != ("$", TEXT)
    return f"schema_of_variant({variant}) {_TYPES[tag]}" if is_known else ""


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
    """Return SQL for what is at a JSON path, as text; empty where one of them is."""
    if not json or not path:
        return ""
    return json if path == "$" and json != BODY else f"get_json_object({json}, {quoted(path)})"
