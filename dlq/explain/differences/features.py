"""Extract the features of a message: the content of each field, as countable texts. Pure.

A feature is the path of a field and a tag: ``path TAB tag``. Each field has one feature for its
type. Texts, integers and booleans have one for the value, and numbers one for the magnitude. There
is no feature for values that cannot be a difference: long texts, times and fractions. Of a message
with too many fields, the deepest ones are left out. An object or array whose fields were all read
has the tag ``COMPLETE``; only in such an object can a field be called missing.

Paths are built with separators that no key contains, so that a key with a dot in it stays one key.
``path_text`` formats a path for people.
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from dlq.archive.messages.self_description import error_fields
from dlq.explain.signature.names import mask_name
from dlq.explain.signature.payload import (
    NOT_JSON,
    in_base64,
    parse_container,
    parse_json,
    pointer_of,
)

TAG = "\t"
NEWLINE = "\n"

STEP = "\x1f"
ELEMENT = "\x1d"
INNER_JSON = "\x1e"
MASKED_KEY = "\x1c"
FROM_BASE64 = "\x1b"

BODY = "body"
ATTRIBUTE = "attribute"
COLUMNS = ("message_group_id", "sender_id", "source_arn")
SIZE = "body_bytes"
POINTERS: Mapping[str, str] = {
    "s3_bucket": "get_json_object(body, '$[1].s3BucketName')",
    "s3_prefix": "regexp_extract(get_json_object(body, '$[1].s3Key'), '^.*/', 0)",
}
"""Fields of a body that is a pointer of the SQS extended client, in SQL."""

TEXT = "text"
NUMBER = "number"
BOOLEAN = "true or false"
NULL = "null"
OBJECT = "object"
ARRAY = "array"
BINARY = "bytes"
EMPTY = "empty"
TYPES = (TEXT, NUMBER, BOOLEAN, NULL, OBJECT, ARRAY, BINARY, EMPTY)
COMPLETE = "+"
IN_SOME = "missing in some"
"""A field is missing in some elements of an array and present in others."""

VALUE = "="
MAGNITUDE = "~"

PRESENT = "present"
MISSING = "missing"
"""Tags of predicates that are no features."""

OUR_ATTRIBUTES = ("sqs-dlq-replay-nb", "sqs-dlq-context")
_FIELDS = 400
_ELEMENTS = 20
_LEVELS = 12
_VALUE_CHARACTERS = 80
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]|$)|\d\d:\d\d(?::\d\d)?$")
_MARKS = str.maketrans({STEP: ".", ELEMENT: "[]", INNER_JSON: "", MASKED_KEY: "", FROM_BASE64: ""})


def features_of(
    body: str,
    body_bytes: int,
    attributes: Iterable[tuple[str, Mapping[str, Any]]],
    columns: Mapping[str, str | None],
) -> str:
    """Return the features of a message, each once, one per line. Never raises.

    *attributes* are names with ``data_type, string_value, binary_value``; *columns* has the values
    of ``COLUMNS``.
    """
    features = _Features()
    for name, value in columns.items():
        if value is not None:
            features.text(name, value)
    features.add(SIZE, NUMBER)
    features.add(SIZE, f"{MAGNITUDE}{body_bytes.bit_length()}")

    named_attributes = dict(attributes)
    error_names = error_fields(named_attributes)
    for name, attribute in named_attributes.items():
        if name in OUR_ATTRIBUTES or name in error_names:
            continue
        path = _child(ATTRIBUTE, name)
        text = attribute["string_value"]
        if text is None:
            features.add_type(path, BINARY)
        else:
            features.text(path, text)

    features.body(body)
    return NEWLINE.join(features.features)


def path_text(path: str) -> str:
    """Format a path for people: ``body.items[].sku``."""
    return path.translate(_MARKS)


class _Features:
    """The features of one message, each once, in the order in which they were found."""

    def __init__(self) -> None:
        self.features: dict[str, None] = {}
        self._fields: set[str] = set()
        self._waiting: deque[tuple[str, Any, int]] = deque()

    def add(self, path: str, tag: str) -> None:
        self.features[f"{path}{TAG}{tag}"] = None

    def add_type(self, path: str, type_tag: str) -> None:
        # The elements of an array may differ. The type of the first one counts.
        if path not in self._fields:
            self._fields.add(path)
            self.features[f"{path}{TAG}{type_tag}"] = None

    def text(self, path: str, text: str) -> None:
        self.add_type(path, TEXT)
        is_time = text[:1].isdecimal() and _TIME.match(text)
        if not is_time and len(text) <= _VALUE_CHARACTERS and text.isprintable():
            self.add(path, f"{VALUE}{text}")

    def number(self, path: str, number: float) -> None:
        self.add_type(path, NUMBER)
        if type(number) is int and -(10**9) < number < 10**9:
            self.add(path, f"{VALUE}{number}")
        size = abs(number)
        if size < 10.0**15:
            digits = len(str(int(size))) if size >= 1 else 0
            sign = "-" if digits and number < 0 else ""
            self.add(path, f"{MAGNITUDE}{sign}{digits}")

    def body(self, body: str) -> None:
        path = BODY
        text = body
        value = parse_json(text)
        while value is NOT_JSON and (decoded := in_base64(text)) is not None:
            _, content = decoded
            path += FROM_BASE64
            if isinstance(content, bytes):
                self.add_type(path, BINARY)
                return
            text = content
            value = parse_json(text)
        if value is NOT_JSON:
            self.add_type(path, TEXT if text.strip() else EMPTY)
            return

        pointer = pointer_of(value)
        if pointer is not None:
            for name, part in zip(POINTERS, pointer, strict=False):
                self.text(name, part)
            return

        self._field(path, value, 0)
        # Breadth first, so that the deepest fields are the ones left out.
        while self._waiting:
            path, container, level = self._waiting.popleft()
            if level >= _LEVELS or len(self._fields) + len(container) > _FIELDS:
                continue
            self.add(path, COMPLETE)
            if type(container) is dict:
                self._object(path, container, level)
            else:
                self._elements(f"{path}{ELEMENT}", container[:_ELEMENTS], level)

    def _object(self, path: str, fields: dict[str, Any], level: int) -> None:
        error_names = error_fields(fields) if path == BODY else ()
        for key, value in fields.items():
            if key not in error_names:
                self._field(_child(path, key), value, level)

    def _elements(self, path: str, elements: list[Any], level: int) -> None:
        for element in elements:
            self._field(path, element, level)

        objects = [element for element in elements if type(element) is dict]
        if all(element.keys() == objects[0].keys() for element in objects):
            return
        in_all = set(objects[0]).intersection(*objects)
        for key in set().union(*objects):
            if key not in in_all:
                self.add(_child(path, key), IN_SOME)

    def _field(self, path: str, value: object, level: int) -> None:
        match value:
            case str():
                inside = parse_container(value) if level < _LEVELS else NOT_JSON
                if inside is NOT_JSON:
                    self.text(path, value)
                else:
                    self.add_type(path, TEXT)
                    self._field(f"{path}{INNER_JSON}", inside, level + 1)
            case dict() | list():
                self.add_type(path, OBJECT if isinstance(value, dict) else ARRAY)
                self._waiting.append((path, value, level + 1))
            case bool():
                self.add_type(path, BOOLEAN)
                self.add(path, f"{VALUE}{str(value).lower()}")
            case int() | float():
                self.number(path, value)
            case _:
                self.add_type(path, NULL)


@lru_cache(maxsize=65_536)
def _child(path: str, key: str) -> str:
    name = mask_name(key)
    return f"{path}{STEP}{name}" if name == key else f"{path}{STEP}{name}{MASKED_KEY}"
