"""The shape of a payload: what it looks like when its values are left out. Pure.

- A JSON object: the values of keys that name a kind of message (``type``, ``action``, …); its keys
  with the types of their values; of objects one level further in, the keys, and which of them hold
  numbers, booleans or arrays. Texts, objects and null are not told apart there, because fields that
  may be null are common. Objects that carry the payload itself (``data``, ``payload``, …) count as
  no level; those that anybody adds keys to (``headers``, ``metadata``, …) are not looked into.
- Another JSON value: its type; an array: the types of its elements.
- XML: its root element. Text that begins like JSON and is none: its first keys.
- Other text: its first 80 characters, ids and numbers masked. Bytes: their size class.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from spark_reprocess.analysis.json_text import KINDS, NOT_JSON, kind_of, parse_container
from spark_reprocess.analysis.payload import Payload, unwrap
from spark_reprocess.analysis.varying import mask_ids, mask_name, mask_numbers

KIND_KEYS = (
    "type",
    "@type",
    "kind",
    "event",
    "eventType",
    "event_type",
    "eventName",
    "event_name",
    "messageType",
    "message_type",
    "detail-type",
    "action",
    "operation",
)
"""Keys whose value names a kind of message."""

_CARRIERS = frozenset(
    ("data", "payload", "detail", "message", "body", "event", "record", "content")
)
_OPEN = frozenset(
    (
        "headers",
        "metadata",
        "meta",
        "tags",
        "labels",
        "annotations",
        "attributes",
        "properties",
        "extra",
        "extras",
        "custom",
        "context",
        "params",
        "parameters",
        "query",
        "options",
        "config",
        "settings",
        "env",
        "variables",
    )
)
_LEVELS = 3
_KIND_CHARACTERS = 64
_KEYS = 200
_TITLE_KEYS = 50
_TEXT_CHARACTERS = 80
_HEAD_CHARACTERS = 1024
_SIZE_CLASSES = ((1024, "1 KiB"), (16 * 1024, "16 KiB"), (256 * 1024, "256 KiB"))

_KIND = re.compile(r"[A-Za-z@][\w .:/@#-]*")
_ENCODED = re.compile(r"[A-Za-z0-9+/_=\s-]{64,}")
_ENCODED_WORD = 48
_WORD = re.compile(r"[^\s\"',;<>()\[\]{}|\x80-\U0010ffff]")
_LAST_WORD = re.compile(_WORD.pattern + r"{1,80}\Z")
_XML = re.compile(
    r"(?:\s|<\?xml[^>]*+>|<!--(?:[^-]|-(?!->))*+-->|<!DOCTYPE[^>]*+>)*+"
    r"<([A-Za-z_][\w:.-]*+)[\s/>]"
)
"""No part can match in two ways: with ``.*?-->`` a row of comments took time beyond measure."""
_JSON_KEY = re.compile(r'"([^"\\]{1,64})"\s*:')
_BROKEN_KEYS = 3

_STRING_OF = "string of "
_TEXT = "text "
_WORDLESS = "text <hidden>"

Kind = type | str


@dataclass(frozen=True, slots=True)
class Shape:
    """A payload's shape.

    Attributes:
        key: everything that distinguishes it, on one line.
        title: what a human needs to see of it.
        wordless: the title of one whose texts nobody may read: without the words of a text body.
    """

    key: str
    title: str
    wordless: str


def shape_of(body: str) -> Shape:
    """Describe a body by its shape, as the module says. Never raises, whatever it holds."""
    payload = unwrap(body)
    shape = _shape(payload)
    if not payload.wrappings:
        return shape
    words = " ".join(payload.wrappings)
    return Shape(f"{words} {shape.key}", f"{words} {shape.title}", f"{words} {shape.wordless}")


def _shape(payload: Payload) -> Shape:
    value = payload.value
    if type(value) is dict:
        return _object_shape(value)
    if value is NOT_JSON:
        return _text_shape(payload)
    if isinstance(value, list):
        kinds = sorted({kind_of(element) for element in value})
        return _alike(f"JSON array of {' or '.join(kinds) or 'nothing'}")
    return _alike(f"JSON {kind_of(value)}")


def _alike(text: str) -> Shape:
    return Shape(text, text, text)


def _object_shape(value: Mapping[str, Any]) -> Shape:
    kinds = tuple([_kind_inside(key, field, _LEVELS) for key, field in value.items()])
    fields, shown = _spell(tuple(value), kinds)
    words = "".join([f" {word}" for word in _kind_words(value)])
    title = f"JSON{words} {{{shown}}}"
    return Shape(f"JSON{words} {{{fields}}}", title, title)


def _kind_words(value: Mapping[str, Any]) -> list[str]:
    return [
        f"{key}={mask_ids(kind)}"
        for key in KIND_KEYS
        if type(kind := value.get(key)) is str
        and len(kind) <= _KIND_CHARACTERS
        and _KIND.fullmatch(kind)
    ]


def _kind_inside(key: str, field: object, levels: int) -> Kind:
    """The type of a field, or for an object the spelling of what is in it."""
    if type(field) is str and key in _CARRIERS:
        inside = parse_container(field)
        if type(inside) is not dict:
            return str
        return f"{_STRING_OF}{_carried(inside, levels)}"
    if type(field) is not dict or key in _OPEN:
        return type(field)
    return _carried(field, levels) if key in _CARRIERS else _names(*_flat(field))


def _carried(value: Mapping[str, Any], levels: int) -> str:
    if levels == 0:
        return "object"
    kinds = tuple([_kind_inside(key, field, levels - 1) for key, field in value.items()])
    fields, _ = _spell(tuple(value), kinds)
    words = "".join([f"{word} " for word in _kind_words(value)])
    return f"{words}{{{fields}}}"


def _flat(value: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[type, ...]]:
    return tuple(value), tuple(map(type, value.values()))


# Thousands of messages share a handful of layouts, so what is sorted and masked is kept.
@lru_cache(maxsize=4096)
def _spell(names: tuple[str, ...], kinds: tuple[Kind, ...]) -> tuple[str, str]:
    pairs = list(zip(map(mask_name, names), kinds, strict=True))
    fields = sorted({f"{name}:{_spelt(kind)}" for name, kind in pairs})
    shown = sorted({f"{name}:{_shown(kind)}" for name, kind in pairs})
    return _cut(fields, _KEYS), _cut(shown, _TITLE_KEYS)


def _spelt(kind: Kind) -> str:
    return kind if isinstance(kind, str) else KINDS[kind]


def _shown(kind: Kind) -> str:
    if isinstance(kind, str):
        return "string" if kind.startswith(_STRING_OF) else "object"
    return KINDS[kind]


@lru_cache(maxsize=4096)
def _names(names: tuple[str, ...], kinds: tuple[type, ...]) -> str:
    pairs = zip(map(mask_name, names), kinds, strict=True)
    fields = sorted({f"{name}{_NAMED_INSIDE.get(kind, '')}" for name, kind in pairs})
    return f"{{{_cut(fields, _KEYS)}}}"


_NAMED_INSIDE: dict[type, str] = {
    bool: ":boolean",
    int: ":number",
    float: ":number",
    list: ":array",
}


def _cut(fields: list[str], most: int) -> str:
    return ", ".join(fields[:most]) + (", …" if len(fields) > most else "")


def _text_shape(payload: Payload) -> Shape:
    text = payload.text
    if not text:
        return _alike(f"bytes, {_size_class(payload.size)}" if payload.size else "empty body")
    head = text[:_HEAD_CHARACTERS].strip()
    if not head and not text.strip():
        return _alike("empty body")
    if _looks_encoded(head):
        return _alike(f"encoded bytes, {_size_class(len(text))}")
    if root := _XML.match(head):
        return _alike(f"XML {mask_name(root[1])}")
    if head[0] in "{[" and (keys := dict.fromkeys(map(mask_name, _JSON_KEY.findall(head)))):
        return _alike(f"broken JSON {{{', '.join(list(keys)[:_BROKEN_KEYS])}, …}}")
    key = f"{_TEXT}{_without_numbers(head[:_TEXT_CHARACTERS])}"
    return Shape(key, f"{_TEXT}{_without_numbers(_whole_words(head))}", _WORDLESS)


def _without_numbers(text: str) -> str:
    return mask_numbers(mask_ids(text))


def _whole_words(head: str) -> str:
    """Return the first 80 characters, less a word that is cut: half a secret has no look."""
    shown = head[:_TEXT_CHARACTERS]
    if not _WORD.match(head, _TEXT_CHARACTERS):
        return shown
    return f"{shown[: -len(cut[0])]}…" if (cut := _LAST_WORD.search(shown)) else shown


def _looks_encoded(head: str) -> bool:
    if sum(not (c.isprintable() or c.isspace()) for c in head) * 10 > len(head):
        return True
    longest = max((len(word) for word in head.split()), default=0)
    return longest >= _ENCODED_WORD and _ENCODED.fullmatch(head) is not None


def _size_class(size: int) -> str:
    return next(
        (f"up to {name}" for limit, name in _SIZE_CLASSES if size <= limit), "above 256 KiB"
    )
