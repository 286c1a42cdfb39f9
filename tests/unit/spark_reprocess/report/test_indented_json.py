import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.report.texts import indented_json, looks_like_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_each_member_stands_on_a_line_of_its_own() -> None:
    text = '{"a":1.50,"a":[1,{"b":[]},{}],"text":"{not, a: \\" member}"}'

    assert indented_json(text) == (
        '{\n  "a": 1.50,\n  "a": [\n    1,\n    {\n      "b": []\n    },\n    {}\n  ],\n'
        '  "text": "{not, a: \\" member}"\n}'
    )


def test_json_that_was_cut_is_laid_out_as_far_as_it_goes() -> None:
    assert indented_json('{"a":{"b":"half a te') == '{\n  "a": {\n    "b": "half a te'
    assert indented_json('{"a":1}]]}') == '{\n  "a": 1\n}\n]\n]\n}'


@given(JSON)
def test_json_means_the_same_and_keeps_every_character_but_white_space(value: Any) -> None:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    shown = indented_json(text)

    assert json.loads(shown) == value
    assert without_space(shown) == without_space(text)


@given(st.text(st.sampled_from('{}[]",:\\ ab1\n')))
def test_no_text_loses_a_character_or_joins_two_words(text: str) -> None:
    shown = indented_json(text)

    assert without_space(shown) == without_space(text)
    assert indented_json(shown) == shown


def test_a_page_of_brackets_stays_a_page() -> None:
    assert len(indented_json("[" * 8_000)) < 8_000 * 30


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", True),
        (" [1, 2]", True),
        ('{"cut": "of', True),
        ('[{"cut": 1', True),
        ("[" * 100_000, False),
        ("[12:30:01] ERROR down", False),
        ("{not json}", False),
        ('"text"', False),
        ("17", False),
        ("", False),
    ],
)
def test_objects_and_arrays_are_json_even_cut_and_log_lines_are_not(
    text: str, expected: bool
) -> None:
    assert looks_like_json(text) is expected


def without_space(text: str) -> str:
    return "".join(text.split())
