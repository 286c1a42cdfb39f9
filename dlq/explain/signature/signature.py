"""The signature of a failure: messages with the same signature belong to one group. Pure.

docs/analysis.md, "Groups", has the rules. Of objects inside a JSON object, texts, objects and null
count as one type, because fields that may be null are common. Objects that carry the payload itself
(``data``, ``payload``, …) do not count as a level. Objects with arbitrary keys (``headers``,
``metadata``, …) are not read.

The same message has the same signature in every run. A change to any of these rules needs a new
``SIGNATURE_VERSION``, because plans refer to groups by id.
"""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from dlq.explain.grouping import ERROR, ERROR_CODE, group_id_of
from dlq.explain.signature.kinds import kind_words
from dlq.explain.signature.names import mask_ids, mask_name, mask_names, mask_words
from dlq.explain.signature.payload import (
    JSON_TYPES,
    NOT_JSON,
    Payload,
    parse_container,
    unwrap,
)
from dlq.figures import truncate
from dlq_replay.rules.failures import one_line
from dlq_replay.text.normalization import mask_error, whole_words
from dlq_replay.text.places import names_little, place_of
from dlq_replay.wire.context import KEPT_ERROR_BYTES, start_in_json

PARKED_BY_SQS = "parked_by_sqs"
"""The reason of a message without one: SQS's own redrive policy parked it."""

TITLE_CHARACTERS = 160
_UNKNOWN_ERROR = "Error"
_CUT_REACH_BYTES = 40

_CARRIERS = frozenset(
    ("data", "payload", "detail", "message", "body", "event", "record", "content")
)
_OPEN = frozenset(
    (
        "annotations",
        "attributes",
        "config",
        "context",
        "custom",
        "env",
        "extra",
        "extras",
        "headers",
        "labels",
        "meta",
        "metadata",
        "options",
        "parameters",
        "params",
        "properties",
        "query",
        "settings",
        "tags",
        "variables",
    )
)
"""Keys of objects with arbitrary keys."""

_LEVELS = 3
_KEYS = 200
_TITLE_KEYS = 50
_TEXT_CHARACTERS = 80
_HEAD_CHARACTERS = 1024
_SIZE_CLASSES = ((1024, "1 KiB"), (16 * 1024, "16 KiB"), (256 * 1024, "256 KiB"))

_ENCODED = re.compile(r"[A-Za-z0-9+/_=\s-]{64,}")
_ENCODED_WORD = 48
_WORD = re.compile(r"[^\s\"',;<>()\[\]{}|\x80-\U0010ffff]")
_LAST_WORD = re.compile(_WORD.pattern + r"{1,80}\Z")
_XML = re.compile(
    r"(?:\s|<\?xml[^>]*+>|<!--(?:[^-]|-(?!->))*+-->|<!DOCTYPE[^>]*+>)*+"
    r"<([A-Za-z_][\w:.-]*+)[\s/>]"
)
"""Possessive quantifiers avoid exponential backtracking on a row of comments."""
_JSON_KEY = re.compile(r'"([^"\\]{1,64})"\s*:')
_BROKEN_KEYS = 3

_STRING_OF = "string of "


class Signature(NamedTuple):
    """The identity of a failure, or of the shape of a payload.

    Attributes:
        key: the whole identity, on one line.
        text: the part of the key that people need to see; not masked.
        textless: the same without the words of a text body, for ``--no-samples``.
    """

    key: str
    text: str
    textless: str

    @property
    def group_id(self) -> str:
        """The id of the group; of an error, the id that it has if no older group fits."""
        return _group_id(self.key)

    @property
    def group_key(self) -> str:
        """The key of an error, whose group the table of groups decides; else the group's id."""
        return self.key if self.key.startswith(ERROR) else self.group_id


def signature_of(
    body: str,
    parked_reason: str | None,
    error_type: str | None,
    error_message: str | None,
    error_code: str | None = None,
    stated_kind: str | None = None,
    error_place: str | None = None,
) -> Signature:
    """Return the signature of a message. Never raises. With a code no text counts.

    *stated_kind* is that of an attribute; it counts where the shape does, without an error.
    *error_place* is as ``FailureError.place``.
    """
    if error_code:
        title = f"{error_type or _UNKNOWN_ERROR} ({error_code})"
        return Signature(f"{ERROR_CODE}{title}", title, title)
    if has_error(error_type, error_message):
        return _error_signature(error_type, error_message, error_place or "")
    reason = parked_reason or PARKED_BY_SQS
    shape = shape_of(body)
    kind = f"{mask_ids(stated_kind)} " if stated_kind else ""
    return Signature(
        f"shape|{reason}|{kind}{shape.key}",
        f"{reason}: {kind}{shape.text}",
        f"{reason}: {kind}{shape.textless}",
    )


