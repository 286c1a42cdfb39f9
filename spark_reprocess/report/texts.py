"""Texts of messages made readable: every character visible, JSON indented. No I/O.

No escaping for HTML: the template engine does that.
"""

import json
import re
import unicodedata
from collections.abc import Iterator

_CONTROL_PICTURES = 0x2400
_DELETE = 0x7F
_DELETE_PICTURE = "\u2421"
_JOINERS = "\u200c\u200d"
_KEPT = "\n\t"
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_TOKEN = re.compile(r'"(?:[^"\\]|\\.|\\\Z)*"?|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_START = re.compile(r'\s*(?:\{\s*"|\[\s*(?:\{\s*)?")')
_OPENING, _CLOSING = frozenset("{["), frozenset("}]")
_INDENT = "  "
_DEEPEST = 12
"""Levels that are indented. Deeper ones are indented as this one, so that the text stays small."""


def visible(text: str) -> str:
    """Replace each character that is invisible or that reorders its neighbours.

    Control characters become their pictures (``␀``). Bidirectional overrides, zero-width
    characters, line separators, surrogates, private and unassigned code points become text such as
    ``[U+202E]``. Line feeds and tabs stay, and joiners inside emoji and in scripts that need them.
    The result can be encoded as UTF-8, and applying this function again does not change it.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(_visible(one, before) for before, one in zip(f" {text}", text, strict=False))


def _visible(one: str, before: str) -> str:
    if one.isprintable() or one in _KEPT or (one in _JOINERS and _needs_joiners(before)):
        return one
    if unicodedata.category(one) not in _INVISIBLE:
        return one
    code = ord(one)
    if code < ord(" "):
        return chr(_CONTROL_PICTURES + code)
    return _DELETE_PICTURE if code == _DELETE else f"[U+{code:04X}]"


def _needs_joiners(before: str) -> bool:
    return before.isprintable() and not before.isascii()


def looks_like_json(text: str) -> bool:
    """Whether *text* is a JSON object or array, or looks like one whose end was cut off."""
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return _START.match(text) is not None


def indented_json(text: str) -> str:
    """Put each member on a line of its own, indented by depth.

    Only white space changes, so no token is lost, numbers are not rounded, repeated keys stay, and
    JSON whose end was cut off is accepted.
    """
    return "".join(_pieces(text)).strip()


def _pieces(text: str) -> Iterator[str]:
    parts = _TOKEN.findall(text)
    depth = 0
    for part, after in zip(parts, [*parts[1:], ""], strict=False):
        if part in _OPENING:
            depth += 1
            yield part if after in _CLOSING else f"{part}{_line(depth)}"
        elif part == ",":
            yield f"{part}{_line(depth)}"
        elif part == ":":
            yield ": "
        else:
            yield f"{part} " if _needs_space(after) else part
        if after and after in _CLOSING:
            depth = max(0, depth - 1)
            if part not in _OPENING:
                yield _line(depth)


def _needs_space(after: str) -> bool:
    """Two values in a row are not JSON, but they must not be joined."""
    return bool(after) and after not in "{}[],:"


def _line(depth: int) -> str:
    return "\n" + _INDENT * min(depth, _DEEPEST)
