"""The edit that a plan has for every message of a group: body and attributes. No I/O."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from hashlib import sha256

from dlq_replay.attributes import Attributes, MessageAttribute
from dlq_replay.message import Message
from spark_reprocess.editing.patch import EditError, Patch

AttributeChange = tuple[str, MessageAttribute | None]
"""A name and its new value; None removes the attribute."""

OURS = "sqs-dlq-"
"""Prefix of the product's own attributes, which no edit may change."""

_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_NAME_MAX_CHARACTERS = 256
_NUMBER_DIGITS = 38
_NUMBER_EXPONENTS = range(-128, 127)
_REFUSED_CHARACTER = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Edit:
    """A valid edit.

    Attributes:
        patch: what changes in a JSON body; None keeps every body, JSON or not.
        set_attributes: attribute names, and for each a Spark SQL expression over the columns of the
            archived message. None, and an expression that is null, removes the attribute.
    """

    patch: Patch | None = None
    set_attributes: tuple[tuple[str, str | None], ...] = ()

    @property
    def text(self) -> str:
        """The whole edit as JSON, the same for the same edit."""
        return json.dumps(
            {"edit": self.patch and self.patch.text, "set_attributes": self.set_attributes}
        )

    @property
    def digest(self) -> str:
        """The edit's name in the ledger: the first 16 hex digits of the text's SHA-256."""
        return sha256(self.text.encode()).hexdigest()[:16]

    def apply(self, message: Message, changes: Sequence[AttributeChange]) -> Message:
        """Return *message* with the edit applied.

        Args:
            message: one archived message.
            changes: the values of ``set_attributes`` for this message.

        Raises:
            EditError: the edit does not fit this message; leave the message as it is.
        """
        body = message.body if self.patch is None else self.patch.apply(message.body)
        return replace(message, body=body, attributes=changed(message.attributes, changes))


def name_fault(name: object) -> str | None:
    """Return why an edit cannot set an attribute with this name, None where it can.

    The rules are those of SQSDeveloperGuide, "Amazon SQS message metadata".
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _NAME_MAX_CHARACTERS:
        return "must be 1 to 256 letters, digits, _, - and single dots between them"
    if name.lower().startswith(("aws.", "amazon.")):
        return "names that begin with AWS. or Amazon. belong to SQS"
    if name.lower().startswith(OURS):
        return f"names that begin with {OURS} are this product's own"
    return None


def changed(attributes: Attributes, changes: Sequence[AttributeChange]) -> Attributes:
    """Return *attributes* with *changes* applied; the others keep their values and their order.

    A custom label (``Number.int``) is kept if the new value has the same type.

    Raises:
        EditError: SQS would refuse one of the new values.
    """
    result = dict(attributes)
    for name, new in changes:
        if new is None:
            result.pop(name, None)
            continue
        fault = _value_fault(new)
        if fault:
            raise EditError(f"attribute {name}: {fault}")
        old = result.get(name)
        is_same_type = old is not None and old.data_type.split(".")[0] == new.data_type
        result[name] = MessageAttribute(old.data_type, new.value) if old and is_same_type else new
    return result


def _value_fault(attribute: MessageAttribute) -> str | None:
    if not attribute.value:
        return "its new value is empty, which SQS refuses; null removes it"
    if isinstance(attribute.value, bytes):
        return None
    if attribute.data_type == "Number" and not _is_sqs_number(attribute.value):
        return "its new value is not a number of at most 38 digits from 1e-128 to 1e+126"
    if _REFUSED_CHARACTER.search(attribute.value):
        return "its new value holds a character that SQS refuses"
    return None


def _is_sqs_number(text: str) -> bool:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    if not number.is_finite():
        return False
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    return not digits or (len(digits) <= _NUMBER_DIGITS and number.adjusted() in _NUMBER_EXPONENTS)
