"""The patterns of secrets: what they hide, and that no text makes them slow."""

import re
import re._compiler as compiler  # type: ignore[import-not-found]
import re._constants as c  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.explain.signature import signature
from dlq.explain.signature.mask import Masks
from dlq_replay.text import masks
from dlq_replay.text.masks import MASKED, PATTERNS, REACH_CHARACTERS, mask_start, mask_text
from tests.support.golden import assert_stored, stored_texts

MOST_REPEATS = 256
_ALPHABET = [chr(n) for n in range(0x250)]
_REPEATS = (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)
_WITHOUT_WIDTH = (c.AT, c.ASSERT, c.ASSERT_NOT)
_REFERENCE_CHARACTERS = 32
Characters = frozenset[str]


def faults(pattern: re.Pattern[str], *, is_anchored: bool = False) -> list[str]:
    """Say what could make *pattern* take more than time in proportion to the text.

    Time is in proportion to the text where each attempt at a match is bounded, or uses up what it
    reads:

    - A repeat has an upper bound, or nothing that follows it can fail: then the match has
      succeeded, and the next attempt begins behind it.
    - A repeat never gives back what it took (it is possessive), or no character of it can begin
      what follows: then there is one way to match a text, and nothing to try again.

    Args:
        pattern: the pattern.
        is_anchored: whether it is tried at one place only; then a repeat may be unbounded.
    """
    return list(_faults(_tree(pattern), frozenset(), fails_later=False, is_anchored=is_anchored))


def reach(pattern: re.Pattern[str]) -> int:
    """Return how many characters *pattern* reads at most, but for its unbounded end."""
    return _reach(_tree(pattern))


def _tree(pattern: re.Pattern[str]) -> Any:
    return parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)


def _faults(
    items: Any, follow: Characters, *, fails_later: bool, is_anchored: bool
) -> Iterator[str]:
    for place, (kind, argument) in enumerate(items):
        rest = items[place + 1 :]
        after = _first(rest) | (follow if _may_be_empty(rest) else frozenset())
        can_fail = fails_later or any(not _is_optional(*following) for following in rest)
        if kind in _REPEATS:
            least, most, body = argument
            first = _first(body)
            if most > MOST_REPEATS and (can_fail or kind is c.MIN_REPEAT) and not is_anchored:
                yield f"unbounded, and what follows can fail: {body}"
            if kind is not c.POSSESSIVE_REPEAT and least != most and first & after:
                yield f"can end in several places: {body}"
            after |= first if most > 1 else frozenset()
        for body in _bodies(kind, argument):
            yield from _faults(body, after, fails_later=can_fail, is_anchored=is_anchored)


def _bodies(kind: Any, argument: Any) -> Sequence[Any]:
    if kind in _REPEATS:
        return [argument[2]]
    if kind is c.SUBPATTERN:
        return [argument[3]]
    if kind is c.BRANCH:
        return list(argument[1])
    return [argument] if kind is c.ATOMIC_GROUP else []


def _is_optional(kind: Any, argument: Any) -> bool:
    return kind in _REPEATS and bool(argument[0] == 0)


def _may_be_empty(items: Any) -> bool:
    return bool(items.getwidth()[0] == 0)


def _first(items: Any) -> Characters:
    """The characters that can begin what *items* match."""
    characters: Characters = frozenset()
    for place, (kind, argument) in enumerate(items):
        part = items[place : place + 1]
        if bodies := _bodies(kind, argument):
            characters = characters.union(*map(_first, bodies))
        elif kind is c.GROUPREF:
            characters |= frozenset("\\\"'")
        elif kind not in _WITHOUT_WIDTH:
            # Either case: a part of the pattern may not care.
            for flags in (0, re.IGNORECASE):
                characters |= frozenset(filter(compiler.compile(part, flags).fullmatch, _ALPHABET))
        if not _may_be_empty(part):
            break
    return characters


def _reach(items: Any) -> int:
    total = 0
    for kind, argument in items:
        bodies = [_reach(body) for body in _bodies(kind, argument)]
        if kind in _REPEATS:
            total += bodies[0] * (argument[1] if argument[1] <= MOST_REPEATS else argument[0])
        elif kind is c.GROUPREF:
            total += _REFERENCE_CHARACTERS
        elif kind not in _WITHOUT_WIDTH:
            total += max(bodies, default=1)
    return total


