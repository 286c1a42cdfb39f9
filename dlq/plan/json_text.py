"""JSON that keeps its values: a value without an edit is written as it was read. Pure.

Numbers keep their digits (``1.10``, ``1e400``, 30-digit integers), objects the order of their keys.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

import simplejson
from simplejson.raw_json import RawJSON

_REFUSED_BY_SQS = re.compile("[\ud800-\udfff\ufffe\uffff]")
"""Characters that no body may contain (SQSAPI, SendMessage). JSON can escape them."""

_MOST_INDENTED = 20_000_000
"""The most characters of a JSON text, times its levels, that are indented: 1 MiB of 19 levels."""


class JsonTextError(ValueError):
    """The text is not JSON that can be changed safely. The reason has no part of the text."""


@dataclass(frozen=True, eq=False)
class Number(RawJSON):
    """A JSON number that keeps its digits. Equal to another of the same value (RFC 6902).

    simplejson writes *encoded_json* as it is.
    """

    encoded_json: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    @property
    def _value(self) -> Decimal | str:
        try:
            return Decimal(self.encoded_json)
        except InvalidOperation:
            # Decimal has no such exponent: two such numbers are equal only if their texts are.
            return self.encoded_json


Json: TypeAlias = "dict[str, Json] | list[Json] | Number | str | bool | None"
"""A value as ``read_json`` returns it."""

_Pairs: TypeAlias = "list[tuple[str, Json]]"


def read_json(text: str, object_of: Callable[[_Pairs], dict[str, Json]] | None = None) -> Json:
    """Read a JSON text into dicts, lists, str, bool, None and ``Number``.

    *object_of* makes an object from its keys and values; the default refuses repeated keys.

    Raises:
        JsonTextError: the text is not JSON (``NaN`` is not), is nested too deeply, or repeats a
            key of an object, where parsers disagree about which value counts.
    """
    try:
        # Not simplejson.loads: it accepts a byte order mark, which JSON does not.
        value: Json = json.loads(
            text,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_refuse,
            object_pairs_hook=object_of or _object,
        )
    except JsonTextError:
        raise
    except RecursionError as error:
        raise JsonTextError("is nested too deeply") from error
    except ValueError as error:
        raise JsonTextError("is not JSON") from error
    return value


def write_json(
    value: Json, separators: tuple[str, str] = (",", ":"), indent: str | None = None
) -> str:
    """Write what ``read_json`` returns; by default compact.

    Characters that SQS refuses are escaped.

    Raises:
        JsonTextError: *value* is nested too deeply.
    """
    try:
        text = simplejson.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    except RecursionError as error:
        raise JsonTextError("is nested too deeply") from error
    return _REFUSED_BY_SQS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def write_indented(value: Json) -> str:
    """Write like ``write_json``, indented for people.

    A value that is large and deep at once stays in one line. The blanks of its lines would fill the
    memory: 1 GB for 1 MiB with 900 levels.
    """
    compact = write_json(value)
    if len(compact) * _levels(value) > _MOST_INDENTED:
        return compact
    return write_json(value, (",", ": "), "  ")


def _levels(value: Json) -> int:
    """Count how deep *value* is nested; 1 for a text or an empty object."""
    levels = 0
    layer: list[Json] = [value]
    while layer:
        levels += 1
        below: list[Json] = []
        for part in layer:
            if isinstance(part, dict):
                below += part.values()
            elif isinstance(part, list):
                below += part
        layer = below
    return levels


def indented_json(text: str) -> str | None:
    """Indent a JSON object or array; None for any other text, or if a key is repeated."""
    try:
        value = read_json(text)
        return write_indented(value) if isinstance(value, dict | list) else None
    except JsonTextError:
        return None


def _object(pairs: _Pairs) -> dict[str, Json]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise JsonTextError("repeats a key of an object")
    return values


def _refuse(_: str) -> None:
    raise JsonTextError("is not JSON")
