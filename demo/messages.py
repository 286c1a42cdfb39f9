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
"""SQS allows 10 attributes. The others are ``demo-id``, the counter and the context."""

_RULE = (
    "must be a JSON object as --help shows it: a body, which is text, and at most"
    f" {_MAX_OWN_ATTRIBUTES} attributes, none of them {DEMO_ID}"
)

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
        own_attributes = dict(self.attributes)
        own_attributes.pop(COUNTER, None)
        own_attributes.pop(CONTEXT, None)
        return self.body, own_attributes

    @property
    def replay_count(self) -> int:
        """The product's counter; 0 if it is absent."""
        text = self._text(COUNTER)
        return int(text) if text.isascii() and text.isdigit() else 0

    @property
    def is_unproven(self) -> bool:
        """True if a ramp sent this copy in a step that was not its last one."""
        return '"step":' in self._text(CONTEXT)

    @property
    def has_plan(self) -> bool:
        """True if the context, which is compact JSON, names a redrive plan."""
        return '"plan":' in self._text(CONTEXT)

    def _text(self, name: str) -> str:
        return str(self.attributes.get(name, ("", ""))[1])


def from_record(record: Mapping[str, Any]) -> Content:
    """Read a Lambda record, where binary values are base64."""
    attributes: dict[str, tuple[str, str | bytes]] = {}
    for name, attribute in record["messageAttributes"].items():
        value = attribute.get("stringValue") or base64.b64decode(attribute["binaryValue"])
        attributes[name] = (attribute["dataType"], value)
    return Content(record["body"], attributes)


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
        attributes = {}
        for name, (data_type, value) in self.content.attributes.items():
            value_key = "StringValue" if isinstance(value, str) else "BinaryValue"
            attributes[name] = {"DataType": data_type, value_key: value}

        request: dict[str, Any] = {
            "MessageBody": self.content.body,
            "MessageAttributes": attributes,
        }
        if self.group is not None:
            request["MessageGroupId"] = self.group
            request["MessageDeduplicationId"] = self.identity
        return request


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
        except (ValueError, RecursionError):
            raise InputError(f"{path}, line {number}: {_RULE}.") from None

    if not messages:
        raise InputError(f"{path} holds no message to send.")
    return messages[:limit]


def _parse(line: bytes) -> tuple[str, Attributes]:
    """Read a line.

    Raises:
        ValueError: it breaks the rule.
    """
    raw = json.loads(line.decode("utf-8-sig"))
    match raw:
        case {"body": str(body)} if isinstance(raw.get("attributes", {}), dict):
            own = {name: _attribute(value) for name, value in raw.get("attributes", {}).items()}
            if DEMO_ID not in own and len(own) <= _MAX_OWN_ATTRIBUTES:
                return body, own
    raise ValueError


def _attribute(raw: object) -> tuple[str, str | bytes]:
    match raw:
        case str():
            return "String", raw
        case {"DataType": str(data_type), "StringValue": str(text)}:
            return data_type, text
        case {"DataType": str(data_type), "BinaryValue": str(text)}:
            return data_type, base64.b64decode(text, validate=True)
    raise ValueError