@pytest.mark.parametrize(
    "pattern",
    [*(secret.pattern for secret in PATTERNS), masks.ELEMENT, masks.OPTION, masks.SIGN],
    ids=lambda p: p.pattern[:30],
)
def test_the_time_that_a_pattern_takes_grows_with_the_text_alone(pattern: re.Pattern[str]) -> None:
    assert faults(pattern) == []
    assert reach(pattern) <= REACH_CHARACTERS


@pytest.mark.parametrize(
    "value",
    [
        masks.NAME_BACKWARDS,
        masks.PLAIN_VALUE,
        masks.QUOTED_VALUE,
        masks.BRACKETS_VALUE,
        masks.COOKIES_VALUE,
        masks.CREDENTIALS_VALUE,
    ],
)
def test_a_value_is_read_once(value: re.Pattern[str]) -> None:
    assert faults(value, is_anchored=True) == []


def test_the_pattern_of_a_root_element_matches_in_one_way() -> None:
    assert faults(signature._XML, is_anchored=True) == []  # noqa: SLF001 - the pattern is the point


@pytest.mark.parametrize(
    "slow",
    [
        r"\beyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*",  # what stood here once: quadratic
        r"(?:a{1,9}){1,9}b",
        r"\d{1,9}\d{1,9}x",
        r"(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?",
        r"[a-z]*\Z",
        r"x.*?y",
    ],
)
def test_the_check_finds_what_can_be_slow(slow: str) -> None:
    assert faults(re.compile(slow))


@pytest.mark.parametrize("text", stored_texts("masks"))
def test_what_identifies_a_person_or_opens_a_door_is_hidden_and_nothing_else(text: str) -> None:
    assert_stored("masks", text, mask_text(text))


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("eyJ" + "hbGciOi" * 700, "***"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nMII-E\n-----\nMIIF", "***"),
        (
            '<ns:userPin type="x">\n 12\n</ns:userPin> ok',
            '<ns:userPin type="x">\n ***</ns:userPin> ok',
        ),
    ],
)
def test_a_secret_of_several_lines_is_hidden(text: str, masked: str) -> None:
    assert mask_text(text) == masked


AT_END_OF_WORD = """
    password passwords passwd passphrase passcode passwort kennwort pwd secret secrets token tokens
    credential credentials api_key access_key secret_key private_key signing_key account_key
    encryption_key session_id card_number ssn
"""
IN_TEXT = """
    authorization cookie master_key auth_key subscription_key shared_key otp mfa_code recovery_code
    verification_code security_code iban cvv cvc card_no
"""
OF_FIELDS = """
    pass pw pin jwt bearer cookies signature sig senha contrasena wachtwoord motdepasse sid sessid
    csrf xsrf dsn connection_string connection_str conn_string conn_str totp recovery_codes
    backup_code backup_codes auth_code authorization_code code_verifier sms_code seed_phrase
    mnemonic saml_response saml_assertion client_assertion app_key application_key service_key
    storage_key license_key webhook_key hmac_key session_key decryption_key deploy_key write_key
    consumer_key client_key ssh_key social_security social_insurance national_insurance national_id
    passport nino cpf aadhaar aadhar bsn dni nif curp pesel personnummer nhs_number tax_id
    tax_number tax_no steuer_id steuernummer drivers_license driver_license driving_licence bban
    account_number account_no acct_number bank_account kontonummer sort_code routing_number pan
    credit_card cc_number cc_num cc_no phone phones phone_number telephone cellphone mobile
    mobilephone tel fax msisdn whatsapp birth birthdate birthday dateofbirth born dob geb
    geburtsdatum gebdatum
"""
TOKENS = """
    ghp_ gho_ ghs_ ghu_ ghr_ github_pat_ glpat- glrt- gldt- glptt- xoxa- xoxb- xoxe- xoxp- xoxr-
    xoxs- xapp- rk_live_ sk_live_ rk_test_ sk_test_ whsec_ AIza ya29. GOCSPX- shpat_ shpca_ shppa_
    shpss_ sq0atp- sq0csp- dop_v1_ hvs. hvb. PMAK- NRAK- rubygems_ dckr_pat_ lin_api_ figd_ glsa_
    ATATT3 xkeysib- sntrys_ tskey- pscale_tkn_ pscale_pw_ nfp_ sbp_ ntn_ AGE-SECRET-KEY-
"""
LONG_TOKENS = "npm_ hf_ gsk_ pypi-A sk- SG.0123456789. dapi SK 12345678:AA"


