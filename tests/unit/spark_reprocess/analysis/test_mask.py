import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.masks import MASKED
from spark_reprocess.analysis.groups.mask import Masks, compile_masks, is_secret_key, shorten
from spark_reprocess.errors import InputError

IBAN = "DE89 3704 0044 0532 0130 00"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("mail bob.smith+x@mail.example.com now", "mail *** now"),
        ("card 4111 1111 1111 1111 charged", "card *** charged"),
        ("card 4111-1111-1111-1111", "card ***"),
        ("Authorization: Bearer abc.def-ghi_123", "Authorization: ***"),
        ("jwt eyJhbGciOi.eyJzdWIiOi.c2ln", "jwt ***"),
        ('{"password": "hunter2", "user": "bob"}', '{"password": "***", "user": "bob"}'),
        ("card 5555555555554444, please", "card ***, please"),
        ("amex 378282246310005", "amex ***"),
        (f"to {IBAN} now", "to *** now"),
        (f"to {IBAN.replace(' ', '')}", "to ***"),
        ("ssn 078-05-1120", "ssn ***"),
        ("key AKIAIOSFODNN7EXAMPLE used", "key *** used"),
        ("ghp_0123456789abcdefghij", "***"),
        ("sk_live_0123456789abc", "***"),
        ("basic dXNlcjpwYXNz", "***"),
        ("amqp://user:hunter2@host/v", "amqp://***@host/v"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- end", "*** end"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut", "***"),
        ("password=hunter2&user=bob", "password=***&user=bob"),
        ("DB_PASSWORD: hunter2", "DB_PASSWORD: ***"),
        ("api_key='hunter 2', x", "api_key='***', x"),
        ('{\\"token\\": \\"hunter2\\"}', '{\\"token\\": \\"***\\"}'),
        ('"secret": "cut in the mid', '"secret": "***"'),
    ],
)
def test_what_looks_secret_is_hidden(text: str, masked: str) -> None:
    assert compile_masks([]).text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "order 4711 of 2026-11-21",
        "4111 1111 1111 1112 fails the check of cards",
        "1234567890123456 begins like no card",
        "DE89 3704 0044 0532 0130 07 fails the check of IBANs",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "1700000000123 ms",
        "2026-11-21T03:15:02.123456Z",
        "tokens are cheap, passwords too",
        "bearer of bad news",
        "https://host/path?x=1",
        "total 1234.5678901234567",
        "",
    ],
)
def test_what_only_resembles_a_secret_is_shown(text: str) -> None:
    assert Masks().text(text) == text


@pytest.mark.parametrize(
    "key",
    [
        *("password", "passwd", "userPassword", "DB_PASSWORD", "PASSWORD", "pwd", "pin", "otp"),
        *("apiKey", "api_key", "API-KEY", "x-api-key", "accessToken", "refresh_token", "jwt"),
        *("clientSecret", "secretKey", "Authorization", "Set-Cookie", "privateKey", "credentials"),
        *("iban", "IBAN", "cardNumber", "card_number", "cvv", "ssn", "accountNumber"),
        *("card_no", "cardNo", "creditCardNo", "geburtsdatum", "X-Amz-Signature", "sig"),
    ],
)
def test_a_key_that_names_a_secret_hides_its_value(key: str) -> None:
    assert is_secret_key(key)
    assert Masks().value(f"body.{key}", "short") == MASKED
    assert Masks().tree("body", {key: {"a": [1]}}) == {key: MASKED}


@pytest.mark.parametrize(
    "key",
    [
        *("id", "spinner", "pinned", "tokenizer", "secretary", "passenger", "compass", "monkey"),
        *("key", "account", "number", "card", "cookieless", "publicKey", "keyword", "session"),
    ],
)
def test_a_key_that_only_resembles_one_does_not(key: str) -> None:
    assert not is_secret_key(key)


@pytest.mark.parametrize(
    ("mask", "hidden", "shown"),
    [
        ("body.customer", ["body.customer", "body.customer.name"], ["body.customers", "body.id"]),
        ("body.items.sku", ["body.items[].sku"], ["body.items[].skus", "body.items"]),
        ("body.items[].sku", ["body.items[].sku", "body.items.sku"], ["body.items[].n"]),
        ("attribute.tenant", ["attribute.tenant"], ["attribute.tenants", "body.tenant"]),
        ("sender_id", ["sender_id"], ["source_arn"]),
    ],
)
def test_a_way_hides_a_field_with_all_below_it(
    mask: str, hidden: list[str], shown: list[str]
) -> None:
    masks = compile_masks([mask])

    assert [masks.value(field, "v") for field in hidden] == [MASKED] * len(hidden)
    assert [masks.value(field, "v") for field in shown] == ["v"] * len(shown)


def test_a_way_is_no_pattern_and_a_pattern_no_way() -> None:
    masks = compile_masks(["body.customer", r"body\.\d+", "acme"])

    assert masks.text("body.customer says body.17 of acme") == "body.customer says *** of ***"


def test_without_values_every_value_is_hidden_whatever_it_is() -> None:
    masks = compile_masks([], shows_values=False)

    assert masks.value("body.harmless", "1") == MASKED


WORDS = st.text(string.ascii_letters + string.digits + " .,:;=@/\\\"'{}-", max_size=60)


@given(WORDS, WORDS)
def test_a_secret_between_any_two_texts_is_hidden(before: str, after: str) -> None:
    text = json.dumps({"note": before, "password": "Xq9hunter2", "more": after})

    assert "Xq9hunter2" not in Masks().text(text)


@given(WORDS)
def test_masking_what_is_masked_changes_nothing(text: str) -> None:
    once = Masks().text(text)

    assert Masks().text(once) == once


def test_caller_adds_patterns_of_its_own() -> None:
    assert compile_masks([r"C-\d+"]).text("customer C-77 left") == "customer *** left"


def test_wrong_pattern_is_named_with_its_fault() -> None:
    with pytest.raises(InputError, match=r"--mask '\(': is no regular expression: missing \)"):
        compile_masks(["("])


def test_short_text_stays_on_one_line() -> None:
    assert shorten("a\n b", 10) == "a b"


def test_long_text_is_marked_where_cut() -> None:
    assert shorten("abcdef", 4) == "abc…"
