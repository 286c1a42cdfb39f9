"""Unwrap a body: service envelopes, base64, gzip, JSON in a JSON string. Pure."""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn, Self

from dlq.explain.signature.names import mask_ids

_WRAPPINGS = 4
_WRAPPING_CHARACTERS = 100
_UNPACKED_BYTES = 1024 * 1024
"""Limit of decompression: one compressed kilobyte can expand to a gigabyte."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_BASE64_CHARACTERS = 16
_SURE_BASE64_CHARACTERS = 48
_LINE_CHARACTERS = 60
"""Base64 encoders break lines at 64 or 76 characters. Words are shorter."""

_GZIP = b"\x1f\x8b"


class Payload(NamedTuple):
    """The innermost payload.

    Attributes:
        wrappings: names of the wrappings that were removed (``SNS orders``, ``base64 of``), the
            outermost first; at most four.
        value: the JSON value, ``NOT_JSON`` for anything else.
        text: the content as text; empty where it is bytes.
        size: characters of the text or bytes of the content, after decompression.
        pointer: where in S3 the body itself is, for one that is kept there.
    """

    wrappings: tuple[str, ...]
    value: Any
    text: str
    size: int
    pointer: "Pointer | None" = None


class Pointer(NamedTuple):
    """An object in S3. *prefix* is the key up to its last slash; *bucket* is "" if unknown."""

    bucket: str
    prefix: str
    key: str

    @classmethod
    def of(cls, bucket: str, key: str) -> Self:
        """Take the prefix from the key."""
        folder, slash, _ = key.rpartition("/")
        return cls(bucket, f"{folder}{slash}", key)


Content = str | bytes | Mapping[str, Any]
Unwrapped = tuple[str, Content]
"""The name of a wrapping, and its content: a text to unwrap again, bytes, or a value."""


def unwrap(body: str) -> Payload:
    """Remove the wrappings of *body*. Never raises; takes linear time."""
    wrappings: tuple[str, ...] = ()
    pointer: Pointer | None = None
    content: Content = body
    while True:
        match content:
            case str():
                payload = Payload(wrappings, parse_json(content), content, len(content), pointer)
            case bytes():
                payload = Payload(wrappings, NOT_JSON, "", len(content), pointer)
            case _:
                payload = Payload(wrappings, content, "", 0, pointer)
        if len(wrappings) == _WRAPPINGS:
            return payload

        in_value = pointer_of(payload.value) or _other_pointer(payload.value)
        pointer = pointer or in_value
        unwrapped: Unwrapped | None = None
        if in_value and in_value.bucket:
            unwrapped = "S3 pointer:", {"bucket": in_value.bucket, "prefix": in_value.prefix}
        elif type(payload.value) is dict:
            unwrapped = _in_envelope(payload.value)
        elif type(payload.value) is str:
            unwrapped = "JSON string of", payload.value
        elif payload.value is NOT_JSON and payload.text:
            unwrapped = in_base64(payload.text)
        if unwrapped is None:
            return payload._replace(pointer=pointer)

        wrapping, content = unwrapped
        wrappings += (wrapping,)


def pointer_of(value: object) -> Pointer | None:
    """Return a pointer of the official SQS extended clients; None of all else."""
    match value:
        case [str() as name, {"s3BucketName": str() as bucket, "s3Key": str() as key}] if (
            name.endswith("S3Pointer")
        ):
            return Pointer.of(bucket, key)
    return None


def pointer_in_attributes(attributes: Iterable[tuple[str, str | None]]) -> Pointer | None:
    """Return the pointer that an attribute holds; *attributes* are names and string values."""
    for name, value in attributes:
        if value and name in _POINTER_ATTRIBUTES:
            with_bucket = _BUCKET_AND_KEY.fullmatch(value)
            if with_bucket is None:
                return Pointer.of("", value)
            return Pointer.of(*with_bucket.groups())
    return None


_POINTER_ATTRIBUTES = ("S3MessageBodyKey", "S3BodyKey")
_BUCKET_AND_KEY = re.compile(r"\(([^()]+)\)(.+)")
"""The form of the JavaScript library sqs-extended-client."""


def _other_pointer(value: object) -> Pointer | None:
    """Return a pointer as other libraries write it, NServiceBus without a bucket."""
    match value:
        case {"s3BucketName": str() as bucket, "s3Key": str() as key}:
            return Pointer.of(bucket, key)
        case {"S3Payload": {"Bucket": str() as bucket, "Key": str() as key}}:
            return Pointer.of(bucket, key)
        case {"S3BodyKey": str() as key} if key:
            return Pointer.of("", key)
    return None


def in_base64(text: str) -> tuple[str, str | bytes] | None:
    """Decode base64, and gzip inside it: return the name of the encoding, and the content.

    None where it is not certain that *text* is base64: any word could be.
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
    encoding = "base64 of"
    if content.startswith(_GZIP):
        try:
            content = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(content, _UNPACKED_BYTES)
        except zlib.error:
            return None
        encoding = "base64 of gzip of"

    with suppress(UnicodeDecodeError):
        decoded = content.decode()
        # What decodes to something legible was encoded on purpose.
        if all(c.isprintable() or c.isspace() for c in decoded[:1024]):
            return encoding, decoded
    return (encoding, content) if len(packed) >= _SURE_BASE64_CHARACTERS else None


