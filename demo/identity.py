"""Identifies messages by their content, without the product. Pure.

This code is independent of the product's own conversions on purpose: it checks them.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEMO_ID = "demo-id"
"""The attribute that the demo adds if there is room, so that equal messages differ."""

OWN_ATTRIBUTES_FOR_DEMO_ID = 7
"""The most own attributes with which ``demo-id``, counter and context still fit."""

COUNTER = "sqs-dlq-replay-nb"
CONTEXT = "sqs-dlq-context"
_PRODUCTS = frozenset({COUNTER, CONTEXT})
_CANARY_MARK = 1_000_000

Value = str | bytes


@dataclass(frozen=True, slots=True)
class Attribute:
    """One message attribute: its type, label included, and its text or bytes."""

    data_type: str
    value: Value


@dataclass(frozen=True, slots=True)
class Content:
    """The body and the attributes of a message."""

    body: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """The size that SQS counts: body, and name, type and value of each attribute."""
        return _size(self.body) + sum(
            _size(name) + _size(a.data_type) + _size(a.value) for name, a in self.attributes.items()
        )

    @property
    def fingerprint(self) -> str:
        """A hash of the content, without the two attributes that the product adds."""
        own = {n: _listed(a) for n, a in self.attributes.items() if n not in _PRODUCTS}
        text = json.dumps([self.body, own], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def identity(self) -> str:
        """The demo's own attribute, else the fingerprint."""
        attribute = self.attributes.get(DEMO_ID)
        return str(attribute.value) if attribute else self.fingerprint

    @property
    def own_attribute_count(self) -> int:
        """The number of attributes that are neither the product's nor the demo's."""
        return len(self.attributes.keys() - _PRODUCTS - {DEMO_ID})

    @property
    def replay_count(self) -> int:
        """The value of the product's counter; 0 if it is absent.

        Also 0 for a canary, whose counter is only a mark.
        """
        return 0 if self.is_canary else self._counter

    @property
    def is_canary(self) -> bool:
        """Whether this copy was sent as a canary."""
        return self._counter >= _CANARY_MARK

    @property
    def plan_id(self) -> str | None:
        """The id of the redrive plan in the context; None without one."""
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
    """Read a row of the archive from pyarrow, where a map is a list of pairs."""
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
    """Return an entry of SendMessageBatch."""
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


def _listed(attribute: Attribute) -> list[str]:
    value = attribute.value
    kind, text = ("text", value) if isinstance(value, str) else ("bytes", value.hex())
    return [attribute.data_type, kind, text]


def _size(value: Value) -> int:
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else len(value)
