"""The traits of a message: what each of its fields holds, as texts that can be counted. Pure.

A trait is a field's way and a tag, ``way TAB tag``. Every field has one trait that says its type;
texts, numbers and booleans have one with the value too, and numbers one with their magnitude. What
can never be a lead is left out: the values of long texts and of times, and fractions. Of a message
with too many fields the deep ones are left out; an object or array whose fields are all there has a
trait that says so, without which nothing can be said to be missing.

Ways are built of marks that no key can hold, so that a key with a dot in it is no two keys; how a
way reads, ``way_text`` says.
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from spark_reprocess.analysis.normalization import mask_name
from spark_reprocess.analysis.payload import NOT_JSON, in_base64, parse_container, parse_json

TAG = "\t"
NEXT = "\n"

STEP = "\x1f"
ELEMENT = "\x1d"
INNER_JSON = "\x1e"
MASKED_KEY = "\x1c"
FROM_BASE64 = "\x1b"
UNPACKED = "\x1a"

BODY = "body"
ATTRIBUTE = "attribute"
COLUMNS = ("message_group_id", "sender_id", "source_arn")
SIZE = "body_bytes"

TEXT, NUMBER, BOOLEAN, NULL = "T", "N", "B", "0"
OBJECT, ARRAY, BINARY, EMPTY = "O", "A", "Y", "E"
KINDS = (TEXT, NUMBER, BOOLEAN, NULL, OBJECT, ARRAY, BINARY, EMPTY)
SEEN = "+"
IN_SOME = "-"
"""Some elements of an array lack a field that others of the same array have."""

VALUE, MAGNITUDE = "=", "~"

OUR_ATTRIBUTES = ("sqs-dlq-replay-nb", "sqs-dlq-context")
_FIELDS = 400
_ELEMENTS = 20
_LEVELS = 12
_VALUE_CHARACTERS = 80
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]|$)|\d\d:\d\d(?::\d\d)?$")
_MARKS = str.maketrans(
    {STEP: ".", ELEMENT: "[]", INNER_JSON: "", MASKED_KEY: "", FROM_BASE64: "", UNPACKED: ""}
)


def traits_of(
    body: str,
    body_bytes: int,
    attributes: Iterable[tuple[str, Mapping[str, Any]]],
    columns: Mapping[str, str | None],
) -> str:
    """Return a message's traits, each once, one per line. Never raises, whatever it holds.

    Args:
        body: the body.
        body_bytes: its size.
        attributes: name and ``data_type, string_value, binary_value`` of each.
        columns: what it has of ``COLUMNS``.
    """
    found = _Found()
    for name, value in columns.items():
        if value is not None:
            found.text(name, value)
    found.add(SIZE, NUMBER)
    found.add(SIZE, f"{MAGNITUDE}{body_bytes.bit_length()}")
    for name, attribute in attributes:
        if name not in OUR_ATTRIBUTES:
            _read_attribute(found, _child(ATTRIBUTE, name), attribute)
    _read_body(found, body)
    return NEXT.join(found.traits)


def way_text(way: str) -> str:
    """Spell a way for a human: ``body.items[].sku``."""
    return way.translate(_MARKS)


class _Found:
    """Traits in the order found; a dict keeps each once."""

    __slots__ = ("fields", "traits")

    def __init__(self) -> None:
        self.traits: dict[str, None] = {}
        self.fields: set[str] = set()

    def add(self, way: str, tag: str) -> None:
        self.traits[f"{way}{TAG}{tag}"] = None

    def kind(self, way: str, kind: str) -> None:
        # The elements of an array may differ; the first says what is usual.
        if way not in self.fields:
            self.fields.add(way)
            self.traits[f"{way}{TAG}{kind}"] = None

    def text(self, way: str, text: str) -> None:
        self.kind(way, TEXT)
        if len(text) <= _VALUE_CHARACTERS and text.isprintable() and not _TIME.match(text):
            self.add(way, f"{VALUE}{text}")

    def number(self, way: str, number: float) -> None:
        self.kind(way, NUMBER)
        if type(number) is int and -(10**9) < number < 10**9:
            self.add(way, f"{VALUE}{number}")
        if abs(number) < 10.0**15:
            digits = len(str(int(abs(number)))) if abs(number) >= 1 else 0
            self.add(way, f"{MAGNITUDE}{'-' if digits and number < 0 else ''}{digits}")


def _read_attribute(found: _Found, way: str, attribute: Mapping[str, Any]) -> None:
    text = attribute["string_value"]
    if text is None:
        found.kind(way, BINARY)
    else:
        found.text(way, text)


def _read_body(found: _Found, body: str) -> None:
    way, text, value = BODY, body, parse_json(body)
    while value is NOT_JSON and (packed := in_base64(text)) is not None:
        word, held = packed
        way += UNPACKED if "gzip" in word else FROM_BASE64
        if isinstance(held, bytes):
            found.kind(way, BINARY)
            return
        text, value = held, parse_json(held)
    if value is NOT_JSON:
        found.kind(way, TEXT if text.strip() else EMPTY)
    else:
        _read_json(found, way, value)


def _read_json(found: _Found, root: str, value: object) -> None:
    """Breadth first, so that of a message with too many fields the deep ones are left out."""
    waiting: deque[tuple[str, Any, int]] = deque()
    _read_field(found, waiting, root, value, 0)
    while waiting:
        way, container, level = waiting.popleft()
        if level >= _LEVELS or len(found.fields) + len(container) > _FIELDS:
            continue
        found.add(way, SEEN)
        if type(container) is dict:
            for key, one in container.items():
                _read_field(found, waiting, _child(way, key), one, level)
        else:
            _read_elements(found, waiting, f"{way}{ELEMENT}", container[:_ELEMENTS], level)


def _read_elements(
    found: _Found,
    waiting: deque[tuple[str, Any, int]],
    way: str,
    elements: list[Any],
    level: int,
) -> None:
    for one in elements:
        _read_field(found, waiting, way, one, level)
    objects = [one.keys() for one in elements if type(one) is dict]
    if any(keys != objects[0] for keys in objects):
        for key in set().union(*objects):
            if not all(key in keys for keys in objects):
                found.add(_child(way, key), IN_SOME)


def _read_field(
    found: _Found, waiting: deque[tuple[str, Any, int]], way: str, value: object, level: int
) -> None:
    match value:
        case dict():
            found.kind(way, OBJECT)
            waiting.append((way, value, level + 1))
        case list():
            found.kind(way, ARRAY)
            waiting.append((way, value, level + 1))
        case str():
            inside = parse_container(value) if level < _LEVELS else NOT_JSON
            if inside is NOT_JSON:
                found.text(way, value)
            else:
                found.kind(way, TEXT)
                _read_field(found, waiting, f"{way}{INNER_JSON}", inside, level + 1)
        case bool():
            found.kind(way, BOOLEAN)
            found.add(way, f"{VALUE}{str(value).lower()}")
        case int() | float():
            found.number(way, value)
        case _:
            found.kind(way, NULL)


@lru_cache(maxsize=65_536)
def _child(way: str, key: str) -> str:
    name = mask_name(key)
    return f"{way}{STEP}{name}" if name == key else f"{way}{STEP}{name}{MASKED_KEY}"
