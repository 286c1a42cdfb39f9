"""Words with digits in an error's text: a number that names the failure, a name, or data. Pure.

A number names the failure where a word announces it, as in ``status 503``, ``errno 13`` or
``got 404 from``. A name with digits is known by its form, as ``Http2Exception``. What is left is
the data of one occurrence: a number, or an id.
"""

import re
from string import digits

from dlq_replay.text.words import words_of

LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"
"""Letters of which ids may consist. A number ends where a letter of another script begins."""

_IN_WORD = rf"[{LATIN}0-9_-]"
_UNIT = (
    r"(?i:[mnuµ]?s|[kmgtp]?i?b|bytes?|(?:milli|micro|nano)?sec(?:ond)?s?|min(?:ute)?s?|h|hrs?|hours?"
    r"|d|days?|weeks?|months?|years?|%)"
)
WITH_DIGITS = re.compile(
    rf"(?<!{_IN_WORD})(?:(?P<number>(?<!\.)-?(?:(?:[0-9]{{1,9}}[dhms]){{2,4}}"
    rf"|[0-9]+(?:[.,:][0-9]+)*+(?:\s?{_UNIT}|m)?)(?![{LATIN}0-9_]|-[{LATIN}0-9_]))"
    rf"|[{LATIN}_-]*+[0-9]{_IN_WORD}*+)"
)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

_OF_NO_SCRIPT = "".join(map(chr, range(0xE000, 0xE000 + len(digits))))

KEPT_DIGITS = str.maketrans(digits, _OF_NO_SCRIPT)
"""Digits that name a failure, as characters of no script: no later pass takes them for data."""

DIGITS_AGAIN = str.maketrans(_OF_NO_SCRIPT, digits)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ANNOUNCES = _set(
    """
    status statuscode errno exit exited exitcode sqlstate http errorcode errcode signal rc retcode
    returncode hresult ntstatus smtp dsn errnum sqlcode
    fehlercode statut estado
    """
)
"""Words of which a number behind them names the failure."""

_CODES = _set("code codes código codice codigo kod")
_ERRORS = _set("error errors err fehler erreur")
_ANSWERS = _set(
    """
    got gets returned returns return received receives responded responds response answered answer
    replied reply gave expected failed rejected respond antwortete lieferte
    """
)
"""Words behind which a status of HTTP names the failure, if it does not count something."""

_ANNOUNCES_GLUED = tuple(
    """
    ステータス コード エラー 状态码 状态 错误码 错误 代码 狀態碼 錯誤碼 상태 코드 오류 สถานะ รหัส
    """.split()  # noqa: SIM905 - a list would take a line for each
)
"""The same of languages that write words without a blank between them."""

_DATA_CODES = _set(
    """
    zip postal post area bar voucher coupon promo promotion booking discount product item country
    verification security pin pass access tracking referral gift order customer sort bank swift hs
    dial invite activation reservation confirmation
    """
)
"""Words before ``code`` that say that it is data."""

_VERSIONED = _set(
    "schema api protocol format file message event tls ssl http contract avro model database db"
)
_ERROR_NUMBER = re.compile(r"(?i)\berr(?:or)?\s(?:no|nr|num|number)\.?$")
_FORM = re.compile(
    r"-?\d{1,5}|-\d{6,10}|\d\d[0-9A-Z]{3}|[A-Z]{1,8}[-_]?\d{1,6}[A-Z]?|0x[0-9a-fA-F]{1,8}"
)
_MOST_DIGITS = 5
"""A longer number names nothing."""

_STATUS = re.compile(r"20[0-8]|30[0-8]|4[0-5]\d|499|5[0-5]\d|59[89]")
_NO_COUNT = re.compile(
    r"\W{0,8}$|[^\w\s]|\s[A-Z]|\s(?:from|for|on|in|at|after|by|with|while|when|to|instead|but|and"
    r"|or|as|via|status|response|error)\b",
    re.ASCII,
)
"""The text behind a status; behind a count it is the noun that was counted."""

