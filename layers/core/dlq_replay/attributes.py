"""One typed SQS message attribute; converts Lambda's form and the API's without loss. Pure."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from dlq_replay.errors import MalformedMessageError

MAX_ATTRIBUTES = 10
"""Per message: SQSDeveloperGuide, "Amazon SQS message metadata"."""


@dataclass(frozen=True, slots=True)
class MessageAttribute:
    """A value and its type, exactly as the producer sent them.

    Attributes:
        data_type: ``String``, ``Number`` or ``Binary``, optionally with a label (``Number.int``).
        value: text for String and Number, bytes for Binary. A Number stays text: a
            conversion to a number and back would change ``1.0E2``.
    """

    data_type: str
    value: str | bytes

    @classmethod
    def from_lambda(cls, name: str, raw: Mapping[str, Any]) -> Self:
        """Read a Lambda record's attribute, where binary values are base64 text.

        Raises:
            MalformedMessageError: no usable value; the message stays in its queue.
        """
        data_type = raw.get("dataType")
        if not isinstance(data_type, str):
            raise MalformedMessageError(f"attribute {name!r}: dataType must be text")
        if isinstance(text := raw.get("stringValue"), str):
            return cls(data_type, text)
        try:
            return cls(data_type, base64.b64decode(raw["binaryValue"], validate=True))
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise MalformedMessageError(
                f"attribute {name!r}: needs stringValue as text or binaryValue as base64"
            ) from error

    @classmethod
    def from_api(cls, name: str, raw: Mapping[str, Any]) -> Self:
        """Read an attribute as ReceiveMessage returns it, where binary values are bytes.

        Raises:
            MalformedMessageError: no usable value; the message stays in its queue.
        """
        value = raw.get("StringValue", raw.get("BinaryValue"))
        if not isinstance(value, str | bytes) or not isinstance(raw.get("DataType"), str):
            raise MalformedMessageError(
                f"attribute {name!r}: needs DataType and one of StringValue, BinaryValue"
            )
        return cls(raw["DataType"], value)

    def to_api(self) -> dict[str, str | bytes]:
        """Return the form that SendMessage expects."""
        key = "StringValue" if isinstance(self.value, str) else "BinaryValue"
        return {"DataType": self.data_type, key: self.value}


Attributes = Mapping[str, MessageAttribute]


def size_bytes(body: str, attributes: Attributes) -> int:
    """Return what SQS counts against a message's limit, in bytes.

    That is the body and each attribute's name, type and value, in UTF-8.
    """
    total = _bytes(body)
    for name, attribute in attributes.items():
        total += _label_bytes(name, attribute.data_type) + _bytes(attribute.value)
    return total


@lru_cache
def _label_bytes(name: str, data_type: str) -> int:
    """Cached, because the messages of a batch tend to have the same attributes."""
    return _bytes(name) + _bytes(data_type)


def _bytes(value: str | bytes) -> int:
    if isinstance(value, bytes) or value.isascii():
        return len(value)
    return len(value.encode("utf-8", "surrogatepass"))
