"""JSON laid out over lines without changing one token of it. Pure.

Parsing and writing again would round numbers, drop repeated keys and refuse a body that was cut;
this moves white space only.
"""

import json
import re
from collections.abc import Iterator

_WORD = re.compile(r'"(?:[^"\\]|\\.|\\\Z)*"?|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_START = re.compile(r'\s*(?:\{\s*"|\[\s*(?:\{\s*)?")')
_OPENING, _CLOSING = frozenset("{["), frozenset("}]")
_INDENT = "  "
_DEEPEST = 12
"""Levels that are indented; deeper ones stay there, so that a page of brackets stays a page."""


def looks_like_json(text: str) -> bool:
    """Whether *text* is a JSON object or array, or looks like the start of one that was cut."""
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return _START.match(text) is not None


def laid_out(text: str) -> str:
    """One member a line, indented by depth. Works on JSON that was cut, and loses no token."""
    return "".join(_pieces(text)).strip()


def _pieces(text: str) -> Iterator[str]:
    words = _WORD.findall(text)
    depth = 0
    for word, after in zip(words, [*words[1:], ""], strict=False):
        if word in _OPENING:
            depth += 1
            yield word if after in _CLOSING else f"{word}{_line(depth)}"
        elif word == ",":
            yield f"{word}{_line(depth)}"
        elif word == ":":
            yield ": "
        else:
            yield f"{word} " if _stands_apart(after) else word
        if after and after in _CLOSING:
            depth = max(0, depth - 1)
            if word not in _OPENING:
                yield _line(depth)


def _stands_apart(after: str) -> bool:
    """Two values in a row are no JSON, but they must not become one."""
    return bool(after) and after not in "{}[],:"


def _line(depth: int) -> str:
    return "\n" + _INDENT * min(depth, _DEEPEST)
