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

from dlq_replay.text.secret_names import is_secret_name, names_value

MASKED = "***"

REACH_CHARACTERS = 1024
"""The most that a pattern must read before it recognises the start of a secret."""

_MARGIN_CHARACTERS = 4096

EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,128}+(?:%(?!40)[\w.+-]{1,64}+){0,4}+(?:@|%40)"
    r"[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
)
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
"""A character of a word, in scripts where none is directly beside a quotation mark.

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


def mask_text(text: str) -> str:
    """Return *text* with ``***`` in place of each secret and each personal detail that is found.

    Hidden are:

    - private keys, JWTs, tokens that begin as those of a known vendor do, addresses of webhooks,
      passwords in URLs, ``Authorization`` and ``Cookie`` headers;
    - values behind a name of ``secret_names``, in any usual form: ``password=x``, ``"pin": "x"``,
      ``:token => 'x'``, ``(email, token)=(x, y)``, XML elements and attributes;
    - the input that pydantic prints;
    - e-mail addresses, US social security numbers, payment cards and IBANs with correct check
      digits, phone numbers in a usual form (``+49 30 123456``, ``555-123-4567``) or after a word
      for phone, numbers of at least 8 digits after a word for account, and dates after a word for
      birth. Other dates stay.
    """
    lowered = text.lower()
    for needed, patterns in _PASSES:
        for secret in patterns if needed.search(text) else ():
            for hint in secret.hints:
                if hint in lowered:
                    text = secret.pattern.sub(secret.hide, text)
                    break
    if "<" in text:
        text = _hide_values(text, ELEMENT, _value_of_element)
    if "--" in text:
        text = _hide_values(text, OPTION, _value_of_option)
    if "=" in text or ":" in text or "->" in text or "%3" in text:
        text = _hide_values(text, SIGN, _value_behind_sign)
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
    end_of_mask = last + len(MASKED) if last >= 0 else 0
    return masked[: max(len(masked) - REACH_CHARACTERS, end_of_mask)], True


def _hide(match: re.Match[str]) -> str:
    """Keep the name before a secret, and the quotes around it."""
    groups = match.groupdict("")
    name = groups.get("name", "")
    quote = groups.get("quote", "")
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
        hints: in lower case; a text without any of them has no such secret.
        hide: returns what replaces a match.
    """

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    hide: Callable[[re.Match[str]], str] = _hide


_ANY = ("",)

_START = r"(?:\b|_|(?<=[a-z])(?=[A-Z]))"
"""The start of a word, also inside ``client_secret`` and ``clientSecret``."""

_TOKENS = """
    ghp_ gho_ ghs_ ghu_ ghr_ github_pat_ glpat- glrt- gldt- glptt- xoxa- xoxb- xoxe- xoxp- xoxr-
    xoxs- xapp- rk_live_ sk_live_ rk_test_ sk_test_ whsec_ AIza ya29. GOCSPX- shpat_ shpca_ shppa_
    shpss_ sq0atp- sq0csp- dop_v1_ hvs. hvb. PMAK- NRAK- rubygems_ dckr_pat_ lin_api_ figd_ glsa_
    ATATT3 xkeysib- sntrys_ tskey- pscale_tkn_ pscale_pw_ nfp_ sbp_ ntn_ AGE-SECRET-KEY-
"""
"""Beginnings of tokens of known vendors: GitHub, GitLab, Slack, Stripe, Google, and so on."""

_SHAPES_OF_TOKENS = (
    r"npm_[A-Za-z0-9]{16,}+",
    r"hf_[A-Za-z0-9]{16,}+",
    r"gsk_[A-Za-z0-9]{16,}+",
    r"pypi-A[\w-]{12,}+",
    r"sk-(?=[\w-]{0,64}\d)[\w-]{16,}+",
    r"SG\.[\w-]{10,64}+\.[\w-]{10,}+",
    r"dapi[0-9a-f]{32}",
    r"SK[0-9a-f]{32}",
    r"\d{8,10}:AA[\w-]{30,}+",
)
"""Tokens that begin as other words do: of npm, PyPI, OpenAI, SendGrid and so on."""

_NUMBER_WORD = r"(?i:[ _-]?(?:number|num|no|nr))?+[\s\"'\\:=.#(]{0,12}+"

_QUOTE = r"(?:\\{0,31}+[\"']|\\{1,31}+u002[27]|&quot;|&apos;|&#3[49];|%2[27])"
"""Also inside JSON within JSON, and as HTML and URLs write it."""

