"""The order of a consumer's versions. Pure.

Two versions are compared as whole numbers if both are (a Lambda version, a build number), else as
semantic versions if both are, else by the analyses that first saw messages which failed on them.
Where none of these gives an order, there is none: nobody guesses.
"""

import re
from collections.abc import Mapping

LATEST = "$LATEST"
"""What Lambda calls code that has no version: it changes under the same name."""

VERSION_CHARACTERS = 64
"""Of a version at most; it is printable ASCII."""

_NUMBER = re.compile(r"[0-9]{1,6}")
"""Longer ones may be commits: seven hex digits are all decimal in one of thirty."""

_NUMERIC = r"0|[1-9][0-9]*"
_IDENTIFIER = rf"(?:{_NUMERIC}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMANTIC = re.compile(
    rf"v?(?P<core>(?:{_NUMERIC})\.(?:{_NUMERIC})\.(?:{_NUMERIC}))"
    rf"(?:-(?P<pre>{_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+[0-9A-Za-z.-]+)?"
)

_Key = tuple[tuple[int, ...], tuple[tuple[int, int, str], ...]]


def is_version(text: str) -> bool:
    """Whether *text* can be the version of a consumer: ``$LATEST`` names none."""
    is_printable = text.isascii() and text.isprintable() and text == text.strip()
    return is_printable and 0 < len(text) <= VERSION_CHARACTERS and text != LATEST


def compare(one: str | None, other: str | None, first_seen: Mapping[str, str]) -> int | None:
    """Compare two versions.

    Args:
        one: a version; None and ``$LATEST`` have no order.
        other: another.
        first_seen: by version, the id of the analysis that first saw a message which failed on it.
            The ids sort by time.

    Returns:
        A number below, equal to or above 0 as *one* comes before *other*, is the same or comes
        after it; None if no order is known.
    """
    if one is None or other is None or not is_version(one) or not is_version(other):
        return None
    if one == other:
        return 0
    if _NUMBER.fullmatch(one) and _NUMBER.fullmatch(other):
        return int(one) - int(other)
    keys = _semantic_key(one), _semantic_key(other)
    if keys[0] is not None and keys[1] is not None:
        # Equal ones differ in their build, which has no order.
        return _sign(keys[0] > keys[1], keys[0] < keys[1]) or None
    seen = first_seen.get(one), first_seen.get(other)
    if seen[0] is not None and seen[1] is not None:
        return _sign(seen[0] > seen[1], seen[0] < seen[1]) or None
    return None


def _sign(is_above: bool, is_below: bool) -> int:
    return int(is_above) - int(is_below)


def _semantic_key(text: str) -> _Key | None:
    found = _SEMANTIC.fullmatch(text)
    if found is None:
        return None
    core = tuple(map(int, found["core"].split(".")))
    # A release comes after all of its pre-releases; numbers come before words.
    parts = found["pre"].split(".") if found["pre"] else []
    pre = tuple((0, int(one), "") if one.isdecimal() else (1, 0, one) for one in parts)
    return core, (pre or ((2, 0, ""),))
