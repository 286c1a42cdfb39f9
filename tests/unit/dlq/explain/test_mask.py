import base64
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.explain.signature.mask import (
    SAMPLE_CHARACTERS,
    Masks,
    compile_masks,
    shorten,
)
from dlq.redrive.resolving.editor import edit_sample
from dlq_replay.text.masks import MASKED
from dlq_replay.text.secret_names import is_secret_name
from dlq_replay.wire.attributes import MessageAttribute
from tests.property.strategies import json_of, json_values
from tests.support.builders import message


def excerpt(body: str, masks: Masks, characters: int = 1500) -> str:
    return masks.value("body", body, characters)


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "passwd",
        "userPassword",
        "DB_PASSWORD",
        "PASSWORD",
        "pwd",
        "pin",
        "otp",
        "apiKey",
        "api_key",
        "API-KEY",
        "x-api-key",
        "accessToken",
        "refresh_token",
        "jwt",
        "clientSecret",
        "secretKey",
        "Authorization",
        "Set-Cookie",
        "privateKey",
        "credentials",
        "iban",
        "IBAN",
        "cardNumber",
        "card_number",
        "cvv",
        "ssn",
        "accountNumber",
        "card_no",
        "cardNo",
        "creditCardNo",
        "geburtsdatum",
        "X-Amz-Signature",
        "sig",
    ],
)
def test_a_key_that_names_a_secret_hides_its_value(key: str) -> None:
    assert is_secret_name(key)
    assert Masks().value(f"body.{key}", "short") == MASKED
    assert Masks().tree("body", {key: {"a": ["1"]}}) == {key: MASKED}


@pytest.mark.parametrize(
    "key",
    [
        "id",
        "spinner",
        "pinned",
        "tokenizer",
        "secretary",
        "passenger",
        "compass",
        "monkey",
        "key",
        "account",
        "number",
        "card",
        "cookieless",
        "publicKey",
        "keyword",
        "session",
    ],
)
def test_a_key_that_only_resembles_one_does_not(key: str) -> None:
    assert not is_secret_name(key)


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
    shown = excerpt(body, Masks())

    assert "***" in shown
    assert "hunter2" not in shown


def test_a_masked_field_is_hidden_with_all_below_it() -> None:
    masks = compile_masks(["body.customer"])
    body = json.dumps({"customer": {"name": "Ann", "pets": ["Rex"]}, "total": 5})

    assert json.loads(excerpt(body, masks)) == {"customer": "***", "total": 5}


def test_a_masked_field_is_hidden_within_json_in_a_text() -> None:
    masks = compile_masks(["body.message.customer"])
    body = json.dumps({"message": json.dumps({"customer": {"name": "Ann"}, "total": 5})})

    for characters in (None, 1500):
        shown = json.loads(masks.value("body", body, characters))
        assert json.loads(shown["message"]) == {"customer": "***", "total": 5}


def test_bytes_are_shown_by_their_size() -> None:
    assert excerpt(base64.b64encode(bytes(300)).decode(), Masks()) == "base64 of 300 bytes"


HIDDEN = {
    "a name": '{"otp": "493021", "n": "shown"}',
    "a number": '{"pin": 493021, "n": "shown"}',
    "a list": '{"tokens": ["493021", 493021], "n": "shown"}',
    "an object": '{"secret": {"a": {"b": "493021"}}, "n": "shown"}',
    "JSON in a text": '{"n": "shown", "Message": "{\\"otp\\": \\"493021\\"}"}',
    "JSON in JSON in a text": json.dumps(
        {"n": "shown", "m": json.dumps({"d": '{"otp": "493021"}'})}
    ),
    "base64": json.dumps(
        {"n": "shown", "data": base64.b64encode(b'[1, {"otp": "493021"}]').decode()}
    ),
    "a key that is a secret": '{"n": "shown", "anna493021@example.com": 1}',
    "two keys that are secrets": '{"n": 1, "a493021@b.de": "shown", "c493021@b.de": 1}',
    "a key twice": '{"k": {"otp": "493021"}, "k": 1, "n": "shown"}',
    "an account": '{"account": 493021493021, "n": "shown"}',
    "pairs": "otp=493021&n=shown",
    "XML": "<a><otp>493021</otp><n>shown</n></a>",
    "not quite JSON": "{'otp': '493021', 'n': 'shown'}",
}
"""Texts, each with a secret that has the digits 493021, and with a word that is none."""


def preview(body: str, attributes: dict[str, MessageAttribute]) -> str:
    """The lines that a preview of an edit shows of all of a message."""
    before = message("m-1", "", {})
    after = message("m-1", body, attributes)
    return "\n".join(edit_sample("g-1", before, after, Masks()).lines)


PLACES: dict[str, Callable[[str], str]] = {
    "a sample's body": lambda text: Masks().value("body", text, SAMPLE_CHARACTERS),
    "a sample's attribute": lambda text: Masks().value("attribute.x", text, 200),
    "a difference": lambda text: Masks().value("body.x", text),
    "a whole body": lambda text: Masks().value("body", text),
    "a whole attribute": lambda text: Masks().value("attribute.x", text),
    "an edit's body": lambda text: preview(text, {}),
    "an edit's attribute": lambda text: preview("", {"x": MessageAttribute("String", text)}),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", HIDDEN)
def test_every_place_hides_the_same(place: str, form: str) -> None:
    shown = PLACES[place](HIDDEN[form])

    assert "493021" not in shown
    assert MASKED in shown
    assert "shown" in shown


@pytest.mark.parametrize("place", PLACES)
def test_no_place_changes_what_hides_nothing(place: str) -> None:
    text = '{"n":1.10,"big":1e400,"t":"{\\"a\\":1}","k":[true,null,"ä"]}'

    shown = PLACES[place](text)

    for part in ("1.10", "1e400", '{\\"a\\":', "true", "null", '"ä"'):
        assert part in shown


@pytest.mark.parametrize("field", ["attribute.signature", "attribute.password", "body.pin"])
def test_a_field_with_the_name_of_a_secret_is_hidden_whatever_it_holds(field: str) -> None:
    assert [Masks().value(field, value) for value in ("short", '{"a":1}', b"abc")] == [MASKED] * 3


def test_a_whole_value_that_hides_nothing_is_as_it_was_written() -> None:
    for text in ('{ "a":1.10 }', '"x"', "[]", "007", "3f2b" * 16, " two  blanks\n"):
        assert Masks().value("attribute.x", text) == text


def test_bytes_have_a_size() -> None:
    assert Masks().value("attribute.x", bytes(3000)) == "3,000 bytes"


def test_json_of_any_depth_is_masked() -> None:
    deep = '{"a":' * 90 + '{"otp":"493021","n":1}' + "}" * 90
    deeper = '{"a":' * 3000 + '{"otp":"493021","n":1}' + "}" * 3000

    for text in (deep, deeper):
        shown = Masks().value("body", text)
        assert "493021" not in shown
        assert shown.startswith('{"a":')
