"""Replace what differs between occurrences of one failure, and keep what names it. Pure.

Replaced are times, ids, numbers with their units, addresses, paths, and texts between quotation
marks. A list of such things is one of them, however long it is. Kept is what names the failure:
``numbers`` says which numbers and which words with digits, ``quotations`` which quoted texts. Of
XML and of the query of a URL the values stay whose names say that they name a failure.

Letters of all scripts are letters; ids are of Latin letters and digits.
"""

import re
from collections.abc import Callable

from dlq_replay.text.masks import EMAIL, QUOTATION_MARKS, QUOTED
from dlq_replay.text.numbers import (
    DIGITS_AGAIN,
    KEPT_DIGITS,
    LATIN,
    NAMED_CODES,
    WITH_DIGITS,
    is_known_port,
    replaced,
)
from dlq_replay.text.quotations import names_failure_here
from dlq_replay.text.words import is_of_failure, names_failure

_Replacement = str | Callable[[re.Match[str]], str]
_Search = Callable[[str], re.Match[str] | None]
_Substitute = Callable[[_Replacement, str], str]

_READ_CHARACTERS = 4_000
_ERROR_CHARACTERS = 500
_DIGITS_OF_A_NAME = 2

_UUID = re.compile(
    r"(?i)(?<![0-9a-z_])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z_])", re.ASCII
)
_NETWORK_CARD = re.compile(
    r"(?i)(?<![0-9a-z_:.-])(?:[0-9a-f]{2}:){5,7}[0-9a-f]{2}(?![0-9a-z_:])", re.ASCII
)
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_CLOCK = (
    r"\d\d?:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
    r"(?:\s?(?:AM|PM|Z|GMT|UTC|[A-Z]{2,3}T|[+-]\d\d:?\d\d)(?![A-Za-z0-9_]))?"
)
_TIME = re.compile(
    rf"\d{{4}}[-/]\d\d[-/]\d\d(?:[T ]{_CLOCK})?"
    rf"|(?:{_DAY},?\s)?(?:\d\d?[ -]{_MONTH}[ -]\d{{4}}|{_MONTH}\s{{1,2}}\d\d?(?!\d)(?:, \d{{4}})?)"
    rf"(?:,?\s{_CLOCK})?(?:\s\d{{4}})?"
    rf"|(?<![\d:.]){_CLOCK}(?![\d:])"
)
_TIME_HINT = r"[0-9A-Z](?:[:/-][0-9]|\W[A-Z][a-z]{2}|[a-z]{2,8}\W{1,3}[0-9])"
_find_time = re.compile(_TIME_HINT).search
_OTHER_MONTH = (
    r"(?:Januar|Jänner|Februar|März|Mai|Juni|Juli|Oktober|Dezember"
    r"|janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre"
    r"|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
    r"|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre"
    r"|janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro)"
)
_DAY_OF_MONTH = re.compile(
    rf"(?<!\d)\d\d?\.?\s(?:de\s)?(?:{_MONTH}|{_OTHER_MONTH})(?:\s(?:de\s)?\d{{4}}|(?![{LATIN}]))"
    rf"(?:,?\s{_CLOCK})?"
)
_BARE_CLOCK = re.compile(r"[\d:.,]+")
_ISO_DURATION = re.compile(
    r"(?<!\w)P(?=T?\d)(?:\d{1,9}[YMWD]){0,4}(?:T(?:\d{1,9}(?:\.\d{1,9})?[HMS]){1,3})?(?!\w)",
    re.ASCII,
)
_NUMBERED_TEXT = re.compile(r"(\(\d{4}, )(?:\"([^\"]*)\"|'([^']*)')(?=\))")
"""The arguments of an error of MySQL: its number and its text, which is no quoted text."""

_ELEMENT = re.compile(
    r"<((?:[A-Za-z][\w-]{0,31}:)?([A-Za-z][\w.-]{0,63}))((?:\s[^<>]{0,255})?)>([^<>]{1,1000})(?=</)"
)
"""An element of XML that has only a text; its name, local name, attributes and text."""

_URL = re.compile(r"(?<=://)([^\s/?#'\"<>)\],;]{1,255})[/?#](?:<path>|[^\s'\"<>)\],;])*", re.ASCII)
_PARAMETER = re.compile(r"[?&#;]([\w.-]{1,64})=([A-Za-z][\w.-]{0,63})(?=[&#;]|$)", re.ASCII)
_HOST = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?P<port>:\d{1,5})?(?![\w.]*\w)"
    r"|(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])"
    r"|(?<![\w.@/-])(?=[\w.-]{0,200}\d)(?:[\w-]{1,63}\.){2,8}[a-z]{2,6}(?P<port_>:\d{1,5})?(?![\w(])"
    r"|(?<![\w.@/-])(?:[a-zA-Z][\w-]{0,62}\.){1,8}(?!(?:py|js|ts|go|rb|cs|rs|java|kt|php|sql|json"
    r"|ya?ml|xml|html?|tsx|jsx|mjs|cjs|cpp|conf|log|txt|erl|exs?|scala|swift|vue|lua):)[a-z]{2,8}"
    r"(?P<port__>:\d{2,5})(?!\w)",
    re.ASCII,
)
"""Addresses, and names of machines: those have digits, or a port."""

