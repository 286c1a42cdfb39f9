"""JSON as the parsers of other languages read it, with bounds. Pure."""

import json
from typing import Any, NoReturn

NOT_JSON = object()
"""Stands for the value of a text that is no JSON; None is JSON's null."""


def parse(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value, or ``NOT_JSON``. Never raises, however deep or odd the text."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return NOT_JSON


def parse_container(text: str) -> Any:  # noqa: ANN401 - a dict, a list or NOT_JSON
    """Return the object or array that *text* holds. Its ends tell that most texts hold none."""
    text = text.strip()
    if text[:1] not in _OPENING or text[-1:] not in _CLOSING:
        return NOT_JSON
    value = parse(text)
    return value if isinstance(value, dict | list) else NOT_JSON


def kind_of(value: object) -> str:
    """Name a JSON value's type."""
    return KINDS.get(type(value), "object")


KINDS: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}

_OPENING = ("{", "[")
_CLOSING = ("}", "]")


def _refuse(name: str) -> NoReturn:
    # Python's parser takes NaN and Infinity; nobody else's does.
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse)
