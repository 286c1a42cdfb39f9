"""What a body holds once its wrappings are off: service envelopes, base64, JSON in JSON. Pure.

Each wrapping leaves a word that tells where the payload came from (``SNS orders``, ``base64 of``),
at most four of them; then what is inside is looked at as it is.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from spark_reprocess.analysis.json_text import NOT_JSON, parse
from spark_reprocess.analysis.varying import mask_ids

_WRAPPINGS = 4
_WORD_CHARACTERS = 100
_UNPACKED_BYTES = 1024 * 1024
"""Of compressed payloads no more is unpacked: a kilobyte can hold a gigabyte."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_BASE64_CHARACTERS = 16
_SURE_BASE64_CHARACTERS = 48
_LINE_CHARACTERS = 60
"""Encoders that break lines break them at 64 or 76 characters; words are shorter."""

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Payload:
    """The innermost payload.

    Attributes:
        wrappings: what was taken off, outermost first, as words for a title.
        value: the JSON value, ``NOT_JSON`` for anything else.
        text: what is inside as a text; empty where it is bytes.
        size: of what is inside, in characters or bytes; of compressed bytes what was unpacked.
    """

    wrappings: tuple[str, ...]
    value: Any
    text: str
    size: int


@dataclass(frozen=True, slots=True)
class _Inside:
    """What a wrapping holds: a text to look at again, or a value."""

    word: str
    content: str | bytes | Mapping[str, Any]


def unwrap(body: str) -> Payload:
    """Take the wrappings off *body*. Never raises, whatever it holds; the cost is linear."""
    wrappings: list[str] = []
    content: str | bytes | Mapping[str, Any] = body
    while True:
        payload = _payload(wrappings, content)
        inside = _inside(payload) if len(wrappings) < _WRAPPINGS else None
        if inside is None:
            return payload
        wrappings.append(inside.word)
        content = inside.content


def _payload(wrappings: list[str], content: str | bytes | Mapping[str, Any]) -> Payload:
    match content:
        case str():
            return Payload(tuple(wrappings), parse(content), content, len(content))
        case bytes():
            return Payload(tuple(wrappings), NOT_JSON, "", len(content))
        case _:
            return Payload(tuple(wrappings), content, "", 0)


def _inside(payload: Payload) -> _Inside | None:
    value = payload.value
    if type(value) is dict:
        return _in_envelope(value)
    if type(value) is str:
        return _Inside("JSON string of", value)
    packed = in_base64(payload.text) if value is NOT_JSON and payload.text else None
    return _Inside(*packed) if packed else None


def in_base64(text: str) -> tuple[str, str | bytes] | None:
    """Return what *text* holds if it is base64, perhaps compressed, after a word for it.

    None where that is not sure: any word may be base64 by chance.
    """
    lines = text.split()
    if len(lines) > 1 and len(lines[0]) < _LINE_CHARACTERS:
        return None
    packed = "".join(lines)
    if len(packed) < _BASE64_CHARACTERS or not _BASE64.fullmatch(packed):
        return None
    try:
        content = base64.b64decode(packed.translate(_URL_SAFE) + "==")
    except binascii.Error:
        return None
    word = "base64 of"
    if content.startswith(_GZIP):
        try:
            content = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(content, _UNPACKED_BYTES)
        except zlib.error:
            return None
        word = "base64 of gzip of"
    with suppress(UnicodeDecodeError):
        decoded = content.decode()
        # What decodes to something legible was encoded on purpose.
        if _is_legible(decoded):
            return word, decoded
    return (word, content) if len(packed) >= _SURE_BASE64_CHARACTERS else None


_URL_SAFE = str.maketrans("-_", "+/")


def _is_legible(text: str) -> bool:
    head = text[:1024]
    return all(c.isprintable() or c.isspace() for c in head)


def _in_envelope(value: Mapping[str, Any]) -> _Inside | None:
    for key, look in _ENVELOPES:
        if key in value:
            found = look(value)
            if found is not None:
                return found
    return None


def _sns(value: Mapping[str, Any]) -> _Inside | None:
    message = value.get("Message")
    if not isinstance(message, str) or value.get("Type", "Notification") != "Notification":
        return None
    return _Inside(_word("SNS", str(value["TopicArn"]).rpartition(":")[2]), message)


def _event_bridge(value: Mapping[str, Any]) -> _Inside | None:
    detail = value.get("detail")
    if not isinstance(detail, dict):
        return None
    return _Inside(_word("EventBridge", value.get("source"), value["detail-type"]), detail)


def _cloud_event(value: Mapping[str, Any]) -> _Inside | None:
    data = value.get("data")
    if not isinstance(data, dict | str):
        return None
    return _Inside(_word("CloudEvent", value.get("type")), data)


def _api_gateway(value: Mapping[str, Any]) -> _Inside | None:
    route = value.get("routeKey")
    words = (route,) if route else (value.get("httpMethod"), value.get("resource", "path"))
    return _Inside(_word("API Gateway", *words), _text_or_nothing(value.get("body")))


def _records(value: Mapping[str, Any]) -> _Inside | None:
    records = value["Records"]
    if not isinstance(records, list) or not records or not isinstance(records[0], dict):
        return None
    record = records[0]
    source = record.get("eventSource", record.get("EventSource"))
    if not isinstance(source, str):
        return None
    word = _word(source, record.get("eventName"))
    match record:
        case {"body": str() as text} | {"Sns": {"Message": str() as text}}:
            return _Inside(word, text)
        case {"kinesis": {"data": str() as text}}:
            return _Inside(word, text)
        case {"dynamodb": {"NewImage": dict() as image}}:
            return _Inside(word, image)
    return _Inside(word, record)


def _sqs_message(value: Mapping[str, Any]) -> _Inside | None:
    body = value.get("body", value.get("Body"))
    return _Inside("SQS message of", body) if isinstance(body, str) else None


def _lambda_destination(value: Mapping[str, Any]) -> _Inside | None:
    context = value.get("requestContext")
    condition = context.get("condition") if isinstance(context, dict) else None
    payload = value["requestPayload"]
    if condition is None or not isinstance(payload, dict):
        return None
    return _Inside(_word("Lambda destination", condition), payload)


_ENVELOPES: tuple[tuple[str, Callable[[Mapping[str, Any]], _Inside | None]], ...] = (
    ("TopicArn", _sns),
    ("detail-type", _event_bridge),
    ("specversion", _cloud_event),
    ("Records", _records),
    ("receiptHandle", _sqs_message),
    ("ReceiptHandle", _sqs_message),
    ("requestPayload", _lambda_destination),
    ("routeKey", _api_gateway),
    ("httpMethod", _api_gateway),
)


def _text_or_nothing(value: object) -> str:
    return value if isinstance(value, str) else ""


def _word(*parts: object) -> str:
    """Ids in an envelope's words are masked: what is said of each occurrence must not vary."""
    words = " ".join(part for part in parts if isinstance(part, str))[:_WORD_CHARACTERS]
    return f"{mask_ids(words)}:"
