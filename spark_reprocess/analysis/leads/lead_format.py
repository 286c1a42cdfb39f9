"""Format a lead for people, and as a Spark SQL condition for ``--where``. Pure.

A masked value appears neither in the lead nor in its condition.

The condition selects exactly the messages that have the lead. A test compares it with the features.
Where SQL cannot express the lead (a key that contains an id, a body in base64), the condition is
empty. It is exact where a place in the payload is always an object, or always an array, or always a
text that holds JSON, and where no object has a key twice.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from spark_reprocess.analysis.groups.mask import Masks, shorten
from spark_reprocess.analysis.leads.features import (
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
    path_text,
)
from spark_reprocess.analysis.leads.predicates import Kind, Predicate
from spark_reprocess.findings import Lead, Part, Synonym, state_of

_VALUE_CHARACTERS = 80
_FIELD_CHARACTERS = 120
_ALIKE = "others like these"
_ALL = "all others"
_TYPE_WORDS = {
    TEXT: "(text)",
    NUMBER: "(number)",
    BOOLEAN: "(true or false)",
    NULL: "(null)",
    OBJECT: "(object)",
    ARRAY: "(array)",
    BINARY: "(bytes)",
    EMPTY: "(empty)",
    IN_SOME: "(missing in some)",
}

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


def lead_of(
    conditions: Iterable[tuple[Sequence[Predicate], tuple[float, float]]],
    shares: tuple[float, float],
    score: float,
    masks: Masks,
    *,
    others_alike: bool,
) -> Lead:
    """Format a lead. What is masked is neither in its values nor in its condition.

    Each of *conditions* has a predicate with its synonyms, and the shares of the group and of the
    others for which it holds. *shares* are those for which all hold.
    """
    parts, sql = [], []
    for (predicate, *same), of_part in conditions:
        field, value, is_masked = _shown(predicate, masks)
        synonyms = tuple(Synonym(*_shown(one, masks)[:2]) for one in same)
        parts.append(Part(field, value, *of_part, synonyms))
        sql.append("" if is_masked else condition(*predicate))
    where, compared_with = " AND ".join(sql) if all(sql) else "", _ALIKE if others_alike else _ALL
    return Lead(tuple(parts), *shares, score, where, compared_with)


def _shown(predicate: Predicate, masks: Masks) -> tuple[str, str, bool]:
    """Return field and value as they may be shown, and whether anything in them is masked."""
    field, value = path_text(predicate.path), _value_text(predicate)
    shown_field, shown = masks.text(field), value
    is_value = predicate.kind is Kind.TAG and predicate.tag.startswith((VALUE, MAGNITUDE))
    if is_value and field != SIZE:
        shown = masks.value(field, value)
    is_masked = shown != value or shown_field != field
    return shorten(shown_field, _FIELD_CHARACTERS), shorten(shown, _VALUE_CHARACTERS), is_masked


def _value_text(predicate: Predicate) -> str:
    if predicate.kind is not Kind.TAG:
        return f"({predicate.kind.name.lower()})"
    tag = predicate.tag
    if tag.startswith(VALUE):
        return f'"{tag[1:]}"' if not tag[1:] or state_of(tag[1:]) else tag[1:]
    if tag.startswith(MAGNITUDE):
        if predicate.path != SIZE:
            return _range(tag[1:])
        bits = int(tag[1:])
        return f"{2**bits // 2:,} to {2**bits - 1:,}" if bits else "0"
    return _TYPE_WORDS[tag]


def _range(digits: str) -> str:
    least, most = f"{10 ** (abs(int(digits)) - 1):,}", f"{10 ** abs(int(digits)):,}"
    if digits == "0":
        return "between -1 and 1"
    return f"-{most} to -{least}" if digits.startswith("-") else f"{least} to {most}"


def condition(kind: Kind, path: str, tag: str) -> str:
    """Return the SQL condition for a ``Predicate``, empty where SQL cannot express it."""
    if any(mark in path for mark in (MASKED_KEY, FROM_BASE64, UNPACKED, f"{BODY}{INNER_JSON}")):
        return ""
    if path == SIZE:
        return _size(tag)
    if path in COLUMNS:
        return _column(kind, path, tag)
    if path.startswith(f"{ATTRIBUTE}{STEP}"):
        return _attribute(kind, path.partition(STEP)[2], tag)
    return _in_body(kind, path, tag) or ""


def quoted(text: str) -> str:
    """Format *text* as an SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _size(tag: str) -> str:
    if not tag.startswith(MAGNITUDE):
        return ""
    bits = int(tag[1:])
    return f"body_bytes >= {2**bits // 2} AND body_bytes < {2**bits}" if bits else "body_bytes = 0"


