import pytest

from dlq_replay.text.masks import MASKED
from spark_reprocess.analysis.groups.mask import Masks, compile_masks, is_secret_key, shorten


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


@pytest.mark.parametrize(("text", "most", "short"), [("a\n b", 10, "a b"), ("abcdef", 4, "abc…")])
def test_a_text_is_one_line_and_marked_where_it_is_cut(text: str, most: int, short: str) -> None:
    assert shorten(text, most) == short