ELEMENT = re.compile(
    r"<(?P<name>[\w.:-]{1,128}+)(?:\s[^<>]{0,256}+)?+(?<!/)>\s{0,16}+(?:<!\[CDATA\[)?+"
)
"""The start of an XML element, up to its content."""

_NAME = r"\w{1,128}+(?:-\w{1,64}+){0,8}+"
OPTION = re.compile(rf"(?<![\w-])--(?P<name>{_NAME})[\"']?+,?+\s{{1,16}}+(?!-)")
"""An option of a command, up to its value in the next word: ``--password x``."""

SIGN = re.compile(r"(?P<sign>=(?:>|={0,2}+)|:(?!:)=?+|->|%3[ADad])\s{0,16}+")
"""The characters between a name and its value."""

NAME_BACKWARDS = re.compile(
    r"\s{0,16}+(?P<end>[\])]{0,2}+)(?P<quote>[\"']\\{0,31}+|[72]200u\\{1,31}+|;touq&|;sopa&|;[94]3#&|[72]2%)?+"
    rf"(?P<name>{_NAME}(?: (?i:ssecca|tnuocca|ipa|drac|afm|etavirp|yrevocer|terces|ytiruces|gningis"
    r"|noitacifirev)\b)?+)"
)
"""A name before a sign, from its end: ``password=``, ``'pin': ``, ``user[token] =>``, ``api key:``.

Few words are before a sign, so it takes less time to look for the sign first.
"""

_BACKWARDS_CHARACTERS = 256

_NEXT_NAME = r"(?:amp;)?+[\w.\[\]%-]{1,64}+\s{0,4}+(?:[=:]|->)"
_PLAIN = (
    r"(?:[^\s\"'\\&,;}\])%]"
    # Signs that may be part of a value, if neither the end of all nor another name follows.
    rf"|[&,;](?=[^\s\"'\\])(?!{_NEXT_NAME})"
    r"|[\"'](?=\w)|[}\])](?=[^\s.,;&}\])\"'\\])|%(?!26|2[27])"
    r"|\\(?!\\{0,31}+[\"']|[nrtu]))++"
)
PLAIN_VALUE = re.compile(_PLAIN)
"""A value without quotes: up to a blank, or to what separates it from the next name."""

QUOTED_VALUE = re.compile(
    rf"(?:[A-Za-z]{{1,16}}+\(|[bBfLrRuU]{{1,2}}+)?+(?P<quote>{_QUOTE})"
    r"(?P<inside>(?:(?!(?<!\\)(?P=quote)).)*+)",
    re.DOTALL,
)
"""Up to the closing quote, or to the end of a text that was cut."""

_INSIDE = r"[^(){}\[\]]*+"
_BRACKETS = _INSIDE
for _ in range(3):
    _BRACKETS = rf"{_INSIDE}(?:[(\[{{]{_BRACKETS}[)\]}}]?+{_INSIDE})*+"
BRACKETS_VALUE = re.compile(rf"[(\[{{]{_BRACKETS}[)\]}}]?+")
"""An object, a list or a tuple."""

_COOKIE = r"(?:[^\s\"'\\;,]|,(?=\S)|[\"'](?=[\w;]))++"
COOKIES_VALUE = re.compile(rf"{_COOKIE}(?:;[ \t]{{0,4}}+{_COOKIE})*+")

CREDENTIALS_VALUE = re.compile(
    r"(?:(?:[A-Z][\w-]{0,40}+|(?i:basic|bearer|token|digest|api-?key|key|jwt|hmac|negotiate|ntlm))"
    r"[ \t]{1,16}+(?=\S))?+"
    rf"(?:[\w-]{{1,64}}+=[ \t]{{0,4}}+)?+(?:\"[^\"]*+\"?+|{_PLAIN})"
    r"(?:,[ \t]{0,4}+[\w-]{1,64}+=(?:\"[^\"]*+\"?+|[^\s\",]++))*+"
)
"""A scheme, its credentials, and more parameters, as in ``Digest username="x", response="y"``."""

_ELEMENT_VALUE = re.compile(r"(?:(?!</|\]\]>).)++", re.DOTALL)
_ELEMENT_CHARACTERS = 4096
_BRACKETS_CHARACTERS = 512

_Span = tuple[int, int]