class Reason(NamedTuple):
    """The error of a message, as it is recorded or as logs have it; None for what is unknown.

    *logged* says where logs have it, in lines.
    """

    type: str | None
    message: str | None
    place: str | None = None
    logged: str | None = None


SIGNED = (
    "message_id",
    "body",
    "parked_reason",
    "error_type",
    "error_message",
    "error_code",
    "stated_kind",
    "error_place",
)
"""The columns that decide about a message's group."""

Reasons = Mapping[str, Mapping[str, Any]]
"""By message id, rows of ``message_index.REASONS``: errors that logs have."""


def reason_of(
    reasons: Reasons,
    message_id: str,
    error_type: str | None,
    error_message: str | None,
    error_place: str | None = None,
) -> Reason:
    """Return the recorded error of a message; without one, the error in logs."""
    row = reasons.get(message_id)
    if not row or has_error(error_type, error_message):
        return Reason(error_type, error_message, error_place)

    logged_type = row["log_error_type"]
    message = row["log_error_message"]
    logged = row["logged"]
    return Reason(logged_type, message, _logged_place(logged_type, message, logged), logged)


def frames_of(logged: str) -> str:
    """Return the frames in ``Reason.logged``: the lines below the place, without the link."""
    _, *lines = logged.split("\n")
    return "\n".join(line for line in lines if not line.startswith("https://"))


def _logged_place(error_type: str, message: str, logged: str) -> str:
    if not names_little(error_type, mask_error(one_line(message))):
        return ""
    return place_of(frames_of(logged))


def keys_of(*columns: "pa.Array[Any] | pa.ChunkedArray[Any]", reasons: Reasons) -> "pa.Array[Any]":
    """Return the ``Signature.group_key`` of each message; *columns*, Arrow's, are ``SIGNED``."""
    keys = []
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    for row in rows:
        message_id, body, parked_reason, error_type, error_message, code, kind, place = row
        if message_id in reasons:
            reason = reason_of(reasons, message_id, error_type, error_message, place)
            error_type, error_message, place, _ = reason
        signature = signature_of(
            body or "", parked_reason, error_type, error_message, code, kind, place
        )
        keys.append(signature.group_key)
    return pa.array(keys, pa.string())


# A recorder has masked most texts, so that they are often equal.
@lru_cache(maxsize=16_384)
def _error_signature(error_type: str | None, error_message: str | None, place: str) -> Signature:
    text = mask_error(one_line(error_message or ""))
    # Leave out the end: a cut by a recorder can reach it, and what masking looks at there.
    start = start_in_json(text, KEPT_ERROR_BYTES - _CUT_REACH_BYTES)
    if start != text:
        text = whole_words(text, len(start))
    if place:
        text = f"{text} at {place}" if text else f"at {place}"

    error = error_type or _UNKNOWN_ERROR
    if text:
        error = f"{error}: {text}"
    title = error if one_line(error) else _UNKNOWN_ERROR
    # It is chance whether an id has a letter.
    return Signature(f"{ERROR}{error.replace('<id>', '<n>')}", title, title)


def short_title(text: str) -> str:
    """Return *text* on one line, at most 160 printable characters."""
    return truncate(one_line(text), TITLE_CHARACTERS)


def has_error(error_type: str | None, error_message: str | None) -> bool:
    """Return whether an error was recorded. If so, the body is not part of the signature."""
    return bool(error_type or error_message)


_group_id = lru_cache(maxsize=8192)(group_id_of)


def shape_of(body: str) -> Signature:
    """Return the signature of a body's shape. Never raises."""
    payload = unwrap(body)
    shape = _shape(payload)
    wrappings = " ".join((*payload.wrappings, ""))
    return Signature(
        key=f"{wrappings}{shape.key}",
        text=f"{wrappings}{shape.text}",
        textless=f"{wrappings}{shape.textless}",
    )


def _shape(payload: Payload) -> Signature:
    value = payload.value
    if type(value) is dict:
        fields, shown = _described_fields(value, _LEVELS)
        start = " ".join(["JSON", *kind_words(value)])
        title = f"{start} {{{shown}}}"
        return Signature(f"{start} {{{fields}}}", title, title)
    if value is NOT_JSON:
        return _text_shape(payload)
    if isinstance(value, list):
        types = {JSON_TYPES[type(element)] for element in value}
        return _alike(f"JSON array of {' or '.join(sorted(types)) or 'nothing'}")
    return _alike(f"JSON {JSON_TYPES[type(value)]}")


