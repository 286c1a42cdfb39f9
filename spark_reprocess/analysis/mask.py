"""What no sample, title or lead may show: secrets by their look, by their key, and by choice. Pure.

A net, not a proof: ``analyze --no-samples`` is for payloads that nobody may read.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from spark_reprocess.analysis.varying import EMAIL

MASKED = "***"

_PATH = re.compile(r"(?:body|attribute)(?:\.[^\s.()*+?|^$\\]+)+")
_COLUMNS = ("message_group_id", "sender_id", "source_arn")


@dataclass(frozen=True, slots=True)
class Masks:
    """What to hide; picklable, because tasks carry it along.

    Attributes:
        patterns: what the caller wants hidden wherever it stands, besides our own patterns.
        fields: the ways to fields that are hidden with all that is below them, without ``[]``.
        shows_values: False hides every value, whatever it is.
    """

    patterns: tuple[re.Pattern[str], ...] = ()
    fields: tuple[str, ...] = ()
    shows_values: bool = True

    def text(self, text: str) -> str:
        """Return *text* with everything that a pattern finds replaced by ``***``."""
        for secret in _IN_TEXT:
            if any(hint in text for hint in secret.hints):
                text = secret.pattern.sub(secret.hide, text)
        if _MANY_DIGITS.search(text):
            for secret in _IN_DIGITS:
                text = secret.pattern.sub(secret.hide, text)
        for own in self.patterns:
            text = own.sub(MASKED, text)
        return text

    def value(self, field: str, text: str) -> str:
        """Return a field's value as it may be shown: all of it, parts, or ``***``."""
        return MASKED if not self.shows_values or self.hides(field) else self.text(text)

    def tree(self, field: str, value: object) -> Any:  # noqa: ANN401 - as JSON as it came
        """Return a JSON value with ``***`` in place of each field that is not to be shown."""
        if self.hides(field):
            return MASKED
        match value:
            case dict():
                return {name: self.tree(f"{field}.{name}", one) for name, one in value.items()}
            case list():
                return [self.tree(f"{field}[]", one) for one in value]
        return value

    def hides(self, field: str) -> bool:
        """Whether *field* (``body.customer.name``) is not to be shown, whatever its value is."""
        plain = field.replace("[]", "")
        is_below = any(plain == one or plain.startswith(f"{one}.") for one in self.fields)
        return is_below or any(map(is_secret_key, plain.split(".")))


def compile_masks(masks: Sequence[str], *, shows_values: bool = True) -> Masks:
    """Compile what the caller wants hidden, in addition to our own.

    What reads like the way to a field (``body.customer.name``, ``attribute.tenant``) is one; all
    else is a regular expression.

    Raises:
        ValueError: one is no regular expression; the message names it.
    """
    fields = tuple(one.replace("[]", "") for one in masks if _is_path(one))
    patterns = tuple(_compile(one) for one in masks if not _is_path(one))
    return Masks(patterns, fields, shows_values)


def _is_path(mask: str) -> bool:
    return mask in _COLUMNS or _PATH.fullmatch(mask) is not None


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r}: is no regular expression: {error}") from error


@lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """Whether a value under *key* is secret by its name: ``apiKey``, ``DB_PASSWORD``, ``iban``."""
    words = [word.lower() for word in _WORD.findall(key)]
    pairs = {f"{first}{second}" for first, second in pairwise(words)}
    return not _SECRET.isdisjoint((*words, *pairs))


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET = frozenset(
    (
        *("password", "passwords", "passwd", "pwd", "passphrase", "passcode", "pin", "otp"),
        *("secret", "secrets", "credential", "credentials", "token", "tokens", "jwt", "bearer"),
        *("authorization", "cookie", "cookies", "sessionid", "signature"),
        *("apikey", "accesskey", "privatekey", "secretkey", "signingkey", "encryptionkey"),
        *("ssn", "socialsecurity", "passportnumber", "nationalid", "taxid"),
        *("iban", "accountnumber", "bankaccount", "cardnumber", "creditcard", "cvv", "cvc"),
    )
)

_NAMED_VALUE = re.compile(
    r"(?P<name>(?i:\b|_)(?i:pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|authorization|"
    r"cookie|(?:api|access|private|secret|signing)[_-]?key|ssn|iban|cvv|cvc|card[_-]?number)"
    r"(?:\\*[\"'])?\s*[:=]\s*)"
    r"(?:(?P<quote>\\*[\"']).*?(?:(?P=quote)|\Z)|[^\s\"'\\&,;}]+)",
    re.DOTALL,
)
"""A secret in text that is no JSON, or that was cut: ``password=…``, ``\\"token\\": \\"…\\"``."""


def _hide_value(match: re.Match[str]) -> str:
    quote = match["quote"] or ""
    return f"{match['name']}{quote}{MASKED}{quote}"


def _if(is_one: Callable[[str], bool]) -> Callable[[re.Match[str]], str]:
    return lambda match: MASKED if is_one(match[0]) else match[0]


def _is_card(text: str) -> bool:
    """Luhn's check (ISO/IEC 7812-1, annex B), and a first digit that cards begin with."""
    digits = [int(c) for c in text if c.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return digits[0] in (2, 3, 4, 5, 6) and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    """The check of ISO 13616: the number with its head at the end, letters as 10 to 35, mod 97."""
    plain = text.replace(" ", "")
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


@dataclass(frozen=True, slots=True)
class _Secret:
    """How one kind of secret looks; without one of *hints* in it a text holds none."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    hide: str | Callable[[re.Match[str]], str] = MASKED


_IN_TEXT = (
    _Secret(
        ("-----BEGIN",),
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", re.DOTALL),
    ),
    _Secret(("://",), re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")),
    _Secret(("@",), EMAIL),
    _Secret((" ",), re.compile(r"(?i)\b(?:bearer|basic)\s+[\w.~+/=-]{8,}")),
    _Secret(("eyJ",), re.compile(r"\beyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*")),
    _Secret(("AKIA", "ASIA"), re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    _Secret(
        ("gh", "glpat-", "xox", "k_live_"),
        re.compile(r"\b(?:gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|[rs]k_live_)[\w-]{10,}"),
    ),
    _Secret(("=", ":"), _NAMED_VALUE, _hide_value),
)
_IN_DIGITS = (
    _Secret((), re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")),
    _Secret((), re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-]|\.\d)"), _if(_is_card)),
    _Secret(
        (),
        re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
        _if(_is_iban),
    ),
)
_MANY_DIGITS = re.compile(r"\d(?:[ -]?\d){8}")


def shorten(text: str, characters: int) -> str:
    """Cut *text* to so many characters, on one line, marked where it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= characters else f"{line[: characters - 1]}…"
