"""One typed SQS message attribute; converts Lambda's form and the API's without loss. Pure."""

import base64
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self

from dlq_replay.errors import MalformedMessageError

MAX_ATTRIBUTES = 10
"""Per message: SQSDeveloperGuide, "Amazon SQS message metadata"."""


class MessageAttribute(NamedTuple):
    """A value and its type, exactly as the producer sent them.

    Attributes:
        data_type: ``String``, ``Number`` or ``Binary``, optionally with a label (``Number.int``).
        value: text for String and Number, bytes for Binary. A Number stays text: a
            conversion to a number and back would change ``1.0E2``.
    """

    data_type: str
    value: str | bytes

    @classmethod
    def from_received(cls, name: str, raw: object) -> Self:
        """Read an attribute of a Lambda record, or of a ReceiveMessage answer.

        Binary values are base64 text in the one, bytes in the other. Raises MalformedMessageError
        where there is no usable value.
        """
        fields: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
        data_type = fields["dataType"] if "dataType" in fields else fields.get("DataType")
        value = fields.get("stringValue")
        if value is None:
            value = fields.get("StringValue", fields.get("BinaryValue"))
        if value is None:
            # A value that is no base64 counts as none.
            with suppress(KeyError, TypeError, ValueError):
                value = base64.b64decode(fields["binaryValue"], validate=True)

        if not isinstance(data_type, str) or not isinstance(value, (str, bytes)):
            raise MalformedMessageError(f"attribute {name!r}: needs a type, and text or bytes")
        return cls(data_type, value)

    def to_api(self) -> dict[str, str | bytes]:
        """Return the form that SendMessage expects."""
        key = "StringValue" if isinstance(self.value, str) else "BinaryValue"
        return {"DataType": self.data_type, key: self.value}


Attributes = Mapping[str, MessageAttribute]


def size_bytes(body: str, attributes: Attributes) -> int:
    """Return the bytes that SQS counts against a message's limit.

    That is the body and each attribute's name, type and value, in UTF-8.
    """
    texts = [body, *attributes]
    binary_bytes = 0
    for data_type, value in attributes.values():
        texts.append(data_type)
        if isinstance(value, str):
            texts.append(value)
        else:
            binary_bytes += len(value)
    text = "".join(texts)
    is_ascii = text.isascii()
    return binary_bytes + len(text if is_ascii else text.encode("utf-8", "surrogatepass"))