_URL_SAFE = str.maketrans("-_", "+/")


def _in_envelope(value: Mapping[str, Any]) -> Unwrapped | None:  # noqa: PLR0911 - a table
    body = value.get("body")
    sqs_body = value.get("body", value.get("Body"))
    match value:
        case {"TopicArn": arn, "Message": str() as text} if (
            value.get("Type", "Notification") == "Notification"
        ):
            topic = str(arn).rpartition(":")[2]
            return _wrapping("SNS", topic), text

        case {"detail-type": kind, "detail": dict() as detail}:
            return _wrapping("EventBridge", value.get("source"), kind), detail

        case {"specversion": _, "data": (dict() | str()) as data}:
            return _wrapping("CloudEvent", value.get("type")), data

        case {"Records": [({"eventSource": source} | {"EventSource": source}) as record, *_]} if (
            isinstance(source, str)
        ):
            return _wrapping(source, record.get("eventName")), _in_record(record)

        case {"receiptHandle": _} | {"ReceiptHandle": _} if isinstance(sqs_body, str):
            return "SQS message of", sqs_body

        case {"requestPayload": dict() as payload, "requestContext": {"condition": condition}} if (
            condition is not None
        ):
            return _wrapping("Lambda destination", condition), payload

        case {"routeKey": _} | {"httpMethod": _}:
            content = body if isinstance(body, str) else ""
            route = value.get("routeKey")
            if route:
                return _wrapping("API Gateway", route), content
            method = value.get("httpMethod")
            return _wrapping("API Gateway", method, value.get("resource", "path")), content
    return None


def _in_record(record: Mapping[str, Any]) -> Content:
    match record:
        case {"body": str() as text} | {"Sns": {"Message": str() as text}}:
            return text
        case {"kinesis": {"data": str() as text}}:
            return text
        case {"dynamodb": {"NewImage": dict() as image}}:
            return image
    return record


def _wrapping(*parts: object) -> str:
    """Return the name of an envelope. Ids are masked: the name is a part of the group's id."""
    name = " ".join(part for part in parts if isinstance(part, str))
    return f"{mask_ids(name[:_WRAPPING_CHARACTERS])}:"


NOT_JSON = object()
"""The value of a text that is not JSON. None is JSON's null."""


def parse_json(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON value of *text*, or ``NOT_JSON``. As strict as other languages' parsers."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return NOT_JSON


def parse_container(text: str) -> Any:  # noqa: ANN401 - a dict, a list or NOT_JSON
    """Return the object or array that *text* holds, else ``NOT_JSON``."""
    # Rules out most texts without parsing them.
    if text.strip()[:1] not in ("{", "["):
        return NOT_JSON
    value = parse_json(text)
    return value if isinstance(value, dict | list) else NOT_JSON


JSON_TYPES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
"""The name of a JSON value's type."""


def _refuse(name: str) -> NoReturn:
    # Python accepts NaN and Infinity. Other parsers do not.
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse)