def _alike(text: str) -> Signature:
    return Signature(key=text, text=text, textless=text)


def _described_fields(value: Mapping[str, Any], levels: int) -> tuple[str, str]:
    """Describe the fields of an object as ``_describe``; *levels* of objects inside are read."""
    kinds = [_kind_inside(key, field, levels) for key, field in value.items()]
    return _describe(tuple(value), tuple(kinds))


def _kind_inside(key: str, field: object, levels: int) -> str:
    """Return the type of a field; of an object the description of its fields."""
    if type(field) is str and key in _CARRIERS:
        inside = parse_container(field)
        if type(inside) is dict:
            return f"{_STRING_OF}{_carried(inside, levels)}"
        return "string"
    if type(field) is not dict or key in _OPEN:
        return JSON_TYPES[type(field)]
    if key in _CARRIERS:
        return _carried(field, levels)
    return _names(tuple(field), tuple(map(type, field.values())))


def _carried(value: Mapping[str, Any], levels: int) -> str:
    if levels == 0:
        return "object"
    fields, _ = _described_fields(value, levels - 1)
    return " ".join([*kind_words(value), f"{{{fields}}}"])


# Thousands of messages share a few layouts, so the results are cached.
@lru_cache(maxsize=4096)
def _describe(names: tuple[str, ...], kinds: tuple[str, ...]) -> tuple[str, str]:
    """Return a description of fields for a key, and a shorter one for a title."""
    fields = set()
    shown = set()
    for name, kind in zip(mask_names(names), kinds, strict=True):
        fields.add(f"{name}:{kind}")
        shown.add(f"{name}:{_shown(kind)}")
    return _cut(fields, _KEYS), _cut(shown, _TITLE_KEYS)


def _shown(kind: str) -> str:
    if kind.startswith(_STRING_OF):
        return "string"
    return "object" if kind.endswith("}") else kind


@lru_cache(maxsize=4096)
def _names(names: tuple[str, ...], kinds: tuple[type, ...]) -> str:
    pairs = zip(mask_names(names), kinds, strict=True)
    fields = {f"{name}{_NAMED_INSIDE.get(kind, '')}" for name, kind in pairs}
    return f"{{{_cut(fields, _KEYS)}}}"


_NAMED_INSIDE: dict[type, str] = {kind: f":{JSON_TYPES[kind]}" for kind in (bool, int, float, list)}


def _cut(fields: Collection[str], most: int) -> str:
    listed = sorted(fields)[:most]
    if len(fields) > most:
        listed.append("…")
    return ", ".join(listed)


def _text_shape(payload: Payload) -> Signature:
    text = payload.text
    if payload.size and not text:
        return _alike(f"bytes, {_size_class(payload.size)}")
    head = text[:_HEAD_CHARACTERS].strip()
    if not head and not text.strip():
        return _alike("empty body")
    if _looks_encoded(head):
        return _alike(f"encoded bytes, {_size_class(len(text))}")

    root = _XML.match(head)
    if root is not None:
        return _alike(f"XML {mask_name(root[1])}")
    if head[0] in "{[":
        keys = list(dict.fromkeys(map(mask_name, _JSON_KEY.findall(head))))
        if keys:
            return _alike(f"broken JSON {{{', '.join(keys[:_BROKEN_KEYS])}, …}}")
    return Signature(
        key=f"text {mask_words(head[:_TEXT_CHARACTERS])}",
        text=f"text {mask_words(_whole_words(head))}",
        textless="text <hidden>",
    )


def _whole_words(head: str) -> str:
    """Return the first 80 characters without a cut last word: no mask matches half a secret."""
    shown = head[:_TEXT_CHARACTERS]
    if not _WORD.match(head, _TEXT_CHARACTERS):
        return shown
    last = _LAST_WORD.search(shown)
    if last is None:
        return shown
    return f"{shown[: -len(last[0])]}…"


def _looks_encoded(head: str) -> bool:
    unprintable = sum(not (c.isprintable() or c.isspace()) for c in head)
    if unprintable * 10 > len(head):
        return True
    longest = max(map(len, head.split()), default=0)
    return longest >= _ENCODED_WORD and _ENCODED.fullmatch(head) is not None


def _size_class(size: int) -> str:
    for limit, name in _SIZE_CLASSES:
        if size <= limit:
            return f"up to {name}"
    return "above 256 KiB"
