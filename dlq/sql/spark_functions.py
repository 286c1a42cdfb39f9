"""Functions of Spark SQL in Python, for an engine that lacks them or gives something else. Pure.

A test compares each with Spark over the same values. Where Spark's result depends on its version of
Java or Unicode, they raise ``NeedsSparkError``.

Spark reads JSON with Jackson: the first value of a text counts and the text behind it does not, an
object may have a key twice, and quotes may be single.
"""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
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
    """Return the result of ``try_cast`` of *text* to a whole number."""
    if text is None:
        return None
    digits = text.strip(f"{_CONTROLS_AND_BLANK}\x7f")
    whole = _INTEGER.fullmatch(digits)
    if whole is None or len(whole["size"]) > _DECIMAL_DIGITS:
        return None
    number = int(f"{whole['sign']}{whole['size'] or 0}")
    return number if least <= number <= most else None


def to_double(text: str | None) -> float | None:
    """Return the result of ``try_cast(text AS DOUBLE)``."""
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
    """Return the result of ``try_cast(text AS BOOLEAN)``."""
    if text is None:
        return None
    name = text.strip(f"{_CONTROLS_AND_BLANK}\x7f").lower()
    if name in _TRUE:
        return True
    return False if name in _FALSE else None


def double_text(number: float | None) -> str | None:  # noqa: PLR0911 - a table
    """Return the text of *number* as Java writes it."""
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

    decimal = Decimal(repr(size)).normalize().as_tuple()
    digits = "".join(map(str, decimal.digits))
    if len(digits) > _EXACT_DIGITS or not _LEAST_EXACT <= size < _MOST_EXACT:
        raise NeedsSparkError("the text of a number with many digits, or a very large or small one")

    point = len(digits) + int(decimal.exponent)
    if point > 7:  # noqa: PLR2004 - from here on Java writes 1.0E7
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return f"{sign}{digits.ljust(point, '0')}.0"
    return f"{sign}{digits[:point]}.{digits[point:]}"


def lower(text: str | None) -> str | None:
    """Return *text* in lower case, in any script."""
    if text is None:
        return None
    _require_known_characters(text)
    return text.lower()


def upper(text: str | None) -> str | None:
    """Return *text* in upper case, in any script."""
    if text is None:
        return None
    if not _NEW_UPPER_CASE.isdisjoint(text):
        raise NeedsSparkError("a letter that has an upper case since Unicode 16 only")
    _require_known_characters(text)
    return text.upper()


def _require_known_characters(text: str) -> None:
    if text.isascii():
        return
    if "Cn" in map(unicodedata.category, set(text)):
        raise NeedsSparkError("the case of a character that this version of Python does not know")


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
    position = 1
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            return None
        position = step.end()
        if step["index"] is not None:
            steps.append(int(step["index"]))
            continue
        name = step["name"] or step["key"]
        if "*" in name:
            return None
        steps.append(name)
    return JsonPath(tuple(steps))


class _Number(NamedTuple):
    """A number as the text has it; ``is_whole`` if it has no point and no exponent."""

    text: str
    is_whole: bool


class _Object(NamedTuple):
    """The keys and values of an object, in their order, each as often as it is there."""

    pairs: list[tuple[str, Any]]


def get_json_object(text: str | None, path: JsonPath) -> str | None:
    """Return the value at *path*, as text: a string without quotes, the rest as compact JSON."""
    parsed = None if text is None else _parsed(text)
    if parsed is None:
        return None

    value, is_there = _at(parsed[0], path.steps, finds_null=False)
    if not is_there:
        return None
    if isinstance(value, str):
        return None if _has_half_character(value) else value
    return _written(value)


def json_array_length(text: str | None) -> int | None:
    """Return the number of elements of an array; None for everything else."""
    parsed = None if text is None else _parsed(text)
    return len(parsed[0]) if parsed and isinstance(parsed[0], list) else None


def json_object_keys(text: str | None) -> list[str] | None:
    """Return the keys of an object, each as often as it is there; None for everything else."""
    parsed = None if text is None else _parsed(text)
    if not parsed or not isinstance(parsed[0], _Object):
        return None
    return [_whole_characters(key) for key, _ in parsed[0].pairs]


