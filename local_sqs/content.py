"""The rules for the content of a message: checks and sizes.

Limits: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
Attributes: .../SQSDeveloperGuide/sqs-message-metadata.html
Characters, ids and delays: .../APIReference/API_SendMessage.html
"""

import re
from decimal import Context, Decimal

from local_sqs.errors import SqsError, invalid_parameter, invalid_value, missing_parameter
from local_sqs.messages import Attributes, AttributeValue, StoredMessage
from local_sqs.settings import Settings

MAX_ATTRIBUTES = 10
MAX_NUMBER_DIGITS = 38

_REFUSED_CHARACTER = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile(r"(?!(?i:aws|amazon)\.)(?!\.)(?!.*\.\.)(?!.*\.\Z)[A-Za-z0-9_.-]{1,256}")
_TYPE = re.compile(r"(?s)(?=.{1,256}\Z)(String|Number|Binary)(?:\..+)?")
_NUMBER = re.compile(r"[+-]?(?=\.?\d)\d*\.?\d*(?:[eE][+-]?\d+)?")
_DIGITS = Context(prec=MAX_NUMBER_DIGITS)
_ID = re.compile(r"[\x21-\x7e]{1,128}")
_WRONG_TYPE = "The request include parameter that is not valid for this queue type."


def missing_for_fifo(message: StoredMessage, settings: Settings) -> SqsError | None:
    """Return the error for a missing FIFO parameter; in a batch it fails the whole request."""
    if not settings.is_fifo:
        return None
    if not message.group_id:
        return missing_parameter("MessageGroupId")

    is_content_based = settings.values["ContentBasedDeduplication"] == "true"
    if not message.deduplication_id and not is_content_based:
        return invalid_parameter(
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly"
        )
    return None


def check_for(message: StoredMessage, settings: Settings) -> None:
    """Check a message for a queue with *settings*.

    Raises:
        SqsError: invalid content, size, delay or ids.
    """
    _check_delay(message.delay_seconds, settings)
    _check_id("MessageGroupId", message.group_id)
    _check_id("MessageDeduplicationId", message.deduplication_id)
    if message.deduplication_id and not settings.is_fifo:
        raise invalid_value("MessageDeduplicationId", message.deduplication_id, _WRONG_TYPE)

    if not message.body:
        raise missing_parameter("MessageBody")
    _check_attributes(message.attributes)

    max_bytes = settings.number("MaximumMessageSize")
    if size_bytes(message) > max_bytes:
        raise invalid_parameter(
            "One or more parameters are invalid. Reason: Message must be shorter than "
            f"{max_bytes} bytes."
        )

    _check_characters(message.body)
    for _, value in message.attributes.values():
        if isinstance(value, str):
            _check_characters(value)


def _check_delay(delay_seconds: int | None, settings: Settings) -> None:
    if delay_seconds and settings.is_fifo:
        raise invalid_value("DelaySeconds", delay_seconds, _WRONG_TYPE)
    if delay_seconds is not None and not 0 <= delay_seconds <= 900:
        reason = "DelaySeconds must be >= 0 and <= 900."
        raise invalid_value("DelaySeconds", delay_seconds, reason)


def _check_id(name: str, value: str | None) -> None:
    if value is not None and not _ID.fullmatch(value):
        reason = (
            f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
        )
        raise invalid_value(name, value, reason)


def _check_characters(text: str) -> None:
    # Most texts are printable ASCII and need no search.
    is_plain = text.isascii() and text.isprintable()
    if not is_plain and _REFUSED_CHARACTER.search(text):
        raise SqsError(
            "InvalidMessageContents",
            "Invalid binary character was found in the message body, the set of allowed "
            "characters is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | "
            "[#x10000-#x10FFFF]",
        )


def _check_attributes(attributes: Attributes) -> None:
    if len(attributes) > MAX_ATTRIBUTES:
        raise invalid_parameter(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum "
            f"[{MAX_ATTRIBUTES}]."
        )

    for name, (data_type, value) in attributes.items():
        _check_attribute(name, data_type, value)


def _check_attribute(name: str, data_type: str, value: str | bytes) -> None:
    if not _NAME.fullmatch(name):
        raise invalid_parameter(
            f"Message (user) attribute name '{name}' is invalid: letters, digits, '_', '-' and "
            "'.', not at either end nor doubled, no prefix AWS. or Amazon., at most 256."
        )

    matched = _TYPE.fullmatch(data_type)
    if matched is None:
        raise invalid_parameter(
            f"The message attribute '{name}' has an invalid message attribute type, the set of "
            "supported type prefixes is Binary, Number, and String."
        )

    base_type = matched[1]
    is_binary = base_type == "Binary"
    if not value or isinstance(value, bytes) != is_binary:
        raise invalid_parameter(
            f"Message (user) attribute '{name}' must contain a non-empty value of type "
            f"'{base_type}'."
        )
    if base_type == "Number" and not _is_number(str(value)):
        raise invalid_parameter(
            f"Can't cast the value of message (user) attribute '{name}' to a number."
        )


def _is_number(text: str) -> bool:
    digits = re.sub(r"[eE].*|\D", "", text).strip("0")
    return _NUMBER.fullmatch(text) is not None and len(digits) <= MAX_NUMBER_DIGITS


def normalised(attributes: Attributes) -> Attributes:
    """Remove leading and trailing zeroes of Number attributes, as the developer guide describes.

    A number with an exponent is not changed: its normalisation is not documented.
    """
    trimmed = dict(attributes)
    for name, (data_type, value) in attributes.items():
        number = str(value)
        if data_type.startswith("Number") and "e" not in number.lower():
            text = f"{Decimal(number).normalize(_DIGITS):f}"
            trimmed[name] = AttributeValue(data_type, text)
    return trimmed


def size_bytes(message: StoredMessage) -> int:
    """Return the UTF-8 bytes of the body and of each attribute's name, type and value."""
    total = _bytes(message.body)
    for name, (data_type, value) in message.attributes.items():
        total += _bytes(name) + _bytes(data_type) + _bytes(value)
    return total


def _bytes(value: str | bytes) -> int:
    if isinstance(value, bytes) or value.isascii():
        return len(value)
    return len(value.encode("utf-8", "surrogatepass"))
