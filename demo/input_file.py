"""Reads the user's messages: one JSON object per line, checked by SQS's rules. Pure.

An invalid line does not stop the others. It is reported with its number and the rule.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from demo.identity import DEMO_ID, Attribute, Content

MAX_MESSAGE_BYTES = 1_048_576
MAX_ATTRIBUTES = 10
_MAX_NAME_CHARACTERS = 256

_NAME = re.compile(r"(?!(?i:aws\.|amazon\.))[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_TYPE = re.compile(r"(String|Number|Binary)(\..+)?")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_REFUSED_CHARACTER = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class LineFault:
    """An invalid line: its number, counted from 1, and the rule that it breaks."""

    line: int
    rule: str


@dataclass(frozen=True, slots=True)
class ParsedInput:
    """The content of a file: messages by line number, and invalid lines."""

    messages: tuple[tuple[int, Content], ...]
    faults: tuple[LineFault, ...]


def parse_lines(lines: Iterable[bytes]) -> ParsedInput:
    """Read every line. Empty lines are ignored."""
    messages: list[tuple[int, Content]] = []
    faults: list[LineFault] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            messages.append((number, parse_line(line)))
        except ValueError as error:
            faults.append(LineFault(number, str(error)))
    return ParsedInput(tuple(messages), tuple(faults))


def parse_line(line: bytes) -> Content:
    """Read one message.

    Raises:
        ValueError: the text is the rule that the line breaks.
    """
    raw = _load_object(line)
    content = Content(_body(raw), dict(_attributes(raw)))
    if content.size_bytes > MAX_MESSAGE_BYTES:
        raise ValueError(f"body and attributes must not exceed {MAX_MESSAGE_BYTES:,} bytes")
    return content


def _load_object(line: bytes) -> Mapping[str, Any]:
    try:
        raw = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("must be UTF-8 text") from None
    except (ValueError, RecursionError):
        raise ValueError("must be JSON, one object a line") from None
    if not isinstance(raw, dict):
        raise ValueError("must be a JSON object with a body")  # noqa: TRY004 - a rule, not a bug
    return raw


def _body(raw: Mapping[str, Any]) -> str:
    body = raw.get("body")
    if not isinstance(body, str) or not body:
        raise ValueError("body must be text of at least one character")
    return _allowed("body", body)


def _attributes(raw: Mapping[str, Any]) -> Iterator[tuple[str, Attribute]]:
    attributes = raw.get("attributes")
    if attributes is None:
        return
    if not isinstance(attributes, dict):
        raise ValueError("attributes must be an object of name and value")  # noqa: TRY004 - a rule
    if len(attributes) > MAX_ATTRIBUTES:
        raise ValueError(f"a message has at most {MAX_ATTRIBUTES} attributes")
    for name, value in attributes.items():
        _check_name(name)
        yield name, _attribute(name, value)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_CHARACTERS:
        raise ValueError(
            f"attribute name {name[:40]!r}: must be 1 to {_MAX_NAME_CHARACTERS} of A-Z a-z 0-9 _ - "
            "and single dots inside, and not begin with AWS. or Amazon."
        )
    if name == DEMO_ID:
        raise ValueError(f"attribute {name}: the demo needs this name for itself")


def _attribute(name: str, value: object) -> Attribute:
    if isinstance(value, str):
        return Attribute("String", _text(name, value))
    data_type = value.get("DataType") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(data_type, str):
        raise ValueError(  # noqa: TRY004 - a rule
            f"attribute {name}: must be text, or an object with DataType and a value"
        )
    if not _TYPE.fullmatch(data_type) or len(data_type) > _MAX_NAME_CHARACTERS:
        raise ValueError(
            f"attribute {name}: DataType must be String, Number or Binary, perhaps with a .label"
        )
    if data_type.startswith("Binary"):
        return Attribute(data_type, _binary(name, value.get("BinaryValue")))
    text = _text(name, value.get("StringValue"))
    if data_type.startswith("Number") and not _NUMBER.fullmatch(text):
        raise ValueError(f"attribute {name}: StringValue of a Number must be a number")
    return Attribute(data_type, text)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"attribute {name}: the value must be text of at least one character")
    return _allowed(f"attribute {name}", value)


def _binary(name: str, value: object) -> bytes:
    try:
        decoded = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        decoded = b""
    if not decoded:
        raise ValueError(f"attribute {name}: BinaryValue must be base64 of at least one byte")
    return decoded


def _allowed(where: str, text: str) -> str:
    if found := _REFUSED_CHARACTER.search(text):
        raise ValueError(f"{where} holds U+{ord(found[0]):04X}, a character that SQS refuses")
    return text