def _hide_values(
    text: str, names: re.Pattern[str], value_of: Callable[[re.Match[str]], _Span | None]
) -> str:
    """Replace the value behind each match of *names* of which *value_of* returns a place."""
    parts: list[str] = []
    copied = position = 0
    while match := names.search(text, position):
        span = value_of(match)
        position = match.end()
        if span is not None:
            start, position = span
            parts += [text[copied:start], MASKED]
            copied = position
    return "".join([*parts, text[copied:]]) if parts else text


def _value_of_element(match: re.Match[str]) -> _Span | None:
    name = match["name"]
    text = match.string
    value = is_secret_name(name) and _ELEMENT_VALUE.match(text, match.end())
    if not value:
        return None

    end = value.end()
    closing = f"</{name}"
    if text.startswith("</", end) and not text.startswith(closing, end):
        # Other elements are inside.
        last = text.find(closing, end, end + _ELEMENT_CHARACTERS)
        end = last if last >= 0 else end
    return value.start(), end


def _value_of_option(match: re.Match[str]) -> _Span | None:
    is_secret = names_value(match["name"], is_field=False)
    return _span_of_value(match["name"], match, is_field=False) if is_secret else None


def _value_behind_sign(match: re.Match[str]) -> _Span | None:
    end = match.start()
    backwards = match.string[max(0, end - _BACKWARDS_CHARACTERS) : end][::-1]
    before = NAME_BACKWARDS.match(backwards)
    if not before:
        return None
    name = before["name"][::-1]
    is_field = bool(before["end"] or before["quote"]) or match["sign"] not in (":", "->")
    if before["quote"]:
        # As in JSON.
        is_secret = is_secret_name(name)
    elif backwards.startswith("\\", before.end()):
        # In JSON within JSON a line ends with a backslash and "n".
        is_secret = names_value(name[1:], is_field=is_field)
    else:
        is_secret = names_value(name, is_field=is_field)
    return _span_of_value(name, match, is_field=is_field) if is_secret else None


def _span_of_value(name: str, match: re.Match[str], *, is_field: bool) -> _Span | None:
    """Return the span of the value that begins behind *match*; None without one."""
    text = match.string
    start = match.end()
    if quoted := QUOTED_VALUE.match(text, start):
        return quoted.span("inside")
    if quoted := QUOTED.match(text, start):
        return start + 1, quoted.end() - 1

    pattern = PLAIN_VALUE
    if name.lower().endswith(("cookie", "cookies")):
        pattern = COOKIES_VALUE
    elif name.lower().endswith("authorization"):
        pattern = CREDENTIALS_VALUE

    end_of_search = len(text) if is_field else start + _BRACKETS_CHARACTERS
    brackets = BRACKETS_VALUE.match(text, start, end_of_search)
    # "Unexpected token: {" opens nothing.
    if brackets and (is_field or brackets[0][-1] in ")]}"):
        # Text that follows directly is a part of it: a bracket inside need not have its pair.
        start = brackets.end()
        pattern = PLAIN_VALUE

    value = pattern.match(text, start)
    end = value.end() if value else start
    return (match.end(), end) if end > match.end() else None


def _hide_columns(match: re.Match[str]) -> str:
    names = match["columns"].split(",")
    is_secret = any(is_secret_name(name) for name in names)
    return f"{match['name']}{MASKED}" if is_secret else match[0]


