"""The place in a consumer's code where it failed: function and file, without the line. Pure.

A place belongs to the identity of a failure where its text names little: a bare
``NullPointerException`` is many bugs. A line number changes with each release, and is left out.
"""

import re

from dlq_replay.text.numbers import WITH_DIGITS, replaced
from dlq_replay.text.words import is_of_failure, words_of

PLACE_CHARACTERS = 100

_OF_RUNTIMES = frozenset(
    """
    NullPointerException IndexOutOfBoundsException ArrayIndexOutOfBoundsException
    StringIndexOutOfBoundsException ClassCastException ArithmeticException
    NegativeArraySizeException ArrayStoreException ConcurrentModificationException
    NoSuchElementException NumberFormatException StackOverflowError OutOfMemoryError
    AttributeError IndexError TypeError UnboundLocalError ZeroDivisionError RecursionError
    MemoryError ReferenceError RangeError
    NullReferenceException IndexOutOfRangeException InvalidCastException DivideByZeroException
    OverflowException KeyNotFoundException
    NoMethodError NameError FrozenError SystemStackError
    KotlinNullPointerException UninitializedPropertyAccessException MatchError panic
    """.split()  # noqa: SIM905 - a list would take a line for each
)
"""Types whose texts a runtime makes: a mistake of the programmer, wherever it is."""

_JAVA = re.compile(r"([\w$.<>/@-]{1,255})\([\w$. -]{0,128}(?::\d{1,7})?\)")
_JAVASCRIPT = re.compile(
    r"(?:(?:async |new )*([\w$.<>#\[\] ]{1,128}?) )?\(?((?:file://|webpack:)?[^\s()]{1,255}?)"
    r":\d{1,7}:\d{1,7}\)?"
)
_DOTNET = re.compile(r"([\w.<>`+\[\],]{1,255})\([^)]{0,512}\)(?: in .{0,512})?")
_PYTHON = re.compile(r"\"([^\"]{1,512})\", line \d{1,7}(?:, in (\S{1,128}))?")
_RECORDED = re.compile(r"(.{1,512}?):\d{1,7} in (\S{1,128})")
_RUBY = re.compile(r"([^\s:]{1,512}\.rb):\d{1,7}:in [`'\"](.{1,128}?)['\"]")
_FILE = re.compile(r"([^\s:]{1,512}):\d{1,7}(?: .{0,64})?")
_MADE = re.compile(r"\$+(?:Lambda)?\$*\d{1,9}(?:/0x[0-9a-f]{1,16})?|`\d{1,3}(?:\[[^\]]{0,128}\])?")
"""Text that a compiler adds to a name: a number of a lambda, of a nameless class, of types."""

_SEPARATORS = re.compile(r"[\s=:,;()\[\]{}|\"'\\]+|[^!-~]+")


def names_little(error_type: str, text: str) -> bool:
    """Return whether type and text, as ``mask_error`` left it, may be those of many failures.

    The text has no word that is not in the type, or words of failures alone; or a runtime makes it.
    """
    name = re.split(r"[.:\\/]", error_type)[-1]
    if name in _OF_RUNTIMES:
        return True
    without_masks = re.sub(r"<[a-z]{1,5}>", " ", text)
    words = set(map(str.lower, re.findall(r"[^\W\d_]+", without_masks)))
    return words.issubset(words_of(name)) or is_of_failure(without_masks)


def place_of(frames: str) -> str:
    """Return the place of the first of these lines, the innermost frame; empty if there is none.

    Frames are those of Python, as recorded or printed, Java, JavaScript, .NET, Go and Ruby. A place
    is one word of up to 100 printable ASCII characters: ``com.shop.Tax#rate``,
    ``orders/tax.py#rate``.
    """
    line = _MADE.sub("", frames.partition("\n")[0].strip().removeprefix("at "))
    if not line:
        return ""
    if (java := _JAVA.fullmatch(line)) or (java := _DOTNET.fullmatch(line)):
        owner, _, function = java[1].rpartition("/")[2].rpartition(".")
        return _word(f"{owner}#{function}" if owner else f"#{function}")
    if script := _JAVASCRIPT.fullmatch(line):
        function = (script[1] or "").partition(" [as ")[0]
        return _word(f"{_short(script[2])}#{function}")
    for pattern in (_PYTHON, _RUBY, _RECORDED, _FILE):
        if frame := pattern.fullmatch(line):
            function = frame[2] if pattern.groups > 1 else ""
            return _word(f"{_short(frame[1])}#{function or ''}")
    return _word(line)


def _short(path: str) -> str:
    """Return the file with its folder, without what differs between builds."""
    parts = re.split(r"[\\/]", path)
    return WITH_DIGITS.sub(replaced, "/".join(filter(None, parts[-2:])))


def _word(place: str) -> str:
    plain = _SEPARATORS.sub("_", place).strip("_")
    return plain.removesuffix("#")[-PLACE_CHARACTERS:]
