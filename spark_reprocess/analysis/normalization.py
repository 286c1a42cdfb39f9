"""Replace what differs between occurrences of one failure: times, ids, numbers. Pure."""

import re
from functools import lru_cache

from dlq_replay.failures import one_line
from dlq_replay.masks import EMAIL

_TIME_AND_UUID = (
    (
        re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"),
        "<time>",
    ),
    (re.compile(r"(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
)
_IDS = (
    (re.compile(r"(?i)\b0x[0-9a-f]+\b"), "<hex>"),
    (re.compile(r"(?i)\b(?=[a-f]*\d)[0-9a-f]{12,}\b"), "<hex>"),
    (re.compile(r"\b(?=[A-Za-z_]*\d[A-Za-z_]*\d)(?=\d*[A-Za-z_])\w{8,}\b"), "<id>"),
)
_QUOTED = (
    (re.compile(r'"[^"]*"'), '"<text>"'),
    (re.compile(r"(?<!\w)'[^'\n]*'(?!\w)"), "'<text>'"),
)
_MIXED = re.compile(r"\d[A-Za-z_]|[A-Za-z_]\d|\d{12}")
"""Prefilter: every text that ``_IDS`` match contains this, and this is faster to search."""

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_DIGIT = re.compile(r"\d")
_ERROR_CHARACTERS = 500
_NAME_CHARACTERS = 64


def mask_error(text: str) -> str:
    """Return an error's text without what differs between its occurrences.

    Replaced are times, UUIDs, e-mail addresses, quoted texts, long ids and numbers. The result has
    at most 500 characters.
    """
    text = text[: _ERROR_CHARACTERS * 2]
    has_digits = _DIGIT.search(text) is not None
    if has_digits:
        text = _mask_times_and_uuids(text)
    if "'" in text or '"' in text:
        text = _replace(_QUOTED, text)
    if "@" in text:
        text = EMAIL.sub("<email>", text)
    if has_digits:
        text = mask_numbers(_mask_long_ids(text))
    return one_line(text)[:_ERROR_CHARACTERS]


@lru_cache(maxsize=20_000)
def mask_name(name: str) -> str:
    """Return a key with its ids and numbers replaced, so that keys that contain ids are equal."""
    return mask_numbers(mask_ids(name[:_NAME_CHARACTERS]))


def mask_ids(text: str) -> str:
    """Return *text* on one line with times, UUIDs, addresses and long ids replaced."""
    if _DIGIT.search(text):
        text = _mask_long_ids(_mask_times_and_uuids(text))
    return one_line(EMAIL.sub("<email>", text) if "@" in text else text)


def mask_numbers(text: str) -> str:
    """Return *text* with its numbers replaced."""
    return _NUMBER.sub("<n>", text)


def _mask_times_and_uuids(text: str) -> str:
    return _replace(_TIME_AND_UUID, text) if "-" in text else text


def _mask_long_ids(text: str) -> str:
    return _replace(_IDS, text) if _MIXED.search(text) else text


def _replace(masks: tuple[tuple[re.Pattern[str], str], ...], text: str) -> str:
    for pattern, replacement in masks:
        text = pattern.sub(replacement, text)
    return text