def array_of_texts(text: str | None) -> list[str | None] | None:
    """Return the result of ``from_json(text, 'array<string>')``."""
    if text is None:
        return None

    parsed = _parsed(text, allows_controls=False)
    if parsed is None:
        if re.search("NaN|INF|Infinity", text):
            raise NeedsSparkError("from_json of a text with NaN or Infinity")
        return None

    if not isinstance(parsed[0], list):
        return None
    return list(map(_text_of_element, parsed[0]))


def _text_of_element(element: object) -> str | None:
    if element is None:
        return None
    return _whole_characters(element) if isinstance(element, str) else _written(element)


def variant_type(text: str | None, path: JsonPath) -> str | None:  # noqa: PLR0911 - a table
    """Return the first word of the type that ``schema_of_variant`` names for what is at *path*."""
    parsed = None if text is None else _parsed(text, allows_controls=False, is_lenient=False)
    if not parsed or _has_key_twice(parsed[0]):
        return None
    value, is_there = _at(parsed[0], path.steps, finds_null=True)
    if not is_there:
        return None

    match value:
        case None:
            return "VOID"
        case bool():
            return "BOOLEAN"
        case str():
            return "STRING"
        case _Object():
            return "OBJECT"
        case _Number():
            return _type_of_number(value)
    return "ARRAY"


def _type_of_number(number: _Number) -> str:
    if number.is_whole and -(2**63) <= int(number.text) < 2**63:
        return "BIGINT"
    if "e" in number.text.lower():
        return "DOUBLE"

    decimal = Decimal(number.text).as_tuple()
    places = -int(decimal.exponent)
    significant_digits = "".join(map(str, decimal.digits)).lstrip("0")
    is_decimal = len(significant_digits) <= _DECIMAL_DIGITS and places <= _DECIMAL_DIGITS
    return "DECIMAL" if is_decimal else "DOUBLE"


def _at(value: object, steps: Sequence[str | int], *, finds_null: bool) -> tuple[object, bool]:
    """Return the value at these steps, and whether there is one.

    Where an object has a key twice, the first counts below which the other steps lead to a value.
    *finds_null* says whether a null behind a key is a value.
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
            inner_value, is_there = _at(inner, rest, finds_null=finds_null)
            if is_there:
                return inner_value, True
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
    is_bare = not isinstance(value, list | _Object | str)
    if is_bare and text[end : end + 1] not in ("", *_WHITESPACE):
        return None
    return (value,)


_QUOTED = re.compile(
    r"""(?P<double>"(?:[^"\\]|\\.)*")|'(?P<single>(?:[^'\\]|\\.)*)'|["'].*""", re.DOTALL
)


def _with_double_quotes(text: str) -> str:
    """Replace single quotes around strings; drop the text from a quote that is not closed."""

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
    for depth, level in enumerate(_levels(value)):
        if depth == _MOST_DEPTH:
            raise NeedsSparkError("JSON that is nested deeply")
        for inner in level:
            if isinstance(inner, _Object):
                lengths = [len(key) for key, _ in inner.pairs]
                if max(lengths, default=0) > _MOST_KEY_CHARACTERS:
                    raise NeedsSparkError("JSON with a very long key")


def _has_key_twice(value: object) -> bool:
    for level in _levels(value):
        for inner in level:
            if isinstance(inner, _Object) and len(dict(inner.pairs)) < len(inner.pairs):
                return True
    return False


def _levels(value: object) -> Iterator[list[object]]:
    """Yield the value alone, then the values in it, then those in these, and so on."""
    level = [value]
    while level:
        yield level
        inner: list[object] = []
        for container in level:
            if isinstance(container, _Object):
                inner += [member for _, member in container.pairs]
            elif isinstance(container, list):
                inner += container
        level = inner


def _written(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            text = "".join(map(_escape, value)) if _needs_escape(value) else value
            return f'"{text}"'
        case _Number():
            return _number_text(value)
        case _Object():
            pairs = [f"{_written(key)}:{_written(member)}" for key, member in value.pairs]
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
