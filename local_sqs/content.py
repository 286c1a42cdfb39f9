"""Checks the content of messages; computes their sizes and digests.

Limits: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
Attributes: .../SQSDeveloperGuide/sqs-message-metadata.html
Characters: .../APIReference/API_SendMessage.html
"""

import hashlib
import re
from functools import lru_cache

from local_sqs.errors import invalid_contents, invalid_parameter, missing_parameter
from local_sqs.values import Attributes, AttributeValue, Submission

MAX_ATTRIBUTES = 10
MAX_NAME_CHARACTERS = 256
MAX_TYPE_CHARACTERS = 256
MAX_NUMBER_DIGITS = 38

_REFUSED_CHARACTER = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile(r"(?!(?i:aws|amazon)\.)(?!\.)(?!.*\.\.)(?!.*\.\Z)[A-Za-z0-9_.-]+")
_TYPE = re.compile(r"(String|Number|Binary)(\..+)?", re.DOTALL)
_EMPTY_MD5 = hashlib.md5(usedforsecurity=False)
_NUMBER = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([eE][+-]?\d+)?")


def check_submission(submission: Submission, size_bytes: int, max_bytes: int) -> None:
    """Check what SQS checks for every queue.

    Raises:
        SqsError: empty or forbidden content, or more than *max_bytes*.
    """
    if not submission.body:
        raise missing_parameter("MessageBody")
    _check_attributes(submission.attributes)
    if size_bytes > max_bytes:
        raise invalid_parameter(
            "One or more parameters are invalid. Reason: Message must be shorter than "
            f"{max_bytes} bytes."
        )
    _check_characters(submission.body)
    for attribute in submission.attributes.values():
        _check_characters(attribute.value)


def _check_characters(text: str | bytes) -> None:
    if isinstance(text, str) and _has_refused_character(text):
        raise invalid_contents()


def _has_refused_character(text: str) -> bool:
    # Most bodies are printable ASCII and need no search.
    is_plain = text.isascii() and text.isprintable()
    return not is_plain and _REFUSED_CHARACTER.search(text) is not None


def _check_attributes(attributes: Attributes) -> None:
    if len(attributes) > MAX_ATTRIBUTES:
        raise invalid_parameter(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum "
            f"[{MAX_ATTRIBUTES}]."
        )
    for name, attribute in attributes.items():
        _check_name(name)
        _check_value(name, attribute)


@lru_cache
def _check_name(name: str) -> None:
    if len(name) > MAX_NAME_CHARACTERS or not _NAME.fullmatch(name):
        raise invalid_parameter(
            f"Message (user) attribute name '{name}' is invalid: letters, digits, '_', '-' and "
            "'.', not at either end nor doubled, no prefix AWS. or Amazon., at most 256."
        )


def _check_value(name: str, attribute: AttributeValue) -> None:
    data_type, value = attribute
    base = _base_type(data_type)
    if base is None:
        raise invalid_parameter(
            f"The message attribute '{name}' has an invalid message attribute type, the set of "
            "supported type prefixes is Binary, Number, and String."
        )
    if not value or isinstance(value, bytes) != (base == "Binary"):
        raise invalid_parameter(
            f"Message (user) attribute '{name}' must contain a non-empty value of type '{base}'."
        )
    if base == "Number" and not _is_number(str(value)):
        raise invalid_parameter(
            f"Can't cast the value of message (user) attribute '{name}' to a number."
        )


@lru_cache
def _base_type(data_type: str) -> str | None:
    matched = _TYPE.fullmatch(data_type)
    return matched.group(1) if matched and len(data_type) <= MAX_TYPE_CHARACTERS else None


def _is_number(text: str) -> bool:
    matched = _NUMBER.fullmatch(text)
    if not matched:
        return False
    digits = (matched.group(2) or "") + (matched.group(3) or "")
    return bool(digits) and len(digits.strip("0")) <= MAX_NUMBER_DIGITS


def normalised(attributes: Attributes) -> Attributes:
    """Remove leading and trailing zeroes of Number attributes, as the developer guide describes.

    A number with an exponent is not changed: its normalisation is not documented.
    """
    if not any(a.data_type.startswith("Number") for a in attributes.values()):
        return attributes
    return {
        name: AttributeValue(a.data_type, _trimmed(a.value))
        if a.data_type.startswith("Number") and isinstance(a.value, str)
        else a
        for name, a in attributes.items()
    }


def _trimmed(number: str) -> str:
    matched = _NUMBER.fullmatch(number)
    if matched is None or matched.group(4):
        return number
    sign, whole, fraction = (part or "" for part in matched.groups()[:3])
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    return sign + whole + ("." + fraction if fraction else "")


def size_bytes(submission: Submission) -> int:
    """Return the UTF-8 bytes of the body and of each attribute's name, type and value."""
    total = _bytes(submission.body)
    for name, (data_type, value) in submission.attributes.items():
        total += _bytes(name) + _bytes(data_type) + _bytes(value)
    return total


def _bytes(value: str | bytes) -> int:
    if isinstance(value, bytes) or value.isascii():
        return len(value)
    return len(value.encode("utf-8", "surrogatepass"))


def md5_of_body(body: str) -> str:
    return _md5(body.encode("utf-8", "surrogatepass"))


def md5_of_attributes(attributes: Attributes) -> str:
    """Compute the digest as SQS does: sorted names; each part after its length in 4 bytes."""
    parts: list[bytes] = []
    for name in sorted(attributes):
        data_type, value = attributes[name]
        encoded = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        label = _label(name, data_type, is_text=isinstance(value, str))
        parts += (label, len(encoded).to_bytes(4, "big"), encoded)
    return _md5(b"".join(parts))


@lru_cache
def _label(name: str, data_type: str, *, is_text: bool) -> bytes:
    """Return the bytes before a value. Cached, because most messages have the same ones."""
    return _measured(name) + _measured(data_type) + (b"\x01" if is_text else b"\x02")


def _measured(text: str) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(4, "big") + encoded


def _md5(content: bytes) -> str:
    # Copying an empty digest takes half the time of creating one.
    digest = _EMPTY_MD5.copy()
    digest.update(content)
    return digest.hexdigest()
