"""A lead as Spark SQL over the archive's columns, for ``--where``. Pure.

The condition selects the messages that have the lead and no others, which a test holds against the
traits. Where SQL cannot say it (a key that holds an id, a body in base64), there is none. It is
exact where a place in the payload is always an object, or always an array, or always a text that
holds JSON; and where no object has a key twice.
"""

import re
from collections.abc import Callable

from spark_reprocess.analysis.claims import Sort
from spark_reprocess.analysis.traits import (
    ARRAY,
    ATTRIBUTE,
    BINARY,
    BODY,
    BOOLEAN,
    COLUMNS,
    ELEMENT,
    EMPTY,
    FROM_BASE64,
    IN_SOME,
    INNER_JSON,
    MAGNITUDE,
    MASKED_KEY,
    NULL,
    NUMBER,
    OBJECT,
    SIZE,
    STEP,
    TEXT,
    UNPACKED,
    VALUE,
)

_PLAIN_KEY = re.compile(r"[^.\[\]*]+")
_STEPS = re.compile(f"{STEP}([^{STEP}{ELEMENT}{INNER_JSON}]*)|{ELEMENT}|{INNER_JSON}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_COUNTED = re.compile(r"-?\d{1,9}")
_BLANK = r"body RLIKE '^\\s*$'"
_VARIABLES = "xyzuvw"
_TYPES = {
    TEXT: "= 'STRING'",
    NUMBER: "RLIKE '^(BIGINT|DECIMAL|DOUBLE|FLOAT)'",
    BOOLEAN: "= 'BOOLEAN'",
    NULL: "= 'VOID'",
    OBJECT: "LIKE 'OBJECT%'",
    ARRAY: "LIKE 'ARRAY%'",
}

_Test = Callable[["_Place"], str | None]


def condition(sort: Sort, way: str, tag: str) -> str:
    """Return the condition for a claim, empty where SQL cannot say it.

    Args:
        sort: what is claimed.
        way: of its field, as ``traits`` builds it.
        tag: of its trait; used if *sort* is TAG.
    """
    if any(mark in way for mark in (MASKED_KEY, FROM_BASE64, UNPACKED, f"{BODY}{INNER_JSON}")):
        return ""
    if way == SIZE:
        return _size(tag)
    if way in COLUMNS:
        return _column(sort, way, tag)
    if way.startswith(f"{ATTRIBUTE}{STEP}"):
        return _attribute(sort, way.partition(STEP)[2], tag)
    return _in_body(sort, way, tag) or ""


def quoted(text: str) -> str:
    """Spell *text* as an SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _size(tag: str) -> str:
    if not tag.startswith(MAGNITUDE):
        return ""
    bits = int(tag[1:])
    return f"body_bytes >= {2**bits // 2} AND body_bytes < {2**bits}" if bits else "body_bytes = 0"


def _column(sort: Sort, name: str, tag: str) -> str:
    if sort is Sort.TAG and tag.startswith(VALUE):
        return f"{name} = {quoted(tag[1:])}"
    return f"{name} IS NULL" if sort is Sort.MISSING else f"{name} IS NOT NULL"


def _attribute(sort: Sort, name: str, tag: str) -> str:
    attribute = f"attributes[{quoted(name)}]"
    if sort is not Sort.TAG:
        return f"{attribute} IS {'NOT ' if sort is Sort.PRESENT else ''}NULL"
    if tag.startswith(VALUE):
        return f"{attribute}.string_value = {quoted(tag[1:])}"
    held = {TEXT: "string_value", BINARY: "binary_value"}.get(tag)
    return f"{attribute}.{held} IS NOT NULL" if held else ""


class _Place:
    """Where a walk through a body stands: below *text*, some SQL, along *path*."""

    def __init__(self, text: str, path: str = "$", arrays: int = 0) -> None:
        self.text = text
        self.path = path
        self.arrays = arrays

    @property
    def value(self) -> str:
        """SQL for what is here, as text."""
        if self.path == "$" and self.text != BODY:
            return self.text
        return f"get_json_object({self.text}, {quoted(self.path)})"

    @property
    def json(self) -> str:
        """SQL for what is here, as JSON."""
        return self.text if self.path == "$" else self.value

    def key(self, name: str) -> "_Place | None":
        if _PLAIN_KEY.fullmatch(name):
            return _Place(self.text, f"{self.path}.{name}", self.arrays)
        if "'" in name or name in ("*", ""):
            return None
        return _Place(self.text, f"{self.path}['{name}']", self.arrays)

    def is_of(self, kind: str) -> str | None:
        """SQL for: what is here is of this type; None within an array."""
        if self.arrays:
            return None
        variant = f"try_parse_json({self.text})"
        if self.path != "$":
            variant = f"try_variant_get({variant}, {quoted(self.path)}, 'variant')"
        return f"schema_of_variant({variant}) {_TYPES[kind]}"

    def exists(self, test: str, variable: str) -> str:
        return f"exists(from_json({self.value}, 'array<string>'), {variable} -> {test})"


def _in_body(sort: Sort, way: str, tag: str) -> str | None:
    steps = [(match[0], match[1]) for match in _STEPS.finditer(way)]
    if sort is Sort.TAG and tag != IN_SOME:
        return _walk(_Place(BODY), steps, lambda place: _tagged(place, tag))
    if not steps:
        return None
    last, name = steps.pop()
    if last == ELEMENT:
        count = "> 0" if sort is Sort.PRESENT else "= 0"
        return _walk(_Place(BODY), steps, lambda place: _elements(place, count))
    return _in_object(sort, steps, name or "", in_some=tag == IN_SOME)


def _in_object(
    sort: Sort, steps: list[tuple[str, str | None]], name: str, *, in_some: bool
) -> str | None:
    """Whether the object that *steps* lead to has a key."""

    def has(place: _Place) -> str:
        return f"array_contains(json_object_keys({place.json}), {quoted(name)})"

    def is_object(place: _Place) -> str:
        return f"json_object_keys({place.json}) IS NOT NULL"

    there = _walk(_Place(BODY), steps, has)
    lacks = _walk(_Place(BODY), steps, lambda place: f"NOT {has(place)}")
    if sort is Sort.PRESENT or there is None:
        return there
    if in_some:
        return f"{there} AND {lacks}"
    if (ELEMENT, None) not in steps:
        return lacks
    # In an array: its elements are objects, and none of them has the field.
    return f"{_walk(_Place(BODY), steps, is_object)} AND NOT {there}"


def _walk(place: _Place, steps: list[tuple[str, str | None]], test: _Test) -> str | None:
    """Go along *steps*; what comes after an array must hold for one of its elements."""
    here = place
    for number, (mark, name) in enumerate(steps):
        if mark == INNER_JSON:
            here = _Place(here.value, "$", here.arrays)
        elif mark == ELEMENT:
            if here.arrays >= len(_VARIABLES):
                return None
            variable = _VARIABLES[here.arrays]
            inside = _walk(_Place(variable, "$", here.arrays + 1), steps[number + 1 :], test)
            return here.exists(inside, variable) if inside else None
        else:
            there = here.key(name or "")
            if there is None:
                return None
            here = there
    return test(here)


def _elements(place: _Place, count: str) -> str | None:
    is_array = place.is_of(ARRAY)
    return f"{is_array} AND json_array_length({place.json}) {count}" if is_array else None


def _tagged(place: _Place, tag: str) -> str | None:
    if tag.startswith(VALUE):
        return _value(place, tag[1:])
    if tag.startswith(MAGNITUDE):
        is_number = place.is_of(NUMBER)
        size = _magnitude(f"try_cast({place.value} AS DOUBLE)", tag[1:])
        return f"{is_number} AND {size}" if is_number else size
    if tag == EMPTY:
        return _BLANK
    if place.path == "$" and tag == TEXT:
        return None
    return place.is_of(tag) if tag in _TYPES else None


def _value(place: _Place, text: str) -> str:
    """A text that reads like a number which would have no value of its own is a text."""
    is_equal = f"{place.value} = {quoted(text)}"
    is_text = place.is_of(TEXT)
    is_told_apart = _NUMBER.fullmatch(text) and not _COUNTED.fullmatch(text)
    return f"{is_text} AND {is_equal}" if is_told_apart and is_text else is_equal


def _magnitude(number: str, digits: str) -> str:
    least, most = 10 ** (abs(int(digits)) - 1), 10 ** abs(int(digits))
    if digits == "0":
        return f"{number} > -1 AND {number} < 1"
    if digits.startswith("-"):
        return f"{number} <= -{least} AND {number} > -{most}"
    return f"{number} >= {least} AND {number} < {most}"
