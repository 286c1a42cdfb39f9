"""The signature of a failure: which messages belong to one group. Pure.

docs/analysis.md, "Groups", has the rules. Of objects inside a JSON object, texts, objects and null
count as one type, because fields that may be null are common. Objects that carry the payload itself
(``data``, ``payload``, …) do not count as a level. Objects with arbitrary keys (``headers``,
``metadata``, …) are not read.

The same message has the same signature in every run. A change to any of these rules needs a new
``SIGNATURE_VERSION``, because plans refer to groups by id.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from dlq.explain.grouping import CODE, ERROR, group_id_of
from dlq.explain.signature.kinds import kind_words
from dlq.explain.signature.names import mask_ids, mask_name, mask_names, mask_words
from dlq.explain.signature.payload import (
    JSON_TYPES,
    NOT_JSON,
    Payload,
    parse_container,
    unwrap,
)
from dlq.figures import cut
from dlq_replay.rules.failures import one_line
from dlq_replay.text.normalization import mask_error, whole_words
from dlq_replay.text.places import names_little, place_of
from dlq_replay.wire.context import KEPT_ERROR_BYTES, start_in_json

PARKED_BY_SQS = "parked_by_sqs"
"""The reason of a message that has none: SQS's own redrive policy parked it."""

TITLE_CHARACTERS = 160
_UNKNOWN_ERROR = "Error"
_CUT_REACH_BYTES = 40

