"""What makes two failures the same. Pure; version ``v1``.

A message with a recorded error is known by the error: its type, and its message with everything
masked that changes from one occurrence to the next (times, UUIDs, addresses, quoted texts, long
ids, numbers). A message without one is known by why it was parked and by the shape of its payload:

- a JSON object by its keys and the types of their values, and by the value of a key that names a
  kind of message (``type``, ``event``, ``eventType``, ``event_type``, ``detail-type``, ``action``);
- another JSON value by its type, an array by the types of its elements;
- text by its first 80 characters, numbers masked;
- what looks like encoded bytes by its size class; an empty body as empty.

The same message has the same signature in every run. A change to any rule here is a new version,
because plans name groups by id.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SIGNATURE_VERSION = "v1"
PARKED_BY_SQS = "parked_by_sqs"
"""The reason of a message without one: SQS's own redrive policy parked it."""

TYPE_KEYS = ("type", "event", "eventType", "event_type", "detail-type", "action")

_TYPE_VALUE_CHARACTERS = 64
_KEYS = 50
_TEXT_CHARACTERS = 80
_ERROR_CHARACTERS = 500
_TITLE_CHARACTERS = 160
_SIZE_CLASSES = ((1024, "1 KiB"), (16 * 1024, "16 KiB"), (256 * 1024, "256 KiB"))

_IDS = (
    (
        re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"),
        "<time>",
    ),
    (re.compile(r"(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"), "<email>"),
    (re.compile(r"(?i)\b0x[0-9a-f]+\b"), "<hex>"),
    (re.compile(r"(?i)\b(?=[a-f]*\d)[0-9a-f]{12,}\b"), "<hex>"),
    (re.compile(r"\b(?=[A-Za-z_]*\d[A-Za-z_]*\d)(?=\d*[A-Za-z_])\w{8,}\b"), "<id>"),
)
_TEXTS = (
    (re.compile(r'"[^"]*"'), '"<text>"'),
    (re.compile(r"(?<!\w)'[^'\n]*'(?!\w)"), "'<text>'"),
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_ENCODED = re.compile(r"[A-Za-z0-9+/_=\s-]{64,}")
_ENCODED_WORD = 48


@dataclass(frozen=True, slots=True)
class Signature:
    """A failure's identity and how to call it.

    Attributes:
        key: everything that distinguishes it, on one line.
        title: the same for a human, at most 160 printable characters on one line.
    """

    key: str
    title: str

    @property
    def group_id(self) -> str:
        """``g-`` and ten hex digits, the same in every run for the same key."""
        digest = hashlib.sha256(f"{SIGNATURE_VERSION}|{self.key}".encode("utf-8", "replace"))
        return f"g-{digest.hexdigest()[:10]}"


def signature_of(
    body: str, parked_reason: str | None, error_type: str | None, error_message: str | None
) -> Signature:
    """Tell what kind of failure this is. Never raises, whatever the texts hold."""
    if error_type or error_message:
        masked = mask_error(error_message or "")
        error = ": ".join(part for part in (error_type or "Error", masked) if part)
        return Signature(f"error|{error}", _title(error))
    reason = parked_reason or PARKED_BY_SQS
    shape = shape_of(body)
    return Signature(f"shape|{reason}|{shape}", _title(f"{reason}: {shape}"))


def mask_error(text: str) -> str:
    """Return an error's message with everything masked that varies between its occurrences."""
    for pattern, replacement in (*_IDS[:2], *_TEXTS, *_IDS[2:]):
        text = pattern.sub(replacement, text[: _ERROR_CHARACTERS * 2])
    return _one_line(_NUMBER.sub("<n>", text))[:_ERROR_CHARACTERS]


def shape_of(body: str) -> str:
    """Describe a payload by its shape, as the module says."""
    if not body.strip():
        return "empty body"
    try:
        return _json_shape(json.loads(body))
    except (ValueError, RecursionError):
        return _text_shape(body)


def _json_shape(value: object) -> str:
    if isinstance(value, dict):
        return _object_shape(value)
    if isinstance(value, list):
        kinds = sorted({_kind(element) for element in value})
        return f"JSON array of {' or '.join(kinds) or 'nothing'}"
    return f"JSON {_kind(value)}"


def _object_shape(value: Mapping[str, Any]) -> str:
    kinds = [f"{key}={_mask_ids(value[key])}" for key in TYPE_KEYS if _is_kind(value.get(key))]
    fields = sorted({f"{_mask_key(key)}:{_kind(field)}" for key, field in value.items()})
    shown = ", ".join(fields[:_KEYS]) + (", …" if len(fields) > _KEYS else "")
    return " ".join(["JSON", *kinds, f"{{{shown}}}"])


def _is_kind(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _TYPE_VALUE_CHARACTERS


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _text_shape(body: str) -> str:
    if _looks_encoded(body):
        return f"encoded bytes, {_size_class(len(body))}"
    return f"text {_mask_numbers(_one_line(body[:_TEXT_CHARACTERS]))}"


def _looks_encoded(body: str) -> bool:
    head = body[:1024]
    if sum(not (c.isprintable() or c.isspace()) for c in head) * 10 > len(head):
        return True
    longest = max((len(word) for word in head.split()), default=0)
    return longest >= _ENCODED_WORD and _ENCODED.fullmatch(head) is not None


def _size_class(size: int) -> str:
    return next(
        (f"up to {name}" for limit, name in _SIZE_CLASSES if size <= limit), "above 256 KiB"
    )


def _mask_ids(text: str) -> str:
    for pattern, replacement in _IDS:
        text = pattern.sub(replacement, text)
    return _one_line(text)


def _mask_key(key: str) -> str:
    """A key that holds an id (a map by id, say) must not make a group of its own."""
    return _mask_numbers(_mask_ids(key[:_TYPE_VALUE_CHARACTERS]))


def _mask_numbers(text: str) -> str:
    return _NUMBER.sub("<n>", text)


def _one_line(text: str) -> str:
    """Printable characters only: a title must not move the cursor or the reader's eye."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _title(text: str) -> str:
    line = _one_line(text)
    return line if len(line) <= _TITLE_CHARACTERS else f"{line[: _TITLE_CHARACTERS - 1]}…"