_HOSTS_NAME = re.compile(
    r"(?:<host>|(?<![\w.@/-])(?:[A-Za-z][\w-]{0,62}\.){1,8}[A-Za-z]{2,20})"
    r"\s?(?:\(<host>\)|\[<host>\]|/<host>|\(\))",
    re.ASCII,
)
_BASE64 = re.compile(
    r"(?<![\w+/.-])(?=[A-Za-z+/]*\d)(?=[A-Z\d+/]*[a-z])(?=[a-z\d+/]*[A-Z])[A-Za-z\d+/]{16,}"
    r"={0,2}(?![\w.])",
    re.ASCII,
)
_IN_PATH = rf"[{LATIN}0-9_.@%+~=:<>-]"
_PATH = re.compile(
    rf"(?<![{LATIN}0-9_./:<>-])(?:(?:[A-Za-z]:)?(?:[\\/]{_IN_PATH}{{1,255}}){{2,64}}[\\/]?"
    rf"|/[{LATIN}0-9_.@%+~=-]{{0,255}}\.[A-Za-z0-9_]{{1,16}}(?![{LATIN}0-9_])"
    rf"|[{LATIN}0-9_.-]{{1,64}}(?:/[{LATIN}0-9_.@-]{{1,255}}){{2,64}})"
)
_OTHER_DIGIT = re.compile(r"[^\D0-9]")

_ASIDE = re.compile(r" \((?:<(?:n|id|time)>[\s,;/:-]{0,3}){1,16}\)")
_RUN = re.compile(r"<(?:n|id)>(?:(?:[,;]? | ?[,;:/_.-] ?|,? (?:and|or|und|et|y|e) )<(?:n|id)>)+")
_NESTED_RUN = re.compile(r"(\[<n>\]|\(<n>\))(?:,? ?(?:\[<n>\]|\(<n>\)))+")
_ALIKE_RUN = re.compile(
    r"(?<![^\s,;\[({])([^\s,;\[\](){}<>]{0,24}<\w{1,5}>[^\s,;\[\](){}<>]{0,8})(?=[\s,;\])}]|$)"
    r"(?:(?:, ?|; ?| |,? (?:and|or|und|et|y|e) )\1(?=[\s,;\])}]|$))+"
)


def _time(match: re.Match[str]) -> str:
    """A clock alone may be a duration."""
    return "<n>" if _BARE_CLOCK.fullmatch(match[0]) else "<time>"


def _element(match: re.Match[str]) -> str:
    """Keep the text of an element whose name says that it names a failure."""
    name, local_name, attributes, content = match.groups()
    is_kept = (names_failure(local_name) and " " not in content.strip()) or is_of_failure(content)
    return f"<{name}{attributes}>{content.translate(KEPT_DIGITS) if is_kept else '<text>'}"


def _url(match: re.Match[str]) -> str:
    named: list[str] = []
    for name, value in _PARAMETER.findall(match[0]):
        if names_failure(name):
            kept_value = value.translate(KEPT_DIGITS)
            named.append(f"{name}={kept_value}")

    url = f"{match[1]}/<path>"
    return f"{url}?{'&'.join(named)}" if named else url


def _host(match: re.Match[str]) -> str:
    port = match["port"] or match["port_"] or match["port__"] or ""
    if not port:
        return "<host>"
    return f"<host>{port.translate(KEPT_DIGITS) if is_known_port(port[1:]) else ':<n>'}"


def _path(match: re.Match[str]) -> str:
    """Keep a pointer into a payload, of which a validator says what it must be."""
    is_pointer = match.string.startswith((" must ", " should ", " is required"), match.end())
    return match[0] if is_pointer else "<path>"


def _quoted(match: re.Match[str]) -> str:
    """Keep what names a failure; hide anything else between quotes, as names of people."""
    quoted = match[0]
    if is_of_failure(quoted):
        return quoted
    if not names_failure_here(match.string, match.start(), match.end()):
        return f"{quoted[0]}<text>{quoted[-1]}"
    is_whole = len(quoted) == len(match.string.strip())
    has_few_digits = sum(map(str.isdecimal, quoted)) <= _DIGITS_OF_A_NAME
    return quoted.translate(KEPT_DIGITS) if has_few_digits and not is_whole else quoted


def _ascii_digit(match: re.Match[str]) -> str:
    return str(int(match[0]))


def _kept(match: re.Match[str]) -> str:
    return match[0].translate(KEPT_DIGITS)


