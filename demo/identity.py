"""Who a message is, from what it carries and never from what the product says of it. Pure.

Written apart from the product's own conversions on purpose: it is what they are checked against.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEMO_ID = "demo-id"
"""The attribute that the demo adds where there is room, so that equal messages differ."""

OWN_ATTRIBUTES_FOR_DEMO_ID = 7
"""With so many of its own, a message has room for ``demo-id``, the counter and the context."""

COUNTER = "sqs-dlq-replay-nb"
CONTEXT = "sqs-dlq-context"
_PRODUCTS = frozenset({COUNTER, CONTEXT})
_CANARY_MARK = 1_000_000

Value = str | bytes


@dataclass(frozen=True, slots=True)
class Attribute:
    """One message attribute: its type with any label, and its text or bytes."""

    data_type: str
    value: Value


@dataclass(frozen=True, slots=True)
class Content:
    """What a producer sends and a consumer must get: body and attributes."""

    body: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """What SQS counts: body, and each attribute's name, type and value, in UTF-8."""
        return _size(self.body) + sum(
            _size(name) + _size(a.data_type) + _size(a.value) for name, a in self.attributes.items()
        )

    @property
    def fingerprint(self) -> str:
        """A hash of everything but the two attributes that the product may add."""
        own = {n: _spell(a) for n, a in self.attributes.items() if n not in _PRODUCTS}
        text = json.dumps([self.body, own], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def identity(self) -> str:
        """The demo's own attribute, else the fingerprint."""
        attribute = self.attributes.get(DEMO_ID)
        return str(attribute.value) if attribute else self.fingerprint

    @property
    def own_attribute_count(self) -> int:
        """How many attributes are neither the product's nor the demo's."""
        return len(self.attributes.keys() - _PRODUCTS - {DEMO_ID})

    @property
    def replay_count(self) -> int:
        """How often the product says it replayed this copy; 0 where it says nothing.

        A canary's count is no count but a mark: it was not replayed.
        """
        return 0 if self.is_canary else self._counter

    @property
    def is_canary(self) -> bool:
        """Whether this copy was sent ahead of a redrive."""
        return self._counter >= _CANARY_MARK

    @property
    def plan_id(self) -> str | None:
        """The redrive plan that the context names; None without one."""
        attribute = self.attributes.get(CONTEXT)
        try:
            context = json.loads(attribute.value) if attribute else {}
        except ValueError:
            return None
        plan = context.get("plan") if isinstance(context, dict) else None
        return plan if isinstance(plan, str) else None

    @property
    def _counter(self) -> int:
        attribute = self.attributes.get(COUNTER)
        text = str(attribute.value) if attribute else ""
        return int(text) if text.isascii() and text.isdigit() else 0


def from_record(record: Mapping[str, Any]) -> Content:
    """Read a Lambda record, where binary values are base64."""
    return Content(
        record["body"],
        {
            name: Attribute(
                raw["dataType"],
                raw["stringValue"] if "stringValue" in raw else _bytes(raw["binaryValue"]),
            )
            for name, raw in record["messageAttributes"].items()
        },
    )


def from_received(message: Mapping[str, Any]) -> Content:
    """Read a message of a ReceiveMessage answer."""
    return Content(
        message["Body"],
        {
            name: Attribute(raw["DataType"], raw.get("StringValue", raw.get("BinaryValue")))
            for name, raw in message.get("MessageAttributes", {}).items()
        },
    )


def from_archived(row: Mapping[str, Any]) -> Content:
    """Read a row of the archive as pyarrow gives it: a map is a list of pairs."""
    return Content(
        row["body"],
        {
            name: Attribute(
                raw["data_type"],
                raw["binary_value"] if raw["string_value"] is None else raw["string_value"],
            )
            for name, raw in row["attributes"] or ()
        },
    )


def to_entry(content: Content, entry_id: str) -> dict[str, Any]:
    """Spell it as an entry of SendMessageBatch."""
    attributes = {
        name: {
            "DataType": a.data_type,
            "StringValue" if isinstance(a.value, str) else "BinaryValue": a.value,
        }
        for name, a in content.attributes.items()
    }
    return {"Id": entry_id, "MessageBody": content.body, "MessageAttributes": attributes}


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _spell(attribute: Attribute) -> list[str]:
    value = attribute.value
    kind, text = ("text", value) if isinstance(value, str) else ("bytes", value.hex())
    return [attribute.data_type, kind, text]


def _size(value: Value) -> int:
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else len(value)
