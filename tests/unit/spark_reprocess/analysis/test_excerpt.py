import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.text.masks import MASKED
from spark_reprocess.analysis.groups.mask import Masks, compile_masks, excerpt
from tests.property.strategies import json_values

SECRET = "tok-4711-hunter2"


def test_small_json_is_shown_whole() -> None:
    value = {"n": [1, 2.5, None, True, "ä"], "o": {"p": {}}, "q": ""}
    assert json.loads(excerpt(json.dumps(value), Masks())) == value


@given(st.text() | json_values.map(json.dumps), st.integers(20, 200))
def test_no_excerpt_is_longer_than_it_may_be(body: str, characters: int) -> None:
    assert len(excerpt(body, Masks(), characters)) <= characters


SURROGATES = st.text(st.characters(categories=("Cs", "L")))


@given(
    st.recursive(SURROGATES, lambda inside: st.lists(inside) | st.dictionaries(SURROGATES, inside))
)
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
