"""The content of messages, identified without the product; the user's come from a file. Pure.

This code is independent of the product's own conversions on purpose: it checks them.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from demo import InputError

DEMO_ID = "demo-id"
"""The attribute that the demo adds, so that equal messages differ."""

_MAX_OWN_ATTRIBUTES = 7
"""With so many, ``demo-id``, counter and context still fit."""

COUNTER = "sqs-dlq-replay-nb"
CONTEXT = "sqs-dlq-context"

Attributes = Mapping[str, tuple[str, str | bytes]]
"""By name: the type, label included, and the text or the bytes."""


@dataclass(frozen=True, slots=True)
class Content:
    """The body and the attributes of a message."""

    body: str
    attributes: Attributes

    @property
    def identity(self) -> str:
        """The demo's own attribute; empty if it is gone."""
        return self._text(DEMO_ID)

    @property
    def own(self) -> tuple[str, Attributes]:
        """Body and attributes without the two that the product adds: these must not change."""
        own = {n: a for n, a in self.attributes.items() if n not in (COUNTER, CONTEXT)}
        return self.body, own

    @property
    def replay_count(self) -> int:
        """The product's counter; 0 if it is absent."""
        text = self._text(COUNTER)
        return int(text) if text.isascii() and text.isdigit() else 0

    @property
    def is_unproven(self) -> bool:
        """Whether a ramp sent this copy in a step that was not its last one."""
        return '"canary":' in self._text(CONTEXT)

    @property
    def has_plan(self) -> bool:
        """Whether the context, which is compact JSON, names a redrive plan."""
        return '"plan":' in self._text(CONTEXT)

    def _text(self, name: str) -> str:
        return str(self.attributes.get(name, ("", ""))[1])


def from_record(record: Mapping[str, Any]) -> Content:
    """Read a Lambda record, where binary values are base64."""
    values = {
        name: (a["dataType"], a.get("stringValue") or base64.b64decode(a["binaryValue"]))
        for name, a in record["messageAttributes"].items()
    }
    return Content(record["body"], values)


def from_archived(row: Mapping[str, Any]) -> Content:
    """Read a row of the archive from pyarrow, where a map is a list of pairs."""
    values = {
        name: (
            a["data_type"],
            a["binary_value"] if a["string_value"] is None else a["string_value"],
        )
        for name, a in row["attributes"] or ()
    }
    return Content(row["body"], values)


class Trait(StrEnum):
    """The planned failure of a message."""

    PLAIN = "needs nothing"
    BROKEN = "meets a bug"


@dataclass(frozen=True, slots=True)
class DemoMessage:
    """One message to send.

    Attributes:
        number: shown to the user, counted from 1; for a file its line.
        content: with an attribute that is unique within the run, so that equal messages differ.
        group: its message group; None for standard queues.
    """

    number: int
    content: Content
    trait: Trait
    group: str | None = None

    @classmethod
    def of(
        cls, number: int, body: str, attributes: Attributes, trait: Trait = Trait.PLAIN
    ) -> "DemoMessage":
        """Add the attribute to a body and its own attributes."""
        marked = {**attributes, DEMO_ID: ("String", f"m{number:05d}")}
        return cls(number, Content(body, marked), trait)

    @property
    def identity(self) -> str:
        """Unique within the run."""
        return self.content.identity

    def to_api(self) -> dict[str, Any]:
        """Return the parameters of SendMessage."""
        attributes = {
            name: {"DataType": type_, ["BinaryValue", "StringValue"][isinstance(value, str)]: value}
            for name, (type_, value) in self.content.attributes.items()
        }
        request = {"MessageBody": self.content.body, "MessageAttributes": attributes}
        if self.group is None:
            return request
        fifo = {"MessageGroupId": self.group, "MessageDeduplicationId": self.identity}
        return {**request, **fifo}


def read_input(path: Path, limit: int) -> list[DemoMessage]:
    """Read the user's messages, one JSON object per line; return the first *limit*.

    Only what JSON cannot say is checked here: SQS refuses what breaks its own rules.

    Raises:
        InputError: the file cannot be read, has no message, or a line is not one.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    messages: list[DemoMessage] = []
    for number, line in enumerate(lines, start=1):
        try:
            if line.strip():
                messages.append(DemoMessage.of(number, *_parse(line)))
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}.") from None
    if not messages:
        raise InputError(f"{path} holds no message to send.")
    return messages[:limit]


def _parse(line: bytes) -> tuple[str, Attributes]:
    """Read a line.

    Raises:
        ValueError: the text is the rule that the line breaks.
    """
    try:
        raw = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ValueError("must be JSON in UTF-8, one object a line") from None
    match raw:
        case {"body": str(body)} if isinstance(raw.get("attributes", {}), dict):
            attributes = raw.get("attributes", {})
        case _:
            raise ValueError("must have a body, which is text, and perhaps attributes, an object")
    if DEMO_ID in attributes or len(attributes) > _MAX_OWN_ATTRIBUTES:
        rule = f"at most {_MAX_OWN_ATTRIBUTES} attributes, none of them {DEMO_ID}: the demo adds it"
        raise ValueError(f"must have {rule}, and the product two more")
    return body, {name: _attribute(name, value) for name, value in attributes.items()}


def _attribute(name: str, raw: object) -> tuple[str, str | bytes]:
    match raw:
        case str():
            return "String", raw
        case {"DataType": str(data_type), "StringValue": str(text)}:
            return data_type, text
        case {"DataType": str(data_type), "BinaryValue": str(text)}:
            try:
                return data_type, base64.b64decode(text, validate=True)
            except ValueError:
                raise ValueError(f"attribute {name}: BinaryValue must be base64") from None
    raise ValueError(
        f"attribute {name}: must be text, or an object with DataType and StringValue or BinaryValue"
    )