_OF_WORDS = (
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
    Pattern(
        ("://",),
        re.compile(
            # A password may have "@" or "/" in it, but a number before "/" is a port.
            r"(?<=://)[^/\s:@\[]{0,256}+:(?!\d{1,5}+(?:[/?#]|\Z|\s))"
            r"(?:[^/\s@]{1,256}+(?:@[^/\s@]{1,64}+(?=@)){0,4}+|[^\s@\"'<>]{1,256}+)(?=@)"
        ),
    ),
    # Of a driver of Go: no URL.
    Pattern(
        ("@tcp(", "@unix("),
        re.compile(r"(?<![\w.-])[\w.-]{1,64}+:[^\s@]{1,256}+(?=@(?:tcp|unix)\()"),
    ),
    Pattern(
        ("hooks.slack", "webhook"),
        re.compile(
            r"(?P<name>\bhooks\.slack\.com/(?:services|workflows|triggers)/"
            r"|\bdiscord(?:app)?\.com/api/webhooks/|\.webhook\.office\.com/)[^\s\"'<>\\]++"
        ),
    ),
    Pattern(("@", "%40"), EMAIL),
    # As PostgreSQL names columns and their values.
    Pattern(
        (")=(",),
        re.compile(
            r"(?P<name>\((?P<columns>[^()]{0,128}+(?:\([^()]{0,64}+\)[^()]{0,128}+){0,3}+)\)=\()"
            r"(?:[^)]|\)(?![\s.,;\"'\\]|\Z))++"
        ),
        _hide_columns,
    ),
    Pattern(("bearer", "basic"), re.compile(r"(?i)\b(?:bearer|basic)\s{1,16}+[\w.~+/=-]{8,}+")),
    # A JWT, or any other JSON in base64, whose content cannot be judged.
    Pattern(("eyj",), re.compile(r"\beyJ[\w.+/=-]{17,}+")),
    Pattern(("akia", "asia"), re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
)
_OF_TOKENS = (
    # GitHub, GitLab, Slack, Stripe, Google, Shopify, Square, DigitalOcean, Vault, Postman, New
    # Relic, RubyGems, Docker, Linear, Figma, Grafana, Atlassian, Brevo, Sentry, Tailscale,
    # PlanetScale, Netlify, Supabase, Notion, age. Then those whose start is that of other words,
    # too: npm, Hugging Face, Groq, PyPI, OpenAI, SendGrid, Databricks, Twilio, Telegram.
    Pattern(
        _ANY,
        re.compile(
            r"\b(?:(?:gh[opsur]_|github_pat_|gl(?:pat|rt|dt|ptt)-|xox[abeprs]-|xapp-"
            r"|[rs]k_(?:live|test)_|whsec_|AIza|ya29\.|GOCSPX-|shp(?:at|ca|pa|ss)_|sq0(?:atp|csp)-"
            r"|dop_v1_|hv[bs]\.|PMAK-|NRAK-|rubygems_|dckr_pat_|lin_api_|figd_|glsa_|ATATT3"
            r"|xkeysib-|sntrys_|tskey-|pscale_(?:tkn|pw)_|nfp_|sbp_|ntn_|AGE-SECRET-KEY-)"
            r"[\w-]{10,}+"
            r"|(?:npm|hf|gsk)_[A-Za-z0-9]{16,}+|pypi-A[\w-]{12,}+"
            r"|sk-(?=[\w-]{0,64}\d)[\w-]{16,}+|SG\.[\w-]{10,64}+\.[\w-]{10,}+"
            r"|(?:dapi|SK)[0-9a-f]{32}|\d{8,10}:AA[\w-]{30,}+)"
        ),
    ),
)
_OF_NAMED_NUMBERS = (
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
    Pattern(
        ("iban", "card"),
        re.compile(
            rf"(?P<name>{_START}(?i:iban|card){_NUMBER_WORD})"
            r"[A-Z]{0,2}\d(?:[ -]?[A-Z0-9]){11,40}(?!\w)"
        ),
    ),
)
# Each begins with a character, so that the search skips to it.
_OF_LONG_NUMBERS = (
    Pattern(_ANY, re.compile(r"\d(?<![\w-]\d)\d{2}-\d{2}-\d{4}(?![\w-])")),
    Pattern(_ANY, re.compile(r"\d(?<![\w.-]\d)(?:[ -]?\d){12,18}(?![\w-]|\.\d)"), _if(_is_card)),
    Pattern(
        _ANY,
        re.compile(r"[A-Z](?<!\w[A-Z])[A-Z]\d{2}(?: ?[A-Z0-9]{4}){2,7}+(?: ?[A-Z0-9]{1,3})?+\b"),
        _if(_is_iban),
    ),
    Pattern(_ANY, re.compile(r"\+(?<![\w+]\+)[1-9](?:[ ()./-]{0,2}\d){7,14}(?!\w)")),
    Pattern(
        _ANY,
        re.compile(
            r"\d(?<![\w.-]\d)(?:(?<=1)[ .-](?:\(\d{3}\) ?|\d{3}[.-])|\d\d[.-])"
            r"\d{3}[.-]\d{4}(?![\w-]|\.\d)"
        ),
    ),
    Pattern(_ANY, re.compile(r"\((?<![\w.-]\()\d{3}\) ?\d{3}[.-]\d{4}(?![\w-]|\.\d)")),
)

_PASSES = (
    (re.compile(""), _OF_WORDS),
    (re.compile(r"\S{14}"), _OF_TOKENS),
    (re.compile(r"\d"), _OF_NAMED_NUMBERS),
    (re.compile(r"\d(?:[ ()./-]{0,2}\d){7}"), _OF_LONG_NUMBERS),
)
"""A pattern that a text must have, and those that are then applied, each on the last result."""

PATTERNS = tuple(secret for _, patterns in _PASSES for secret in patterns)
