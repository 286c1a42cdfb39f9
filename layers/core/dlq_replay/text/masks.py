"""Finds secrets and personal data by patterns, and hides them. Pure.

The failure recorder and the Spark analysis use the same patterns. Names, postal addresses and free
text follow no pattern and are not found.

Each pattern takes linear time, whatever the text: each repetition either has an upper bound or ends
its pattern, so that no part of the text is read again.
``tests/unit/dlq_replay/test_masks.py`` checks this on the patterns themselves.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

MASKED = "***"

REACH_CHARACTERS = 1024
"""The most that a pattern must read before it recognises the start of a secret."""

_MARGIN_CHARACTERS = 4096

EMAIL = re.compile(r"(?:[\w.+-]|%(?!40)){1,64}+(?:@|%40)[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
"""Also where a URL has ``%40`` for the ``@``."""

QUOTATION_MARKS = {
    '"': '"',
    "“": '”"',
    "„": '“”"',
    "”": "”",
    "'": "'",
    "`": "'",
    "‘": "’'",
    "‚": "‘’'",
    "’": "’",
    "«": "»",
    "»": "«»",
    "‹": "›",
    "›": "‹›",
    "「": "」",
    "『": "』",
    "｢": "｣",
    "﹁": "﹂",
    "﹃": "﹄",
    "《": "》",
    "〈": "〉",
    "〝": "〞〟",
    "＂": "＂",
}
"""Each mark that opens a quoted text, with the marks that may close it."""

_APOSTROPHES = "'’"
_IN_WORD = r"[^\W\u0e00-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\U0010ffff]"
"""A character of a word, in scripts where none stands directly beside a quotation mark.

In Chinese, Japanese, Korean and Thai the next word follows a quoted text without a blank.
"""


def _quoted_text(opening: str, closing: str) -> str:
    """Return the pattern of a text between these marks. It may contain apostrophes.

    It cannot contain its opening mark, so that no part of a text is read again.
    """
    if not set(closing) & set(_APOSTROPHES):
        return rf"{opening}[^{opening}{closing}]*[{closing}]"
    begin = rf"{opening}(?<!{_IN_WORD}{opening})" if opening in _APOSTROPHES else opening
    apostrophe = rf"(?<={_IN_WORD})[{_APOSTROPHES}](?={_IN_WORD})"
    inside = rf"(?:[^{opening}{closing}\n]|{apostrophe})*+"
    quoted = rf"{begin}{inside}[{closing}](?!{_IN_WORD})"
    # A closing backtick comes last: of both, GNU's form is the shorter one.
    return rf"{quoted}|`[^`]*`" if opening == "`" else quoted


QUOTED = re.compile("|".join(_quoted_text(*marks) for marks in QUOTATION_MARKS.items()))
"""A text with its quotation marks, one character each."""

NAMES_IN_TEXT = """
    password passwd passphrase passcode pwd secret token credential credentials authorization cookie
    api_key access_key private_key secret_key signing_key ssn iban cvv cvc card_number card_no
"""
"""Names whose values are secret in any text, as in ``password=``."""

NAMES_OF_FIELDS = f"""
    {NAMES_IN_TEXT} passwords pw pin otp secrets tokens jwt bearer cookies session_id signature sig
    encryption_key social_security passport_number national_id tax_id bban account_number account_no
    acct_number bank_account sort_code routing_number pan credit_card phone phones phone_number
    telephone cellphone mobile mobilephone tel fax msisdn whatsapp birth
    birthdate birthday dateofbirth born dob geb geburtsdatum gebdatum
