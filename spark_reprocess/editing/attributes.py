"""Sets and removes message attributes by SQS's rules. Pure."""

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from dlq_replay.attributes import Attributes, MessageAttribute
from spark_reprocess.editing.errors import EditError

AttributeChange = tuple[str, MessageAttribute | None]
"""A name and its new value; None removes the attribute."""

OURS = "sqs-dlq-"
"""Prefix of the product's own attributes, which no edit may change."""

_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_NAME_MAX_CHARACTERS = 256
_NUMBER_DIGITS = 38
_NUMBER_EXPONENTS = range(-128, 127)
_REFUSED_CHARACTER = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
