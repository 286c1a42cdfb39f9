"""Functions of Spark SQL in Python, for an engine that lacks them or gives something else. Pure.

A test compares each with Spark over the same values. Where Spark's result depends on its version of
Java or Unicode, they raise ``NeedsSparkError``.

Spark reads JSON with Jackson: the first value of a text counts and what stands behind it does not,
an object may have a key twice, and quotes may be single.
"""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from json.encoder import ESCAPE_DCT
from typing import Any, NamedTuple

_INTEGER = re.compile(r"(?P<sign>[+-]?)(?=[0-9])0*(?P<size>[0-9]*)")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?P<suffix>[fFdD]?)")
_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F.]+[pP][+-]?[0-9]+[fFdD]?")
_SPECIAL_DOUBLES = {
    **dict.fromkeys(("nan", "+nan"), math.nan),
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")
_CONTROLS_AND_BLANK = "".join(map(chr, range(33)))

_MOST_DEPTH = 300
_MOST_DIGITS = 900
_MOST_KEY_CHARACTERS = 45_000
"""Below the limits of Jackson, which are 1,000, 1,000 and 50,000, and of Python's stack."""

_EXACT_DIGITS = 15
_LEAST_EXACT = 1e-3
_MOST_EXACT = 1e15
"""Java 17 does not always write a double in its shortest form. Within these bounds it does."""

_NEW_UPPER_CASE = frozenset("\u019b\u0264")
"""Letters that older versions of Python leave as they are, and Spark does not."""

_DECIMAL_DIGITS = 38
_WHITESPACE = " \t\n\r"


class NeedsSparkError(Exception):
    """The result for this value is Spark's own. The text says of what; it quotes no value."""


def to_integer(text: str | None, least: int, most: int) -> int | None:
    """Return what ``try_cast`` to a whole number gives for *text*."""
    if text is None:
        return None
    digits = text.strip(f"{_CONTROLS_AND_BLANK}\x7f")
    whole = _INTEGER.fullmatch(digits)
    if whole is None or len(whole["size"]) > _DECIMAL_DIGITS:
        return None
    number = int(f"{whole['sign']}{whole['size'] or 0}")
    return number if least <= number <= most else None


def to_double(text: str | None) -> float | None:
    """Return what ``try_cast(text AS DOUBLE)`` gives."""
    if text is None:
        return None
    digits = text.strip(_CONTROLS_AND_BLANK)
    if digits.lower() in _SPECIAL_DOUBLES:
        return _SPECIAL_DOUBLES[digits.lower()]
    if _HEXADECIMAL.fullmatch(digits):
        raise NeedsSparkError("a hexadecimal text as a DOUBLE")
    number = _DOUBLE.fullmatch(digits)
    return float(digits.removesuffix(number["suffix"])) if number else None


def to_boolean(text: str | None) -> bool | None:
    """Return what ``try_cast(text AS BOOLEAN)`` gives."""
    if text is None:
        return None
    word = text.strip(f"{_CONTROLS_AND_BLANK}\x7f").lower()
    if word in _TRUE:
        return True
    return False if word in _FALSE else None


def double_text(number: float | None) -> str | None:  # noqa: PLR0911 - a table
    """Return what Java writes for *number*."""
    if number is None:
        return None
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    sign = "-" if math.copysign(1, number) < 0 else ""
    size = abs(number)
    if size == 0:
        return f"{sign}0.0"
    _, digits_of, exponent = Decimal(repr(size)).normalize().as_tuple()
    digits = "".join(map(str, digits_of))
    if len(digits) > _EXACT_DIGITS or not _LEAST_EXACT <= size < _MOST_EXACT:
        raise NeedsSparkError("the text of a number with many digits, or a very large or small one")
    point = len(digits) + int(exponent)
    if point > 7:  # noqa: PLR2004 - from here on Java writes 1.0E7
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return f"{sign}{digits.ljust(point, '0')}.0"
    return f"{sign}{digits[:point]}.{digits[point:]}"


def lower(text: str | None) -> str | None:
    """Return *text* in lower case, in any script."""
    return None if text is None else _known(text).lower()


def upper(text: str | None) -> str | None:
    """Return *text* in upper case, in any script."""
    if text is None:
        return None
    if not _NEW_UPPER_CASE.isdisjoint(text):
        raise NeedsSparkError("a letter that has an upper case since Unicode 16 only")
    return _known(text).upper()


def _known(text: str) -> str:
    if not text.isascii() and any(unicodedata.category(one) == "Cn" for one in set(text)):
        raise NeedsSparkError("the case of a character that this version of Python does not know")
    return text


class JsonPath(NamedTuple):
    """The steps of a path: a name, or a position in an array."""

    steps: tuple[str | int, ...]


_STEP = re.compile(
    r"\.(?P<name>[^.\[\s][^.\[]*)|\['(?P<key>[^'?\s][^'?]*)'\]|\[(?P<index>[0-9]{1,9})\]"
)


def json_path(text: str) -> JsonPath | None:
    """Return the steps of *text*; None if it has wildcards, or is not plainly a path."""
    if not text.startswith("$"):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            return None
        at = step.end()
        if step["index"] is not None:
            steps.append(int(step["index"]))
            continue
        name = step["name"] or step["key"]
        if "*" in name:
            return None
        steps.append(name)
    return JsonPath(tuple(steps))


class _Number(NamedTuple):
    """A number as it stands in the text; ``is_whole`` where it has no point and no exponent."""

    text: str
    is_whole: bool


class _Object(NamedTuple):
    """The keys and values of an object, in their order, each as often as it is there."""

    pairs: list[tuple[str, Any]]


def get_json_object(text: str | None, path: JsonPath) -> str | None:
    """Return what is at *path*, as text: a string without quotes, the rest as compact JSON."""
    if text is None or (value := _parsed(text)) is None:
        return None
    found, is_found = _at(value[0], path.steps, finds_null=False)
    if not is_found:
        return None
    if isinstance(found, str):
        return None if _has_half_character(found) else found
    return _written(found)


def json_array_length(text: str | None) -> int | None:
    """Return the number of elements of an array; None for everything else."""
    value = None if text is None else _parsed(text)
    return len(value[0]) if value and isinstance(value[0], list) else None


def json_object_keys(text: str | None) -> list[str] | None:
    """Return the keys of an object, each as often as it is there; None for everything else."""
    value = None if text is None else _parsed(text)
    if not value or not isinstance(value[0], _Object):
        return None
    return [_whole_characters(key) for key, _ in value[0].pairs]


def array_of_texts(text: str | None) -> list[str | None] | None:
    """Return what ``from_json(text, 'array<string>')`` gives."""
    if text is None:
        return None
    value = _parsed(text, allows_controls=False)
    if value is None:
        if re.search("NaN|INF|Infinity", text):
            raise NeedsSparkError("from_json of a text with NaN or Infinity")
        return None
    if not isinstance(value[0], list):
        return None
    return [
        None if one is None else _whole_characters(one) if isinstance(one, str) else _written(one)
        for one in value[0]
    ]


def variant_type(text: str | None, path: JsonPath) -> str | None:  # noqa: PLR0911 - a table
    """Return the first word of the type that ``schema_of_variant`` names for what is at *path*."""
    value = None if text is None else _parsed(text, allows_controls=False, is_lenient=False)
    if not value or _has_key_twice(value[0]):
        return None
    found, is_found = _at(value[0], path.steps, finds_null=True)
    if not is_found:
        return None
    match found:
        case None:
            return "VOID"
        case bool():
            return "BOOLEAN"
        case str():
            return "STRING"
        case _Object():
            return "OBJECT"
        case _Number():
            return _type_of_number(found)
    return "ARRAY"


def _type_of_number(number: _Number) -> str:
    if number.is_whole and -(2**63) <= int(number.text) < 2**63:
        return "BIGINT"
    if "e" in number.text.lower():
        return "DOUBLE"
    _, digits, exponent = Decimal(number.text).as_tuple()
    places = -int(exponent)
    significant = len("".join(map(str, digits)).lstrip("0"))
    is_decimal = significant <= _DECIMAL_DIGITS and places <= _DECIMAL_DIGITS
    return "DECIMAL" if is_decimal else "DOUBLE"


def _at(value: object, steps: Sequence[str | int], *, finds_null: bool) -> tuple[object, bool]:
    """Return what is at these steps, and whether anything is.

    Where a key is there twice, the first counts below which the other steps lead to something.
    *finds_null* says whether a null behind a key is something.
    """
    if not steps:
        return value, True
    step, *rest = steps
    if isinstance(step, int):
        if isinstance(value, list) and step < len(value):
            return _at(value[step], rest, finds_null=finds_null)
        return None, False
    if isinstance(value, _Object):
        for key, inner in value.pairs:
            if key != step or (inner is None and not finds_null):
                continue
            found, is_found = _at(inner, rest, finds_null=finds_null)
            if is_found:
                return found, True
    return None, False


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _number_of(*, is_whole: bool) -> Callable[[str], _Number]:
    def number(text: str) -> _Number:
        if len(text) > _MOST_DIGITS:
            raise NeedsSparkError("a number in JSON with more than 900 digits")
        return _Number(text, is_whole)

    return number


def _decoder(*, strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_Object,
        parse_int=_number_of(is_whole=True),
        parse_float=_number_of(is_whole=False),
        parse_constant=_refuse_constant,
        strict=strict,
    )


_STRICT = _decoder(strict=True)
_LENIENT = _decoder(strict=False)


@lru_cache(maxsize=4)
def _parsed(
    text: str, *, allows_controls: bool = True, is_lenient: bool = True
) -> tuple[object] | None:
    """Return the first value in *text*; None if there is none.

    *is_lenient* allows single quotes.
    """
    decoder = _LENIENT if allows_controls else _STRICT
    value = _first_value(decoder, text)
    if value is None and is_lenient and "'" in text:
        value = _first_value(decoder, _with_double_quotes(text))
    if value is not None:
        _refuse_extremes(value[0])
    return value


def forget_values() -> None:
    """Let go of the texts that were parsed last."""
    _parsed.cache_clear()


def _first_value(decoder: json.JSONDecoder, text: str) -> tuple[object] | None:
    start = len(text) - len(text.lstrip(_WHITESPACE))
    try:
        value, end = decoder.raw_decode(text, start)
    except ValueError:
        return None
    except RecursionError:
        raise NeedsSparkError("JSON that is nested deeply") from None
    is_word = not isinstance(value, list | _Object | str)
    if is_word and text[end : end + 1] not in ("", *_WHITESPACE):
        return None
    return (value,)


_QUOTED = re.compile(
    r"""(?P<double>"(?:[^"\\]|\\.)*")|'(?P<single>(?:[^'\\]|\\.)*)'|["'].*""", re.DOTALL
)


def _with_double_quotes(text: str) -> str:
    """Replace single quotes around strings; drop what stands behind a quote that is not closed."""

    def replaced(part: re.Match[str]) -> str:
        if part["double"] is not None:
            return re.sub(r"\\(.)", _without_needless_escape, part["double"], flags=re.DOTALL)
        if part["single"] is None:
            return ""
        inner = re.sub(r"\\(.)", _without_needless_escape, part["single"], flags=re.DOTALL)
        return f'"{_escaped_quotes(inner)}"'

    return _QUOTED.sub(replaced, text)


def _without_needless_escape(escape: re.Match[str]) -> str:
    return "'" if escape[1] == "'" else escape[0]


def _escaped_quotes(text: str) -> str:
    return re.sub(
        r'\\.|"', lambda part: part[0] if part[0] != '"' else '\\"', text, flags=re.DOTALL
    )


def _refuse_extremes(value: object) -> None:
    level = [value]
    for _ in range(_MOST_DEPTH):
        inner: list[object] = []
        for one in level:
            if isinstance(one, _Object):
                if any(len(key) > _MOST_KEY_CHARACTERS for key, _ in one.pairs):
                    raise NeedsSparkError("JSON with a very long key")
                inner += [held for _, held in one.pairs]
            elif isinstance(one, list):
                inner += one
        if not inner:
            return
        level = inner
    raise NeedsSparkError("JSON that is nested deeply")


def _has_key_twice(value: object) -> bool:
    level = [value]
    while level:
        inner: list[object] = []
        for one in level:
            if isinstance(one, _Object):
                if len({key for key, _ in one.pairs}) < len(one.pairs):
                    return True
                inner += [held for _, held in one.pairs]
            elif isinstance(one, list):
                inner += one
        level = inner
    return False


def _written(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{"".join(map(_escape, value))}"' if _needs_escape(value) else f'"{value}"'
        case _Number():
            return _number_text(value)
        case _Object():
            pairs = (f"{_written(key)}:{_written(held)}" for key, held in value.pairs)
            return f"{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(map(_written, value))}]"
    raise AssertionError(type(value))


def _number_text(number: _Number) -> str:
    if number.is_whole:
        return "0" if number.text == "-0" else number.text
    double = float(number.text)
    if math.isinf(double):
        raise NeedsSparkError("a number in JSON that is too large for a double")
    return str(double_text(double))


_ESCAPED = re.compile(r'[\x00-\x1f"\\\ud800-\udfff\U00010000-\U0010ffff]')


def _needs_escape(text: str) -> bool:
    return _ESCAPED.search(text) is not None


def _escape(character: str) -> str:
    """Write a character as Jackson does: one above U+FFFF as its two halves."""
    code = ord(character)
    if character in '"\\\b\f\n\r\t':
        return ESCAPE_DCT[character]
    if code < 0x20 or 0xD800 <= code < 0xE000:  # noqa: PLR2004 - controls, halves of characters
        return f"\\u{code:04X}"
    if code > 0xFFFF:  # noqa: PLR2004 - the last of one half
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"
    return character


def _has_half_character(text: str) -> bool:
    return re.search("[\ud800-\udfff]", text) is not None


def _whole_characters(text: str) -> str:
    if _has_half_character(text):
        raise NeedsSparkError("a string in JSON with half a character")
    return text
