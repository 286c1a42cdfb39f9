"""Replace what differs between occurrences of one failure, and keep what names it. Pure.

Replaced are times, ids, numbers with their units, addresses, paths, and quoted texts. A word with
letters and digits is an id by its shape, whatever made it. Kept are numbers that name a failure (of
a status, an exit, an error, a port), and quoted names beside a word of code, as in ``key "vat"``.
"""

import re
from collections.abc import Callable

from dlq_replay.text.masks import EMAIL, QUOTATION_MARKS, QUOTED

_Replacement = str | Callable[[re.Match[str]], str]

_UUID = re.compile(r"(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_CLOCK = (
    r"\d\d?:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\s?(?:AM|PM|Z|GMT|UTC|[A-Z]{2,3}T|[+-]\d\d:?\d\d)\b)?"
)
_TIME = re.compile(
    rf"\d{{4}}[-/]\d\d[-/]\d\d(?:[T ]{_CLOCK})?"
    rf"|(?:{_DAY},?\s)?(?:\d\d?[ -]{_MONTH}[ -]\d{{4}}|{_MONTH}\s{{1,2}}\d\d?(?!\d)(?:, \d{{4}})?)"
    rf"(?:,?\s{_CLOCK})?(?:\s\d{{4}})?"
    rf"|(?<![\d:.]){_CLOCK}(?![\d:])"
)
_HOST = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\w.]*\w)"
    r"|(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])"
    r"|(?<![\w.@/-])(?=[\w.-]{0,200}\d)(?:[\w-]{1,63}\.){2,8}[a-z]{2,6}(?![\w(])"
)
"""Addresses, and names of machines, which have digits."""

_HOSTS_NAME = re.compile(r"<host> \((?:<host>)?\)")
_URL = re.compile(r"(?<=://)([^\s/?#'\"<>)\],;]{1,255})[/?#](?:<path>|[^\s'\"<>)\],;]*)")
_PATH = re.compile(
    r"(?<![\w./:<>-])(?:(?:[A-Za-z]:)?(?:[\\/][\w.@%+~=:<>-]{1,255}){2,64}[\\/]?"
    r"|/[\w.@%+~=-]{0,255}\.\w{1,16}(?!\w)|[\w.-]{1,64}(?:/[\w.@-]{1,255}){2,64})"
)
_NAME = re.compile(r"[A-Za-z_.-]{1,40}")
_WORD = re.compile(r"\w+")
_OF_CODE = frozenset(
    """
    key keys field fields column columns constraint relation table view index attribute attributes
    class enum property properties param params parameter parameters argument arguments variable
    method function module package type schema option header element reading import database
    collection topic queue bucket stream operation host service sequence symbol identifier
    """.split()  # noqa: SIM905 - a list would take a line for each
)
_OF_PEOPLE = frozenset(
    "user username customer client account member owner tenant login principal name".split()  # noqa: SIM905
)
_BEFORE_CHARACTERS, _AFTER_CHARACTERS, _CONTEXT_CHARACTERS = 24, 32, 48
"""How near a word must stand to a quoted name; and to a number."""

_UNIT = r"(?:[mnuµ]?s|[kmgt]?i?b|bytes?|sec(?:ond)?s?|min(?:ute)?s?|hours?|days?|%)"
_WITH_DIGITS = re.compile(
    r"(?i)(?<![\w-])(?=[\w-]*\d)(?:(?P<number>(?<!\.)-?(?:(?:\d{1,9}[dhms]){2,4}"
    rf"|\d+(?:[.,:]\d+)*+(?:\s?{_UNIT})?)(?!\w|-\w))|[\w-]+)"
)
_BEFORE_A_NAME = frozenset(
    "status statuscode code errno exit exited sqlstate http error signal answered responded".split()  # noqa: SIM905
)
"""Words of which a number behind them names the failure."""

_AFTER_A_NAME = re.compile(r"\s(?:Client|Server)\sError")
_NAMES_FAILURE = re.compile(r"\d{1,5}|[0-9A-Z]{5}")
_EPHEMERAL_PORT = 32_768
"""From here on Linux draws the ports of clients: they name nothing."""

_NUMBERED = re.compile(r"[A-Za-z]?[a-z]{3,}(?:[_-][A-Za-z]+)*[_-]\d{1,4}")
"""A word with a small number behind a dash, as in ``worker-3``: counted, but no id."""

_OF_CODES_OWN = re.compile(
    r"(?:[A-Z]{2,8}-\d{3,6}|(?:[A-Z][a-z]{2,})+\d{1,3}(?:[A-Z][a-z]{2,})+|[a-z]+\d(?=\.[A-Za-z]))"
    r"(?![\w-])"
)
"""As in ``ORA-00001``, ``Base64Decoder`` and ``boto3.exceptions``."""

_BASE64 = re.compile(
    r"(?<![\w+/.-])(?=[A-Za-z+/]*\d)(?=[A-Z\d+/]*[a-z])(?=[a-z\d+/]*[A-Z])[A-Za-z\d+/]{16,}={0,2}(?![\w.])"
)