_CARRIERS = frozenset(
    ("data", "payload", "detail", "message", "body", "event", "record", "content")
)
_OPEN = frozenset(
    (
        *("headers", "metadata", "meta", "tags", "labels", "annotations", "attributes"),
        *("properties", "extra", "extras", "custom", "context", "params", "parameters", "query"),
        *("options", "config", "settings", "env", "variables"),
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
        key: all that identifies it, on one line.
        text: the part of it that people need to see; not masked.
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
        return Signature(f"{CODE}{title}", title, title)
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
    """Why a message failed: what is recorded, or what logs have of it; None for what is unknown.

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
"""What decides about a message's group."""

Reasons = Mapping[str, Mapping[str, Any]]
"""By message id, rows of ``message_index.REASONS``: errors that logs have."""


def reason_of(
    reasons: Reasons,
    message_id: str,
    error_type: str | None,
    error_message: str | None,
    error_place: str | None = None,
) -> Reason:
    """Return what is recorded of a message; where no error is, what logs have."""
    if has_error(error_type, error_message) or not (found := reasons.get(message_id)):
        return Reason(error_type, error_message, error_place)
    logged_type, message, logged = (
        found[name] for name in ("log_error_type", "log_error_message", "logged")
    )
    return Reason(logged_type, message, _logged_place(logged_type, message, logged), logged)


def frames_of(logged: str) -> str:
    """Return the frames in what says where logs have an error: behind that, and a link."""
    return "\n".join(line for line in logged.split("\n")[1:] if not line.startswith("https://"))


def _logged_place(error_type: str, message: str, logged: str) -> str:
    if not names_little(error_type, mask_error(one_line(message))):
        return ""
    return place_of(frames_of(logged))


def keys_of(*columns: "pa.Array[Any] | pa.ChunkedArray[Any]", reasons: Reasons) -> "pa.Array[Any]":
    """Return the ``Signature.group_key`` of each message; *columns*, Arrow's, are ``SIGNED``."""
    keys = []
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    for message_id, body, parked_reason, error_type, error_message, code, kind, place in rows:
        error = error_type, error_message, place
        if message_id in reasons:
            error = reason_of(reasons, message_id, *error)[:3]
        found_type, message, found_place = error
        signature = signature_of(
            body or "", parked_reason, found_type, message, code, kind, found_place
        )
        keys.append(signature.group_key)
    return pa.array(keys, pa.string())


# A recorder has masked most texts, so that they are often equal.
@lru_cache(maxsize=16_384)
def _error_signature(error_type: str | None, error_message: str | None, place: str) -> Signature:
    masked = mask_error(one_line(error_message or ""))
    # So much of it that no cut by a recorder can reach it, nor what masking looks at.
    start = start_in_json(masked, KEPT_ERROR_BYTES - _CUT_REACH_BYTES)
    masked = masked if start == masked else whole_words(masked, len(start))
    text = f"{masked}{masked and ' '}at {place}" if place else masked
    error = f"{error_type or _UNKNOWN_ERROR}{text and ': '}{text}"
    title = error if one_line(error) else _UNKNOWN_ERROR
    # Whether an id has a letter is chance.
    return Signature(f"{ERROR}{error.replace('<id>', '<n>')}", title, title)


def short_title(text: str) -> str:
    """Return *text* on one line, at most 160 printable characters."""
    return cut(one_line(text), TITLE_CHARACTERS)


def has_error(error_type: str | None, error_message: str | None) -> bool:
    """Whether an error was recorded. If so, the body is not part of the signature."""
    return bool(error_type or error_message)


_group_id = lru_cache(maxsize=8192)(group_id_of)


def shape_of(body: str) -> Signature:
    """Return the signature of a body's shape. Never raises."""
    payload = unwrap(body)
    shape = _shape(payload)
    words = "".join(f"{word} " for word in payload.wrappings)
    return Signature(f"{words}{shape.key}", f"{words}{shape.text}", f"{words}{shape.textless}")


def _shape(payload: Payload) -> Signature:
    value = payload.value
    if type(value) is dict:
        kinds_inside = tuple([_kind_inside(key, one, _LEVELS) for key, one in value.items()])
        fields, shown = _describe(tuple(value), kinds_inside)
        words = "".join([f" {word}" for word in kind_words(value)])
        title = f"JSON{words} {{{shown}}}"
        return Signature(f"JSON{words} {{{fields}}}", title, title)
    if value is NOT_JSON:
        return _text_shape(payload)
    if isinstance(value, list):
        kinds = sorted({JSON_TYPES[type(element)] for element in value})
        return _alike(f"JSON array of {' or '.join(kinds) or 'nothing'}")
    return _alike(f"JSON {JSON_TYPES[type(value)]}")


def _alike(text: str) -> Signature:
    return Signature(text, text, text)


def _kind_inside(key: str, field: object, levels: int) -> str:
    """Return the type of a field; of an object the description of its fields."""
    if type(field) is str and key in _CARRIERS:
        inside = parse_container(field)
        return f"{_STRING_OF}{_carried(inside, levels)}" if type(inside) is dict else "string"
    if type(field) is not dict or key in _OPEN:
        return JSON_TYPES[type(field)]
    if key in _CARRIERS:
        return _carried(field, levels)
    return _names(tuple(field), tuple(map(type, field.values())))


def _carried(value: Mapping[str, Any], levels: int) -> str:
    if levels == 0:
        return "object"
    kinds = tuple([_kind_inside(key, field, levels - 1) for key, field in value.items()])
    fields, _ = _describe(tuple(value), kinds)
    words = "".join([f"{word} " for word in kind_words(value)])
    return f"{words}{{{fields}}}"


# Thousands of messages share a few layouts, so the results are cached.
@lru_cache(maxsize=4096)
def _describe(names: tuple[str, ...], kinds: tuple[str, ...]) -> tuple[str, str]:
    pairs = list(zip(mask_names(names), kinds, strict=True))
    fields = sorted({f"{name}:{kind}" for name, kind in pairs})
    shown = sorted({f"{name}:{_shown(kind)}" for name, kind in pairs})
    return _cut(fields, _KEYS), _cut(shown, _TITLE_KEYS)


def _shown(kind: str) -> str:
    if kind.startswith(_STRING_OF):
        return "string"
    return "object" if kind.endswith("}") else kind


@lru_cache(maxsize=4096)
def _names(names: tuple[str, ...], kinds: tuple[type, ...]) -> str:
    pairs = zip(mask_names(names), kinds, strict=True)
    fields = sorted({f"{name}{_NAMED_INSIDE.get(kind, '')}" for name, kind in pairs})
    return f"{{{_cut(fields, _KEYS)}}}"


_NAMED_INSIDE: dict[type, str] = {kind: f":{JSON_TYPES[kind]}" for kind in (bool, int, float, list)}


def _cut(fields: list[str], most: int) -> str:
    return ", ".join(fields[:most]) + (", …" if len(fields) > most else "")


def _text_shape(payload: Payload) -> Signature:
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
    texts = head[:_TEXT_CHARACTERS], _whole_words(head)
    key, shown = (f"text {mask_words(text)}" for text in texts)
    return Signature(key, shown, "text <hidden>")


def _whole_words(head: str) -> str:
    """Return the first 80 characters without a cut last word: half a secret matches no mask."""
    shown = head[:_TEXT_CHARACTERS]
    if not _WORD.match(head, _TEXT_CHARACTERS):
        return shown
    last = _LAST_WORD.search(shown)
    return f"{shown[: -len(last[0])]}…" if last else shown


def _looks_encoded(head: str) -> bool:
    if sum(not (c.isprintable() or c.isspace()) for c in head) * 10 > len(head):
        return True
    longest = max((len(word) for word in head.split()), default=0)
    return longest >= _ENCODED_WORD and _ENCODED.fullmatch(head) is not None


def _size_class(size: int) -> str:
    return next(
        (f"up to {name}" for limit, name in _SIZE_CLASSES if size <= limit), "above 256 KiB"
    )
