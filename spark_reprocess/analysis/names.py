"""Replace ids and numbers in names of fields and in short texts. Pure."""

import re
from functools import lru_cache

from dlq_replay.failures import one_line
from dlq_replay.masks import EMAIL
from dlq_replay.normalization import NUMBER, mask_times_and_uuids

_LONG_ID = re.compile(
    r"(?i)\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f]{12,}\b"
    r"|\b(?=[A-Za-z_]*\d[A-Za-z_]*\d)(?=\d*[A-Za-z_])\w{8,}\b"
)
_MIXED = re.compile(r"\d[A-Za-z_]|[A-Za-z_]\d|\d{12}")
"""Every text that ``_LONG_ID`` matches contains this, and this is faster to search."""

_DIGIT = re.compile(r"\d")
_NAME_CHARACTERS = 64


@lru_cache(maxsize=20_000)
def mask_name(name: str) -> str:
    """Return a key with its ids and numbers replaced, so that keys that contain ids are equal."""
    return mask_numbers(mask_ids(name[:_NAME_CHARACTERS]))


def mask_ids(text: str) -> str:
    """Return *text* on one line with times, UUIDs, addresses and long ids replaced."""
    if _DIGIT.search(text):
        text = mask_times_and_uuids(text)
        if _MIXED.search(text):
            text = _LONG_ID.sub("<id>", text)
    return one_line(EMAIL.sub("<email>", text) if "@" in text else text)


def mask_numbers(text: str) -> str:
    """Return *text* with its numbers replaced."""
    return NUMBER.sub("<n>", text)