_Passes = tuple[tuple[_Search, _Substitute, _Replacement], ...]
"""Searches and their replacements, in this order. A text without a match of the first pattern needs
no search for the second, which takes longer."""


def _passes(*patterns: tuple[str, re.Pattern[str], _Replacement]) -> _Passes:
    """Return passes of patterns, each with one that is quickly searched."""
    passes: list[tuple[_Search, _Substitute, _Replacement]] = []
    for hint, pattern, replacement in patterns:
        passes.append((re.compile(hint).search, pattern.sub, replacement))
    return tuple(passes)


_find_digit = re.compile("[0-9]").search
_find_punctuation = re.compile(r"[-:/\\@=+.<(\[]").search
_STRUCTURE = _passes(
    (r'\\"', re.compile(r'\\{1,8}"'), '"'),
    (r"\([0-9]{4}, ", _NUMBERED_TEXT, r"\1\2\3"),
    ("</", _ELEMENT, _element),
    ("@", EMAIL, "<email>"),
    ("-", _UUID, "<id>"),
    ("[0-9a-fA-F]:[0-9a-fA-F]{2}:", _NETWORK_CARD, "<id>"),
)
_OF_DAY = (
    r"[0-9]\.?\s(?:de\s)?(?:[JFMASONDjfmasond][aäeéuopcvgû]|enero|gennaio|giugno|luglio)[a-zäçûü]"
)
_NAMED = r"[0-9(\[](?:\.[0-9]|x[89cC]|[0-9A-Z]{3,4}: |(?<=[(\[])[0-9]{4})"
_find_any_time = re.compile(f"{_TIME_HINT}|{_OF_DAY}|P[T0-9]|{_NAMED}").search
_TIMES = _passes(
    (_TIME_HINT, _TIME, _time),
    (_OF_DAY, _DAY_OF_MONTH, "<time>"),
    ("P[T0-9]", _ISO_DURATION, "<n>"),
    (_NAMED, NAMED_CODES, _kept),
)
_ADDRESSES = _passes(
    ("://", _URL, _url),
    (r"[.:](?:[0-9]|[\w-]{1,64}\.|[0-9a-fA-F]{0,4}:)", _HOST, _host),
    ("<host>", _HOSTS_NAME, "<host>"),
    ("[/+=]", _BASE64, "<id>"),
    (r"[/\\]", _PATH, _path),
)
_QUOTES = _passes((f"[{''.join(QUOTATION_MARKS)}]", QUOTED, _quoted))
_NUMBERS = _passes(("[0-9]", WITH_DIGITS, replaced))
_ALIKE = _passes((r"(<\w{1,5}>).{1,40}?\1", _ALIKE_RUN, r"\1"))


def mask_error(text: str) -> str:
    """Return an error's text without what differs between its occurrences; see the module.

    Mask a text before you cut it: masks are shorter than ids, and half an id is no id. *text* is on
    one line; of more than 4,000 characters the whole words of the start are read. The result has
    500 at most.
    """
    text = whole_words(text, _READ_CHARACTERS)
    if not text.isascii():
        text = _OTHER_DIGIT.sub(_ascii_digit, text)
    has_punctuation = _find_punctuation(text) is not None
    has_digits = _find_digit(text) is not None
    if has_punctuation:
        text = _replaced(text, _STRUCTURE)
    if has_digits and _find_any_time(text):
        text = _replaced(text, _TIMES)
    if has_punctuation:
        text = _replaced(text, _ADDRESSES)
    text = _replaced(text, _QUOTES)
    if has_digits:
        text = _replaced(text, _NUMBERS)
    if "<" in text:
        text = _joined(text)
    if not text.isascii():
        text = text.translate(DIGITS_AGAIN)
    return text[:_ERROR_CHARACTERS].rstrip()


def _replaced(text: str, passes: _Passes) -> str:
    for search, substitute, replacement in passes:
        if search(text):
            text = substitute(replacement, text)
    return text


def _joined(text: str) -> str:
    """Replace several masks of one thing by one mask: of a list, or of an aside."""
    if text.count("<n>") + text.count("<id>") > 1:
        text = _NESTED_RUN.sub(r"\1", _RUN.sub("<n>", text))
    if "(<" in text:
        text = _RUN.sub("<n>", _ASIDE.sub("", text))
    return _replaced(text, _ALIKE) if text.count("<") > 1 else text


def mask_times_and_uuids(text: str) -> str:
    """Return *text* with UUIDs and times replaced."""
    text = _UUID.sub("<id>", text) if "-" in text else text
    return _TIME.sub("<time>", text) if _find_time(text) else text


def whole_words(text: str, characters: int) -> str:
    """Return the start of *text*, up to *characters*, without a word that is cut."""
    if len(text) <= characters:
        return text
    start = text[:characters]
    return start.rpartition(" ")[0] or start