@pytest.mark.parametrize(
    ("words", "value", "masked"),
    [
        (AT_END_OF_WORD + IN_TEXT, ": x1", "{}: ***"),
        (OF_FIELDS, "=x1", "{}=***"),
        (TOKENS, "0123456789", "***"),
        (LONG_TOKENS, "0123456789abcdef" * 2, "***"),
        ("AKIA ASIA", "0123456789ABCDEF", "***"),
        ("bearer basic", " 01234567", "***"),
        ("birth born dob geb geboren geburt", " 1980-05-03", "{} ***"),
        ("telephone cellphone mobilephone phone mobile tel fax", " 0170 123456", "{} ***"),
        ("msisdn whatsapp sortcode routing", " 0170 123456", "{} ***"),
        ("account acct konto", " 12345678", "{} ***"),
        ("iban card", " 1234 5678 9012", "{} ***"),
    ],
)
def test_what_follows_each_word_of_a_secret_is_hidden(words: str, value: str, masked: str) -> None:
    for name in words.split():
        assert mask_text(name + value) == masked.format(name)


@pytest.mark.parametrize("name", AT_END_OF_WORD.replace("_", "").split())
def test_a_long_name_is_known_at_the_end_of_a_word(name: str) -> None:
    assert mask_text(f"pg{name}: x1, PG{name.upper()}=x1") == f"pg{name}: ***, PG{name.upper()}=***"
    assert Masks().hides(f"body.pg{name}")


@pytest.mark.parametrize("name", (AT_END_OF_WORD + IN_TEXT + OF_FIELDS).split())
def test_a_field_of_each_name_of_a_secret_is_hidden(name: str) -> None:
    for form in (name, name.replace("_", "")):
        assert mask_text(f"<{form}>x1</{form}>") == f"<{form}>***</{form}>"
        assert Masks().hides(f"body.{form}")


@pytest.mark.parametrize(
    "card",
    [
        "2223003122003222",
        "378282246310005",
        "4111 1111 1111 1111",
        "5555-5555-5555-4444",
        "6011111111111117",
    ],
)
def test_a_card_of_each_first_digit_is_hidden(card: str) -> None:
    assert mask_text(f"card {card} declined, code {card[:-1]}0") == (
        f"card *** declined, code {card[:-1]}0"
    )
    assert mask_text(f"paid with {card}") == "paid with ***"


@pytest.mark.parametrize(
    "secret",
    [
        "bob@example.com",
        "4111 1111 1111 1111",
        "DE89 3704 0044 0532 0130 00",
        "+49 30 1234567",
        "born 1980-05-03",
        "password=hunter2",
        "redis://user:hunter2@host",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2ln",
    ],
)
@pytest.mark.parametrize("filler", ["x ", "bob@example.com "])
def test_no_place_of_the_cut_shows_half_a_secret(secret: str, filler: str) -> None:
    halves = [secret[:end] for end in range(len(secret) // 2, len(secret))]
    for place in range(4100, 4400, 7):
        text = (filler * 4400)[:place] + " " + secret + " more" * 2000
        shown, is_cut = mask_start(text, 200)

        assert is_cut
        assert not any(shown.endswith(f" {half}") for half in halves)


@given(st.text(max_size=300))
def test_a_short_text_is_not_cut(text: str) -> None:
    assert mask_start(text, 1) == (mask_text(text), False)


def test_a_long_secret_is_one_mark() -> None:
    assert mask_start("eyJ" + "a" * 10**6, 200) == (MASKED, True)
