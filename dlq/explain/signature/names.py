"""Replace ids and numbers in names of fields and in short texts. Pure.

Names of fields keep their digits, as ``s3Key`` and ``line1``. Names that are ids have three digits
or more, or one behind a dash, or there are many alike in one object.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from dlq_replay.rules.failures import one_line
from dlq_replay.text.masks import EMAIL
from dlq_replay.text.normalization import mask_times_and_uuids
from dlq_replay.text.numbers import LATIN, NUMBER

_LONG_ID = re.compile(
    # A word of Latin letters: an id ends beside another script.
    rf"(?i)(?<![{LATIN}\d_])(?:0x[0-9a-f]+|(?=[a-f]*\d)[0-9a-f]{{12,}}"
    rf"|(?=[a-z_]*\d[a-z_]*\d)(?=\d*[a-z_])[{LATIN}\d_]{{8,}})(?![{LATIN}\d_])"
)
_MIXED = re.compile(r"\d[A-Za-z_]|[A-Za-z_]\d|\d{12}")
"""Every text that ``_LONG_ID`` matches contains this, and this is faster to search."""

_NAME_CHARACTERS = 64
_OF_FIELD = re.compile(r"(?s)(?!.*-\d)(?:\D*\d){0,2}\D*")
_MANY_ALIKE = 4


@lru_cache(maxsize=20_000)
def mask_name(name: str) -> str:
    """Return a key with its ids and numbers replaced, so that keys that contain ids are equal."""
    name = name[:_NAME_CHARACTERS]
    return _line(name) if _OF_FIELD.fullmatch(name) else mask_words(name)


def mask_names(names: Sequence[str]) -> list[str]:
    """Return the keys of one object masked as by ``mask_name``; of many alike also the digits."""
    masked_names = [mask_words(name[:_NAME_CHARACTERS]) for name in names]
    alike = Counter(masked_names)
    for position, masked in enumerate(masked_names):
        if alike[masked] < _MANY_ALIKE:
            masked_names[position] = mask_name(names[position])
    return masked_names


def mask_words(text: str) -> str:
    """Return *text* as ``mask_ids`` does, with its numbers replaced too."""
    return NUMBER.sub("<n>", mask_ids(text))


@lru_cache(maxsize=4096)
def mask_ids(text: str) -> str:
    """Return *text* on one line with times, UUIDs, addresses and long ids replaced."""
    text = mask_times_and_uuids(text)
    if _MIXED.search(text):
        text = _LONG_ID.sub("<id>", text)
    return _line(text)


def _line(text: str) -> str:
    if "@" in text:
        text = EMAIL.sub("<email>", text)
    return one_line(text)