_BEHIND = re.compile(r"\s(?:Client|Server)\sError")
_EPHEMERAL_PORT = 32_768
"""From here on Linux draws the ports of clients: they name nothing."""

_CONTEXT_CHARACTERS = 48

_OF_VENDOR = re.compile(
    r"(?:ORA|TNS|PLS|DPY|DPI|NJS|RMAN|OCI|MY|AMQ|WSRR|DFH|KUP|IMP|EXP)-\d{3,6}"
    r"|SQL\d{4}[A-Z]|AADSTS\d{4,7}"
)
_VENDORS_FORM = re.compile(r"[A-Z]{1,8}-?\d{3,6}[A-Z]?")
_BEGINS = re.compile(r"(?:^|[:;\[(\"'] ?)$")
_ENDS = re.compile(r"[:\])\"']| - ")

NAMED_CODES = re.compile(
    r"(?<![\w.-])(?:0x[8cC]0[0-9a-fA-F]{6}(?!\w)"
    r"|[245]\d\d[ -][245]\.\d{1,3}\.\d{1,3}(?![\w.])"
    r"|(?<=dsn=)[245]\.\d{1,3}\.\d{1,3}(?![\w.])"
    r"|(?<=\()\d{4}(?=, [\"'A-Z])|(?<=\] \[)\d{4}(?=\])"
    r"|\d\d[0-9A-Z]{3}(?=: [A-Za-z])(?<=[A-Z]\d{2}|\d[A-Z]\d|\d\d[A-Z]))",
    re.ASCII,
)
"""HRESULT and NTSTATUS; the reply code of SMTP with its enhanced code; the numbers of MySQL; a
SQLSTATE with a letter."""

_TERMS = _set(
    """
    aes128 aes256 amd64 arm64 base64 base-64 crc32 es256 float32 float64 h264 hs256 http1 http2
    http3 i18n int16 int32 int64 ipv4 ipv6 iso-8859-1 k8s l10n latin1 log4j neo4j oauth1 oauth2
    pkcs1 pkcs7 pkcs8 pkcs12 rs256 sha1 sha-1 sha256 sha-256 sha384 sha-384 sha512 sha-512 uint8
    uint16 uint32 uint64 utf8 utf-8 utf16 utf-16 utf-32 web3 win32 x509 x.509 int8 md5 ec2 s3 p2p
    e2e
    """
)
"""Words with digits that are no ids."""

_VERSION = re.compile(r"[vV]\d{1,2}")
_MODULE = re.compile(r"[a-z]+\d(?=\.[A-Za-z])")
_NUMBERED = re.compile(r"([A-Za-z]?[a-z]{3,}(?:[_-][A-Za-z]+)*[_-])-?\d{1,20}")
"""A word with a number behind a dash, as in ``worker-3``: counted, but no id."""

_CAMEL = re.compile(r"[A-Za-z]{1,40}\d{1,3}[A-Z][A-Za-z]{0,40}")
_HUMP = re.compile(r"[A-Z]?[a-z]{3,}")
_LETTERS = re.compile(rf"[{LATIN}]")
_LEAST_SHARE = 0.75
_PART_WITH_DIGITS = re.compile(r"[A-Za-z]{0,8}\d{1,2}")
_VERSION_DIGITS = 2
_LEAST_PART = 3


def replaced(match: re.Match[str]) -> str:
    """Return what replaces a token that ``WITH_DIGITS`` found: itself, ``<n>`` or ``<id>``."""
    token = match[0]
    if len(token) > _MOST_DIGITS and token.isdecimal():
        return "<n>"
    if is_announced(match):
        return token
    if match["number"] or not _LETTERS.search(token):
        return "<n>"
    if counted := _NUMBERED.fullmatch(token):
        return f"{counted[1]}<n>"
    return token if _is_name(match) else "<id>"


