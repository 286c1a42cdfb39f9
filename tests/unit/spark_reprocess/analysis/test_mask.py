import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.text.masks import MASKED
from spark_reprocess.analysis.groups.mask import (
    Masks,
    compile_masks,
    excerpt,
    is_secret_key,
    shorten,
)
from tests.property.strategies import json_of, json_values


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


SECRET = "tok-4711-hunter2"


def test_small_json_is_shown_whole() -> None:
    value = {"n": [1, 2.5, None, True, "ä"], "o": {"p": {}}, "q": ""}
    assert json.loads(excerpt(json.dumps(value), Masks())) == value


@given(st.text() | json_values.map(json.dumps), st.integers(20, 200))
def test_no_excerpt_is_longer_than_it_may_be(body: str, characters: int) -> None:
    assert len(excerpt(body, Masks(), characters)) <= characters


SURROGATES = st.text(st.characters(categories=("Cs", "L")))


@given(json_of(SURROGATES, SURROGATES))
def test_half_a_character_is_spelt_as_json_spells_it(value: object) -> None:
    shown = excerpt(json.dumps(value), Masks())

    shown.encode()
    if len(json.dumps(value)) < 200 and MASKED not in shown:
        assert json.loads(shown) == json.loads(json.dumps(value))


def test_large_json_is_cut_inside_and_stays_json() -> None:
    body = json.dumps(
        {
            "items": [{"sku": f"S-{n}", "note": "x" * 900} for n in range(300)],
            **{f"field_{n}": {"deep": {"deeper": list(range(99))}} for n in range(50)},
        }
    )

    shown = json.loads(excerpt(body, Masks()))

    assert "items" in shown
    assert "…" in json.dumps(shown, ensure_ascii=False)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"password": SECRET}),
        json.dumps({"a": {"b": [{"apiKey": SECRET}]}}),
        json.dumps({"Message": json.dumps({"password": SECRET})}),
        json.dumps({"note": "x" * 380 + f" password={SECRET}"}),
        base64.b64encode(json.dumps({"password": SECRET}).encode()).decode(),
        json.dumps({"data": base64.b64encode(f"password={SECRET} and more".encode()).decode()}),
        f"login failed, password={SECRET}",
        json.dumps(json.dumps({"token": SECRET})),
    ],
)
def test_a_secret_is_hidden_however_it_is_wrapped(body: str) -> None:
    assert "hunter2" not in excerpt(body, Masks())


def test_a_masked_field_is_hidden_with_all_below_it() -> None:
    masks = compile_masks(["body.customer"])
    body = json.dumps({"customer": {"name": "Ann", "pets": ["Rex"]}, "total": 5})

    assert json.loads(excerpt(body, masks)) == {"customer": "***", "total": 5}


def test_bytes_are_shown_by_their_size() -> None:
    assert excerpt(base64.b64encode(bytes(300)).decode(), Masks()) == "base64 of 300 bytes"