def _column(kind: Kind, name: str, tag: str) -> str:
    if kind is Kind.TAG and tag.startswith(VALUE):
        return f"{name} = {quoted(tag[1:])}"
    return f"{name} IS NULL" if kind is Kind.MISSING else f"{name} IS NOT NULL"


def _attribute(kind: Kind, name: str, tag: str) -> str:
    attribute = f"attributes[{quoted(name)}]"
    if kind is not Kind.TAG:
        return f"{attribute} IS {'NOT ' if kind is Kind.PRESENT else ''}NULL"
    if tag.startswith(VALUE):
        return f"{attribute}.string_value = {quoted(tag[1:])}"
    held = {TEXT: "string_value", BINARY: "binary_value"}.get(tag)
    return f"{attribute}.{held} IS NOT NULL" if held else ""


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a body: the JSON that the SQL expression *text* yields, then *path* inside it."""

    text: str
    path: str = "$"
    arrays: int = 0

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
            return replace(self, path=f"{self.path}.{name}")
        if "'" in name or name in ("*", ""):
            return None
        return replace(self, path=f"{self.path}['{name}']")

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


def _in_body(kind: Kind, path: str, tag: str) -> str | None:
    steps = [(match[0], match[1]) for match in _STEPS.finditer(path)]
    if kind is Kind.TAG and tag != IN_SOME:
        return _walk(_Place(BODY), steps, lambda place: _tagged(place, tag))
    if not steps:
        return None
    last, name = steps.pop()
    if last == ELEMENT:
        count = "> 0" if kind is Kind.PRESENT else "= 0"

        def has_elements(place: _Place) -> str | None:
            is_array = place.is_of(ARRAY)
            length = f"json_array_length({place.json}) {count}"
            return f"{is_array} AND {length}" if is_array else None

        return _walk(_Place(BODY), steps, has_elements)
    return _in_object(kind, steps, name or "", in_some=tag == IN_SOME)


def _in_object(
    kind: Kind, steps: list[tuple[str, str | None]], name: str, *, in_some: bool
) -> str | None:
    """Return SQL for: the object at *steps* has this key, or lacks it."""

    def has(place: _Place) -> str:
        return f"array_contains(json_object_keys({place.json}), {quoted(name)})"

    def is_object(place: _Place) -> str:
        return f"json_object_keys({place.json}) IS NOT NULL"

    there = _walk(_Place(BODY), steps, has)
    lacks = _walk(_Place(BODY), steps, lambda place: f"NOT {has(place)}")
    if kind is Kind.PRESENT or there is None:
        return there
    if in_some:
        return f"{there} AND {lacks}"
    if (ELEMENT, None) not in steps:
        return lacks
    # In an array: its elements are objects, and none of them has the field.
    return f"{_walk(_Place(BODY), steps, is_object)} AND NOT {there}"


def _walk(place: _Place, steps: list[tuple[str, str | None]], test: _Test) -> str | None:
    """Follow *steps*. What comes after an array must hold for one of its elements."""
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
    """Return SQL for a value. A text that looks like a number needs a check of its type."""
    is_equal = f"{place.value} = {quoted(text)}"
    if _NUMBER.fullmatch(text) and not _COUNTED.fullmatch(text) and (is_text := place.is_of(TEXT)):
        return f"{is_text} AND {is_equal}"
    return is_equal


def _magnitude(number: str, digits: str) -> str:
    least, most = 10 ** (abs(int(digits)) - 1), 10 ** abs(int(digits))
    if digits == "0":
        return f"{number} > -1 AND {number} < 1"
    if digits.startswith("-"):
        return f"{number} <= -{least} AND {number} > -{most}"
    return f"{number} >= {least} AND {number} < {most}"
