"""JSON that keeps its text: what an edit does not touch is written as it was read. Pure.

Numbers keep their digits (``1.10``, ``1e400``, 30-digit integers). Objects keep the order of their
keys. The text keeps its white space where one ``Style`` describes it; elsewhere the values stay the
same and the white space becomes compact.
"""

import json
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Self, TypeAlias

import simplejson
from simplejson.raw_json import RawJSON

_FIRST_INDENT = re.compile(r"[\[{]\n([ \t]*)")
_REFUSED_BY_SQS = re.compile("[\ud800-\udfff\ufffe\uffff]")
"""Characters that no body may contain (SQSAPI, SendMessage). JSON can escape them."""


class JsonTextError(ValueError):
    """The text is not JSON that can be changed safely; says why, without a part of it."""


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
"""What ``read_json`` returns."""


def read_json(text: str) -> Json:
    """Read a JSON text into dicts, lists, str, bool, None and ``Number``.

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
            object_pairs_hook=_object,
        )
    except JsonTextError:
        raise
    except RecursionError as error:
        raise JsonTextError("is nested too deeply") from error
    except ValueError as error:
        raise JsonTextError("is not JSON") from error
    return value


@dataclass(frozen=True, slots=True)
class Style:
    """How a JSON text is written.

    Attributes:
        comma: between items, without the line break of an indented text.
        colon: between a key and its value.
        indent: what each level adds, None for one line.
        is_ascii: whether every character beyond ASCII is escaped.
    """

    comma: str = ","
    colon: str = ":"
    indent: str | None = None
    is_ascii: bool = False

    @classmethod
    def of(cls, text: str, value: Json) -> Self:
        """Find the style in which *text* is written; a compact one where none describes it.

        *value* is what ``read_json`` returns for the text.

        Raises:
            JsonTextError: *value* is nested too deeply to be written.
        """
        bare = text.strip(" \t\r\n")
        is_ascii = "\\u" in bare and bare.isascii()
        spacings: tuple[tuple[str, str, str | None], ...] = (
            (",", ":", None),
            (", ", ": ", None),
            (",", ": ", None),
        )
        if first_line := _FIRST_INDENT.match(bare):
            spacings = ((",", ": ", first_line[1]), (",", ":", first_line[1]))
        styles = (cls(*spacing, is_ascii) for spacing in spacings)
        return next((one for one in styles if one.write(value) == bare), cls(is_ascii=is_ascii))

    def write(self, value: Json) -> str:
        """Write what ``read_json`` returns. Characters that SQS refuses are escaped.

        Raises:
            JsonTextError: *value* is nested too deeply.
        """
        try:
            text = simplejson.dumps(
                value,
                ensure_ascii=self.is_ascii,
                indent=self.indent,
                separators=(self.comma, self.colon),
            )
        except RecursionError as error:
            raise JsonTextError("is nested too deeply") from error
        return _REFUSED_BY_SQS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


COMPACT = Style()
INDENTED = Style(colon=": ", indent="  ")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JsonTextError("repeats a key of an object")
    return found


def _refuse(_: str) -> None:
    raise JsonTextError("is not JSON")