_ID_CHARACTERS = 4
_TERMS = frozenset(
    """
    aes128 aes256 amd64 arm64 base64 crc32 es256 float32 float64 h264 hs256 http1 http2 http3 i18n
    int16 int32 int64 ipv4 ipv6 k8s l10n latin1 log4j neo4j oauth1 oauth2 pkcs1 pkcs7 pkcs8 pkcs12
    rs256 sha1 sha256 sha384 sha512 uint8 uint16 uint32 uint64 utf8 utf16 web3 win32 x509 int8 md5
    ec2 s3 p2p e2e v1 v2 v3
    """.split()  # noqa: SIM905 - a list would take a line for each
)
"""Words with digits that are no ids."""

NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LETTER = re.compile(r"[^\W\d_]")
_READ_CHARACTERS = 4_000
_ERROR_CHARACTERS = 500


def _quoted(match: re.Match[str]) -> str:
    """Keep a name that code has given; hide anything else between quotes, as names of people."""
    found, text = match[0], match.string
    if _NAME.fullmatch(found[1:-1]):
        before = text[max(0, match.start() - _BEFORE_CHARACTERS) : match.start()]
        after = text[match.end() : match.end() + _AFTER_CHARACTERS]
        words_before = _WORD.findall(before.lower())
        words = words_before + _WORD.findall(after.lower())
        is_alone = not (before.strip() or after.strip())
        names_code = is_alone or not _OF_CODE.isdisjoint(words)
        if names_code and _OF_PEOPLE.isdisjoint(words_before[-1:]):
            return found
    return f"{found[0]}<text>{found[-1]}"


def _with_digits(match: re.Match[str]) -> str:
    found, text = match[0], match.string
    before = text[max(0, match.start() - _CONTEXT_CHARACTERS) : match.start()]
    if _NAMES_FAILURE.fullmatch(found) and (
        _is_named(before, found) or _AFTER_A_NAME.match(text, match.end())
    ):
        return found
    if match["number"] or not _LETTER.search(found):
        return "<n>"
    if found.lower() in _TERMS or _OF_CODES_OWN.match(text, match.start()):
        return found
    if len(found) < _ID_CHARACTERS or _NUMBERED.fullmatch(found):
        return NUMBER.sub("<n>", found)
    return "<id>"


def _is_named(before: str, number: str) -> bool:
    """Whether a number behind this text names a failure, or is the port of a named machine."""
    words = before.removesuffix("with ").rstrip(" :=#([").split(" ")
    word = words[-1].lstrip("([<").lower()
    if word in ("port", "localhost") or "://" in word:
        # A client draws its port.
        return words[-2:-1] != ["<host>"] and number.isdecimal() and int(number) < _EPHEMERAL_PORT
    return before == "(" or word in _BEFORE_A_NAME or word.startswith("http/")


_PASSES: tuple[tuple[re.Pattern[str], re.Pattern[str], _Replacement], ...] = (
    (re.compile("@"), EMAIL, "<email>"),
    (re.compile("-"), _UUID, "<id>"),
    (re.compile(r"[\dA-Z](?:[:/-]\d|\W[A-Z][a-z]{2}|[a-z]{2,8}\W{1,3}\d)"), _TIME, "<time>"),
    (re.compile("://"), _URL, r"\1/<path>"),
    (re.compile(r"[.:](?:\d|[\w-]+\.|[0-9a-fA-F]{0,4}:)"), _HOST, "<host>"),
    (re.compile(r"<host> \("), _HOSTS_NAME, "<host>"),
    (re.compile("[/+=]"), _BASE64, "<id>"),
    (re.compile(r"[/\\]"), _PATH, "<path>"),
    (re.compile(f"[{''.join(QUOTATION_MARKS)}]"), QUOTED, _quoted),
    (re.compile(r"\d"), _WITH_DIGITS, _with_digits),
)
"""What is replaced, in this order. A text without what the first pattern finds needs no search for
the second, which takes longer."""


def mask_error(text: str) -> str:
    """Return an error's text without what differs between its occurrences; see the module.

    Mask a text before you cut it: masks are shorter than ids, and half an id is no id. *text* is on
    one line; of more than 4,000 characters the whole words of the start are read. The result has
    500 at most.
    """
    text = whole_words(text, _READ_CHARACTERS)
    for hint, pattern, replacement in _PASSES:
        if hint.search(text):
            text = pattern.sub(replacement, text)
    return text[:_ERROR_CHARACTERS].rstrip()


def mask_times_and_uuids(text: str) -> str:
    """Return *text* with UUIDs and times replaced."""
    for hint, pattern, replacement in _PASSES[1:3]:
        text = pattern.sub(replacement, text) if hint.search(text) else text
    return text


def whole_words(text: str, characters: int) -> str:
    """Return the start of *text*, up to *characters*, without a word that is cut."""
    if len(text) <= characters:
        return text
    start = text[:characters]
    return start.rpartition(" ")[0] or start
