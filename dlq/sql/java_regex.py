r"""Translate a regular expression of Java to one of RE2 that finds a match in the same texts.

The two differ in ``.``, ``$``, ``\s``, ``\b``, letters of either case, and in what they can express
at all. So each part is parsed, and written again with sets of characters. Parts that could differ
are refused. Pure, without an engine.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import starmap

_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_MOST_REPETITIONS = 1000
"""RE2 refuses more."""

Ranges = tuple[tuple[int, int], ...]
"""Characters, each range from its first to its last."""

_DIGITS: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 13), (32, 32))
_LINE_ENDS: Ranges = ((10, 10), (13, 13), (0x85, 0x85), (0x2028, 0x2029))
_SETS = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"t": 9, "n": 10, "f": 12, "r": 13, "a": 7, "e": 27}
_ANY = rf"[\x{{0}}-\x{{{_LAST:X}}}]"
_LINE_END = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"

_FLAGS = re.compile(r"\(\?([is]{1,2})\)")
_GROUP = re.compile(r"\((\?:|\?<[A-Za-z][A-Za-z0-9]*>)?(?!\?)")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(\d+)(?:,(\d*))?\})\??")
_CODE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|x\{([0-9A-Fa-f]{1,6})\})")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)


class UntranslatableError(Exception):
    """RE2 may find other texts than Java. The text names the part."""


def to_re2(pattern: str) -> str:
    r"""Return a pattern of RE2 that is found where Java finds *pattern*.

    Groups and laziness are lost: where the match lies, and what a group has, may differ.

    Raises:
        UntranslatableError: a part of *pattern* may differ.
    """
    return _Parser(_without_quotes(pattern)).whole()


def like_to_re2(pattern: str, escape: str = "\\") -> str:
    r"""Return a pattern of RE2 for a ``LIKE``, whose whole text it must match.

    Raises:
        UntranslatableError: *escape* is before a character that it need not escape.
    """
    parts = [r"\A"]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            character = next(characters, "")  # noqa: PLW2901 - the escaped one
            if character not in ("%", "_", escape) or not character:
                raise UntranslatableError(f"the escape {escape} before {character or 'the end'}")
            parts.append(_letter(character))
        elif character == "%":
            parts.append(f"{_ANY}*")
        elif character == "_":
            parts.append(_ANY)
        else:
            parts.append(_letter(character))
    parts.append(r"\z")
    return "".join(parts)


def is_plain_text(pattern: str) -> bool:
    """Return whether *pattern* has no sign of a regular expression, so that it finds itself."""
    return re.search(r"[\\^$.|?*+()\[\]{}]", pattern) is None


@dataclass(frozen=True, slots=True)
class _Part:
    """A translated part, and whether it can match a carriage return.

    Attributes:
        ends_lines: it repeats without an upper bound whatever a line can end with, so that a match
            which ends between CR and LF can always be one longer.
    """

    text: str
    takes_return: bool
    ends_lines: bool = False


def _takes_return(parts: Iterable[_Part]) -> bool:
    return any(part.takes_return for part in parts)


class _Parser:
    """Reads a pattern from its beginning to its end, by recursive descent."""

    def __init__(self, pattern: str) -> None:
        flags = _FLAGS.match(pattern)
        self._pattern = pattern
        self._at = flags.end() if flags else 0
        self._ignores_case = flags is not None and "i" in flags[1]
        self._dot_is_all = flags is not None and "s" in flags[1]

    def whole(self) -> str:
        part = self._alternation(depth=0)
        if self._at < len(self._pattern):
            raise UntranslatableError("a bracket that is not open")
        return part.text

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _alternation(self, depth: int) -> _Part:
        branches = [self._branch(depth)]
        while self._next() == "|":
            self._at += 1
            branches.append(self._branch(depth))
        text = "|".join(branch.text for branch in branches)
        return _Part(text, _takes_return(branches))

    def _branch(self, depth: int) -> _Part:
        parts: list[_Part] = []
        while (sign := self._next()) not in ("", "|", ")"):
            if sign == "$":
                parts.append(self._end(parts, depth))
            elif sign == "^":
                self._at += 1
                self._refuse_quantifier()
                parts.append(_Part(r"\A", takes_return=False))
            else:
                parts.append(self._quantified(depth))
        text = "".join(part.text for part in parts)
        return _Part(text, _takes_return(parts))

    def _end(self, before: list[_Part], depth: int) -> _Part:
        """Translate ``$``: the end, or before the last end of a line, but not within CR LF."""
        self._at += 1
        if depth or self._next() not in ("", "|"):
            raise UntranslatableError("$ before the end of the pattern")
        is_certain = before and before[-1].ends_lines
        if not is_certain and _takes_return(before):
            raise UntranslatableError("$ behind what can match a carriage return")
        return _Part(_LINE_END, takes_return=True)

    def _refuse_quantifier(self) -> None:
        if self._next() in ("*", "+", "?", "{"):
            raise UntranslatableError(f"{self._next()} behind an anchor or a repetition")

    def _quantified(self, depth: int) -> _Part:
        ranges: Ranges = ()
        if self._next() == "(":
            part = self._group(depth)
        else:
            ranges = self._characters()
            part = _Part(_class(ranges), takes_return=_has(ranges, 13))

        quantifier = _QUANTIFIER.match(self._pattern, self._at)
        if quantifier is None:
            self._refuse_quantifier()
            return part

        self._at = quantifier.end()
        self._refuse_quantifier()
        bounds = list(map(int, filter(None, quantifier.groups())))
        if bounds != sorted(bounds) or max(bounds, default=0) > _MOST_REPETITIONS:
            raise UntranslatableError(f"{quantifier[0]}")

        is_unbounded = quantifier[0].startswith(("*", "+")) or quantifier[2] == ""
        ends_lines = is_unbounded and _has(ranges, 10) and _has(ranges, 13)
        return _Part(f"{part.text}{quantifier[0]}", part.takes_return, ends_lines)

    def _group(self, depth: int) -> _Part:
        start = _GROUP.match(self._pattern, self._at)
        if start is None:
            raise UntranslatableError("a group with (?")
        self._at = start.end()
        inner = self._alternation(depth + 1)
        if self._next() != ")":
            raise UntranslatableError("a bracket that is not closed")
        self._at += 1
        return _Part(f"(?:{inner.text})", inner.takes_return)

    def _characters(self) -> Ranges:
        """Read one character, or the sign of a set of them."""
        sign = self._next()
        if sign == "[":
            return self._class()
        if sign == ".":
            self._at += 1
            return ((0, _LAST),) if self._dot_is_all else _complement(_LINE_ENDS)
        if sign == "\\":
            return self._folded(self._escaped())
        if sign in ("*", "+", "?", "{"):
            raise UntranslatableError(f"{sign} without anything before it")
        self._at += 1
        return self._folded(((ord(sign), ord(sign)),))

    def _escaped(self) -> Ranges:
        code = _CODE.match(self._pattern, self._at)
        if code is not None:
            self._at = code.end()
            number = int(next(filter(None, code.groups())), 16)
            if number > _LAST or number in _SURROGATES:
                raise UntranslatableError(f"{code[0]}")
            return ((number, number),)

        sign = self._pattern[self._at + 1 : self._at + 2]
        self._at += 2
        if sign.lower() in _SETS:
            ranges = _SETS[sign.lower()]
            return ranges if sign.islower() else _complement(ranges)
        if sign in _CONTROLS:
            return ((_CONTROLS[sign], _CONTROLS[sign]),)
        if not sign or (sign.isascii() and sign.isalnum()):
            raise UntranslatableError(f"\\{sign}")
        return ((ord(sign), ord(sign)),)

    def _class(self) -> Ranges:
        self._at += 1
        is_negated = self._next() == "^"
        if is_negated:
            self._at += 1
        ranges: list[tuple[int, int]] = []
        while self._next() != "]":
            ranges += self._class_item()
        self._at += 1
        if not ranges:
            raise UntranslatableError("an empty class")
        folded = self._folded(tuple(ranges))
        return _complement(folded) if is_negated else folded

    def _class_item(self) -> Ranges:
        """Read a character of a class, a sign of a set of them, or a range such as ``a-z``."""
        first = self._class_character()
        if self._next() != "-" or self._pattern[self._at + 1 : self._at + 2] == "]":
            return first

        self._at += 1
        last = self._class_character()
        least = _single(first)
        most = _single(last)
        if least is None or most is None or least > most:
            raise UntranslatableError("a - in a class")
        if least < _SURROGATES.stop and most >= _SURROGATES.start:
            # Java compares halves of characters above U+FFFF with it.
            raise UntranslatableError("a range over U+D800")
        return ((least, most),)

    def _class_character(self) -> Ranges:
        sign = self._next()
        if sign in ("", "[", "&", "^"):
            raise UntranslatableError(f"{sign or 'a class that is not closed'} in a class")
        if sign == "\\":
            return self._escaped()
        self._at += 1
        return ((ord(sign), ord(sign)),)

    def _folded(self, ranges: Ranges) -> Ranges:
        """Add the other case of letters, of ASCII alone, as Java does."""
        if not self._ignores_case:
            return ranges
        others: list[tuple[int, int]] = []
        for least, most in ranges:
            for first, last, shift in ((65, 90, 32), (97, 122, -32)):
                low = max(least, first)
                high = min(most, last)
                if low <= high:
                    others.append((low + shift, high + shift))
        return (*ranges, *others)


def _without_quotes(pattern: str) -> str:
    r"""Write the text between ``\Q`` and ``\E`` with an escape before each sign."""

    def escaped(part: re.Match[str]) -> str:
        return part[0] if part[1] is None else re.sub(r"([^A-Za-z0-9])", r"\\\1", part[1])

    return _QUOTED.sub(escaped, pattern)


def _has(ranges: Ranges, code: int) -> bool:
    return any(least <= code <= most for least, most in ranges)


def _single(ranges: Ranges) -> int | None:
    """Return the only character of *ranges*; None if there are more."""
    if len(ranges) != 1:
        return None
    least, most = ranges[0]
    return least if least == most else None


def _complement(ranges: Ranges) -> Ranges:
    others: list[tuple[int, int]] = []
    start = 0
    for least, most in sorted(ranges):
        if start < least:
            others.append((start, least - 1))
        start = max(start, most + 1)
    if start <= _LAST:
        others.append((start, _LAST))
    return tuple(others)


def _class(ranges: Ranges) -> str:
    if not ranges:
        raise UntranslatableError("a class without any character")
    single = _single(ranges)
    if single is not None:
        return _letter(chr(single))

    merged = _complement(_complement(ranges))
    return f"[{''.join(starmap(_range, merged))}]"


def _range(least: int, most: int) -> str:
    first = _letter(chr(least))
    return first if least == most else f"{first}-{_letter(chr(most))}"


def _letter(character: str) -> str:
    is_plain = character.isascii() and character.isalnum()
    return character if is_plain else rf"\x{{{ord(character):X}}}"