"""
"""Names of fields of JSON, and of elements of XML, whose values are secret whatever they are."""


def mask_text(text: str) -> str:
    """Return *text* with ``***`` in place of each secret and each personal detail that is found.

    Hidden are: private keys, passwords in URLs, e-mail addresses, tokens (bearer, JWT, AWS,
    GitHub, GitLab, Google, Slack, Stripe), signatures in URLs, values behind a name such as
    ``password=``, XML elements of such a name, the input that pydantic prints, US social security
    numbers, payment cards and IBANs with correct check digits, phone numbers in a usual form
    (``+49 30 123456``, ``555-123-4567``) or after a word for phone, numbers of at least 8 digits
    after a word for account, and dates after a word for birth. Other dates stay.
    """
    lowered = text.lower()
    has_digits = _MANY_DIGITS.search(text) is not None
    for secret in PATTERNS:
        if any(hint in lowered for hint in secret.hints) if secret.hints else has_digits:
            text = secret.pattern.sub(secret.hide, text)
    return text


def mask_start(
    text: str, characters: int, mask: Callable[[str], str] = mask_text
) -> tuple[str, bool]:
    """Mask the start of a text that may be very long.

    The text is cut first, well after the *characters* that the caller shows. A secret at the cut
    may not be recognised, because its end is missing. So the last characters of the cut text are
    dropped.

    Returns:
        The masked start, and whether it is followed by anything that was cut.
    """
    cut = text[: characters + _MARGIN_CHARACTERS]
    masked = mask(cut)
    if len(cut) == len(text):
        return masked, False
    last = masked.rfind(MASKED)
    known = last + len(MASKED) if last >= 0 else 0
    return masked[: max(len(masked) - REACH_CHARACTERS, known)], True


def _hide(match: re.Match[str]) -> str:
    """Keep the name before a secret, and the quotes around it."""
    groups = match.groupdict("")
    name, quote = groups.get("name", ""), groups.get("quote", "")
    return f"{name}{quote}{MASKED}{quote}"


def _if(is_one: Callable[[str], bool]) -> Callable[[re.Match[str]], str]:
    return lambda match: MASKED if is_one(match[0]) else match[0]


def _is_card(text: str) -> bool:
    """Check the Luhn digit (ISO/IEC 7812-1, annex B) and the first digit, 2 to 6."""
    digits = [int(c) for c in text if c.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return digits[0] in (2, 3, 4, 5, 6) and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    """Check ISO 13616: first four characters moved to the end, letters as 10 to 35, mod 97."""
    plain = text.replace(" ", "")
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


@dataclass(frozen=True, slots=True)
class Pattern:
    """The pattern of one kind of secret.

    Attributes:
        hints: in lower case; a text without any of them has no such secret. Empty for secrets that
            are long numbers.
        hide: returns what replaces a match.
    """

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    hide: Callable[[re.Match[str]], str] = _hide


_START = r"(?:\b|_|(?<=[a-z])(?=[A-Z]))"
"""The start of a word, also inside ``client_secret`` and ``clientSecret``."""

_NAMED = r"(?:\\{0,31}+[\"'])?+\s{0,16}+[:=]\s{0,16}+"
_WORDS, _NAMES = (
    "|".join(words.split()).replace("_", "[_-]?") for words in (NAMES_IN_TEXT, NAMES_OF_FIELDS)
)
_VALUE = r"(?:(?P<quote>\\{0,31}+[\"'])(?:(?!(?<!\\)(?P=quote)).)*+(?P=quote)?+|[^\s\"'\\&,;}]++)"
"""Up to the closing quote, or to the end of a text that was cut."""

_NUMBER_WORD = r"(?i:[ _-]?(?:number|num|no|nr))?+[\s\"'\\:=.#(]{0,12}+"

PATTERNS = (
    Pattern(
        ("-----begin",),
        re.compile(
            r"-----BEGIN (?:(?!PRIVATE)[A-Z0-9]{1,16}+ ){0,3}+PRIVATE KEY(?: BLOCK)?-----"
            r"[^-]*+(?:-(?!----END)[^-]*+)*+(?:-----END [A-Z ]{1,48}+-----)?+"
        ),
    ),
    # The input in pydantic's error texts.
    Pattern(
        ("input_value=",), re.compile(r"(?P<name>input_value=)(?:(?!, input_type=).)++", re.DOTALL)
    ),
    Pattern(("://",), re.compile(r"(?<=://)[^/\s:@]{0,256}+:[^/\s@]{1,256}+(?=@)")),
    Pattern(("@", "%40"), EMAIL),
    Pattern(
        ("<",),
        re.compile(
            rf"(?P<name><(?:(?!{_START}(?i:{_NAMES})(?![a-z]))[\w.:-]){{0,64}}+(?i:{_NAMES})"
            r"(?![a-z])[\w.:-]{0,64}+(?:\s[^<>]{0,256}+)?+>\s{0,16}+(?:<!\[CDATA\[)?+)(?:(?!</|\]\]>).)++",
            re.DOTALL,
        ),
    ),
    Pattern(("sig",), re.compile(r"(?P<name>\b(?i:sig|signature)=)[^\s\"'\\&,;<}]++")),
    Pattern(("bearer", "basic"), re.compile(r"(?i)\b(?:bearer|basic)\s{1,16}+[\w.~+/=-]{8,}+")),
    # A JWT, or any other JSON in base64, whose content cannot be judged.
    Pattern(("eyj",), re.compile(r"\beyJ[\w.+/=-]{17,}+")),
    Pattern(("akia", "asia"), re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    Pattern(
        ("gh", "github_pat_", "glpat-", "xox", "k_live_", "aiza"),
        re.compile(r"\b(?:gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|[rs]k_live_|AIza)[\w-]{10,}+"),
    ),
    Pattern(
        ("birth", "born", "dob", "geb"),
        re.compile(
            rf"(?P<name>{_START}(?i:birth|born|dob|geb(?:oren|urt|(?![^\W_])))[^\d\n]{{0,24}}+)"
            r"(?:\d{1,4}[./ -]{1,2}+(?:\d{1,2}|[^\W\d_]{3,9}+)[./, -]{1,2}+\d{2,4}"
            r"|\d{1,2}(?:st|nd|rd|th)?,? (?:19|20)\d\d|(?:19|20)\d{6}|(?:19|20)\d\d)(?!\d)"
        ),
    ),
    Pattern(
        ("phone", "mobile", "tel", "fax", "msisdn", "whatsapp", "sort", "routing"),
        re.compile(
            rf"(?P<name>{_START}(?i:(?:tele|cell|mobile)?phone|mobile|tel|fax|msisdn|whatsapp|"
            rf"sort[ _-]?code|routing){_NUMBER_WORD})\+?\d(?:[ ()./-]{{0,2}}\d){{5,20}}(?!\w)"
        ),
    ),
    Pattern(
        ("account", "acct", "konto"),
        re.compile(
            rf"(?P<name>{_START}(?i:account|acct|konto){_NUMBER_WORD})"
            r"\d(?:[ -]?\d){7,24}(?!\w)"
        ),
    ),
    Pattern((), re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")),
    Pattern((), re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-]|\.\d)"), _if(_is_card)),
    Pattern(
        (),
        re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}+(?: ?[A-Z0-9]{1,3})?+\b"),
        _if(_is_iban),
    ),
    Pattern((), re.compile(r"(?<![\w+])\+[1-9](?:[ ()./-]{0,2}\d){7,14}(?!\w)")),
    Pattern(
        (),
        re.compile(r"(?<![\w.-])(?:1[ .-])?+(?:\(\d{3}\) ?|\d{3}[.-])\d{3}[.-]\d{4}(?![\w-]|\.\d)"),
    ),
    Pattern(
        ("iban", "card"),
        re.compile(
            rf"(?P<name>{_START}(?i:iban|card){_NUMBER_WORD})"
            r"[A-Z]{0,2}\d(?:[ -]?[A-Z0-9]){11,40}(?!\w)"
        ),
    ),
    Pattern(
        ("=", ":"),
        re.compile(rf"(?P<name>{_START}(?i:{_WORDS}){_NAMED}){_VALUE}", re.DOTALL),
    ),
)
"""Applied in this order, each on the result of the one before."""

_MANY_DIGITS = re.compile(r"\d(?:[ ()./-]{0,2}\d){7}")
