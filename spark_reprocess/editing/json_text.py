"""JSON as it was spelled: what an edit does not touch comes out as it went in. Pure.

Numbers keep their digits (``1.10``, ``1e400``, 30-digit integers), objects the order of their keys,
and the text its spacing and its escapes, as far as one rule explains them; where none does, the
values still stay and the spacing becomes compact.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Self, TypeAlias

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_FIRST_INDENT = re.compile(r"[\[{](\n[ \t]*)")
_LAST_ASCII = 0x7F
_NOT_IN_SQS = "\ufffe\uffff"
"""No part of a body may be one of them (SQSAPI, SendMessage); in JSON they can be escaped."""


class JsonTextError(ValueError):
    """The text is no JSON that can be changed safely; says why, without a part of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A JSON number by its digits. Equal to another of the same value, as RFC 6902 wants."""

    literal: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    @property
    def _value(self) -> Decimal | str:
        try:
            return Decimal(self.literal)
        except InvalidOperation:
            # An exponent that no decimal has: equal only where it is spelled the same.
            return self.literal


Json: TypeAlias = "dict[str, Json] | list[Json] | Number | str | bool | None"
"""What ``read_json`` makes of a text."""


def read_json(text: str) -> Json:
    """Read a JSON text into dicts, lists, str, bool, None and ``Number``.

    Raises:
        JsonTextError: it is no JSON (``NaN`` is none), is nested too deeply, or names a key of an
            object twice, where nobody knows which one counts.
    """
    try:
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
        raise JsonTextError("is no JSON") from error
    return value


@dataclass(frozen=True, slots=True)
class Style:
    """How a JSON text is spelled.

    Attributes:
        comma: between items, without the line break of an indented text.
        colon: between a key and its value.
        indent: what each level adds, None for one line.
        escapes: characters that are escaped though JSON does not ask for it, and how.
        is_ascii: whether everything beyond ASCII is escaped.
        margins: white space before and after.
    """

    comma: str = ","
    colon: str = ":"
    indent: str | None = None
    escapes: Mapping[int, str] | None = None
    is_ascii: bool = False
    margins: tuple[str, str] = ("", "")

    @classmethod
    def of(cls, text: str, value: Json) -> Self:
        """Find the style that spells *value* as *text*, from which it was read; else a compact one.

        Raises:
            JsonTextError: *value* is nested too deeply to be spelled.
        """
        bare = text.strip(" \t\r\n")
        before, after = text.split(bare, 1) if bare else ("", "")
        escapes, is_ascii = _escapes(bare)
        fixed: dict[str, Any] = {"escapes": escapes, "is_ascii": is_ascii}
        for comma, colon, indent in _spacings(bare):
            style = cls(comma, colon, indent, **fixed)
            if style.spell(value) == bare:
                return cls(comma, colon, indent, **fixed, margins=(before, after))
        return cls(**fixed)

    def spell(self, value: Json) -> str:
        """Spell what ``read_json`` gives. Characters that SQS refuses are escaped.

        Raises:
            JsonTextError: *value* is nested too deeply.
        """
        parts = [self.margins[0]]
        try:
            self._add(value, parts, "\n")
        except RecursionError as error:
            raise JsonTextError("is nested too deeply") from error
        parts.append(self.margins[1])
        return "".join(parts)

    def _add(self, value: Json, parts: list[str], line: str) -> None:
        match value:
            case Number():
                parts.append(value.literal)
            case str():
                parts.append(self._quoted(value))
            case dict():
                members = ((self._quoted(key) + self.colon, one) for key, one in value.items())
                self._add_items("{}", members, parts, line)
            case list():
                self._add_items("[]", (("", one) for one in value), parts, line)
            case None:
                parts.append("null")
            case _:
                parts.append("true" if value else "false")

    def _add_items(
        self, brackets: str, items: Iterator[tuple[str, Json]], parts: list[str], line: str
    ) -> None:
        inner = "" if self.indent is None else line + self.indent
        before = brackets[0] + inner
        is_empty = True
        for label, item in items:
            parts.append(before + label)
            self._add(item, parts, inner)
            before, is_empty = self.comma + inner, False
        if is_empty:
            parts.append(brackets)
        else:
            parts.append((line if inner else "") + brackets[1])

    def _quoted(self, text: str) -> str:
        quoted = json.dumps(text, ensure_ascii=self.is_ascii)
        if self.escapes:
            quoted = quoted.translate(dict(self.escapes))
        return quoted if quoted.isascii() else "".join(map(_sendable, quoted))


COMPACT = Style()
INDENTED = Style(colon=": ", indent="  ")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JsonTextError("names a key of an object twice")
    return found


def _refuse(_: str) -> None:
    raise JsonTextError("is no JSON")


def _spacings(text: str) -> Iterator[tuple[str, str, str | None]]:
    """Comma, colon and indent as the usual writers set them; compact first, as most do."""
    first_line = _FIRST_INDENT.match(text)
    if first_line:
        yield ",", ": ", first_line[1][1:]
        yield ",", ":", first_line[1][1:]
    else:
        yield ",", ":", None
        yield ", ", ": ", None
        yield ",", ": ", None


def _escapes(text: str) -> tuple[dict[int, str], bool]:
    """Which characters *text* escapes on its own account, and whether all beyond ASCII are."""
    if "\\" not in text:
        return {}, False
    found: dict[int, str] = {}
    for match in _ESCAPE.finditer(text):
        if match[1]:
            found[int(match[1], 16)] = match[0]
        elif match[2] == "/":
            found[ord("/")] = r"\/"
    is_ascii = text.isascii() and any(code > _LAST_ASCII for code in found)
    # Control characters, quotes and backslashes are escaped when these are applied; letters and
    # digits stand in those escapes.
    chosen = {code: spelled for code, spelled in found.items() if _may_be_escaped(chr(code))}
    return ({c: s for c, s in chosen.items() if c <= _LAST_ASCII} if is_ascii else chosen), is_ascii


def _may_be_escaped(character: str) -> bool:
    is_kept = character.isascii() and (character.isalnum() or character < " ")
    return not is_kept and character not in '"\\'


def _sendable(character: str) -> str:
    """Half a surrogate pair is no Unicode text, and SQS refuses two more; JSON can escape them."""
    is_surrogate = "\ud800" <= character <= "\udfff"
    return f"\\u{ord(character):04x}" if is_surrogate or character in _NOT_IN_SQS else character