def is_announced(match: re.Match[str]) -> bool:
    """Return whether a token, a match of the whole text, names a failure or is a known port."""
    token = match[0]
    text = match.string
    start, end = match.span()
    if not _FORM.fullmatch(token):
        return False
    # The first argument of an error of a driver.
    if _BEHIND.match(text, end) or text[:start] == "(":
        return True

    before = text[max(0, start - _CONTEXT_CHARACTERS) : start]
    bare = before.removesuffix("with ").rstrip(" :=#([\"'")
    words = bare.split(" ")[-2:]
    if words[-1].endswith("<host>"):
        return text[start - 1] == ":" and is_known_port(token)

    last = words[-1].lstrip("([<\"'").lower()
    if last in ("port", "localhost") or "://" in last:
        # A client draws its port.
        return words[0] != "<host>" and is_known_port(token)
    if bare.endswith(_ANNOUNCES_GLUED) or _ERROR_NUMBER.search(bare):
        return True

    before_last = "" if len(words) == 1 else words[0].lower()
    names = words_of(words[-1])[-2:]
    if len(names) > 1:
        before_last = names[0]
    return _is_announced_by(
        {last, *names[-1:]}, before_last, token, is_count=_is_count(before, text, end)
    )


def _is_announced_by(last: set[str], before_last: str, token: str, *, is_count: bool) -> bool:
    """Return whether the words before a number show that it names a failure.

    *last* are forms of the last word, *before_last* is the one before it.
    """
    if not last.isdisjoint(_ERRORS):
        return not is_count
    if not last.isdisjoint(_ANSWERS):
        return not is_count and _STATUS.fullmatch(token) is not None
    if not last.isdisjoint(_CODES):
        return before_last not in _DATA_CODES
    if "version" in last:
        return before_last in _VERSIONED and len(token) <= _VERSION_DIGITS
    if "state" in last:
        return before_last == "sql"
    return not last.isdisjoint(_ANNOUNCES) or any(form.startswith("http/") for form in last)


def _is_count(before: str, text: str, end: int) -> bool:
    """Return whether a number seems to count the noun behind it, as in ``got 200 rows``."""
    if before.endswith(("or ", "ors ", "ERROR ")):
        # As in ``error 1205 occurred``.
        return False
    return _NO_COUNT.match(text, end) is None


def is_known_port(number: str) -> bool:
    """Return whether this is the port of a service, and not one that a client drew."""
    return number.isdecimal() and int(number) < _EPHEMERAL_PORT


def _is_name(match: re.Match[str]) -> bool:
    """Return whether a token is a name of code, or the code of a vendor."""
    token = match[0]
    text = match.string
    start = match.start()
    return (
        token.lower() in _TERMS
        or _VERSION.fullmatch(token) is not None
        or _MODULE.match(text, start) is not None
        or _is_camel(token)
        or _is_snake(token)
        or _is_of_vendor(token, text[max(0, start - 2) : start], text[match.end() :][:3])
    )


def _is_camel(token: str) -> bool:
    """Return whether this is a name as ``Base64Decoder``, ``S3Client``: mostly of words."""
    if not _CAMEL.fullmatch(token):
        return False
    letters = sum(map(str.isalpha, token))
    return sum(map(len, _HUMP.findall(token))) >= _LEAST_SHARE * letters


def _is_snake(token: str) -> bool:
    """Return whether this is a name of words, as ``ERR_HTTP2_STREAM``, ``get_v2_order``."""
    if not (token.isupper() or token.islower()):
        return False
    long_words = 0
    for part in token.split("_"):
        if part.isalpha():
            if len(part) >= _LEAST_PART:
                long_words += 1
        elif part and not _PART_WITH_DIGITS.fullmatch(part):
            return False
    return long_words > 1


def _is_of_vendor(token: str, before: str, after: str) -> bool:
    """Return whether this is the code of a vendor, as ``ORA-00001``.

    A code of another vendor counts only at the start of a text, or of a part of it.
    """
    if _OF_VENDOR.fullmatch(token):
        return True
    is_alone = _BEGINS.search(before) is not None and _ENDS.match(after) is not None
    return is_alone and _VENDORS_FORM.fullmatch(token) is not None
