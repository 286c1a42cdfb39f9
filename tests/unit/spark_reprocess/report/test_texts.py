import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.figures import cut, visible
from spark_reprocess.report.texts import indented_json
from spark_reprocess.report.views import SAMPLE_CHARACTERS, shown_sample
from tests.property.strategies import json_values
from tests.support.findings_builder import HOSTILE_TEXTS, a_sample

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, é, 漢字, 🏳️\u200d🌈", "plain, é, 漢字, 🏳️\u200d🌈"),
        ("a\0b\x1b[31m\x7f", "a[U+0000]b[U+001B][31m[U+007F]"),
        ("one\r\ntwo\tthree", "one[U+000D]\ntwo\tthree"),
        ("\u202egnp.exe", "[U+202E]gnp.exe"),
        ("a\u200bb\ufeffc\u00add", "a[U+200B]b[U+FEFF]c[U+00AD]d"),
        ("a\u200db", "a[U+200D]b"),
        ("line\u2028and\u2029", "line[U+2028]and[U+2029]"),
        ("\ud800\ue000\uffff\U000e0041", "[U+D800][U+E000][U+FFFF][U+E0041]"),
        ("c1 \x85\x9b", "c1 [U+0085][U+009B]"),
        ("no\u00a0break", "no\u00a0break"),
    ],
)
def test_what_cannot_be_seen_is_spelt(text: str, expected: str) -> None:
    assert visible(text) == expected


@given(ANY_TEXT | st.sampled_from(HOSTILE_TEXTS))
def test_nothing_invisible_is_left_and_nothing_visible_changes(text: str) -> None:
    shown = visible(text)

    hidden = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not [one for one in shown if unicodedata.category(one) in hidden and one not in "\n\t"]
    assert {one for one in shown if unicodedata.category(one) == "Cf"} <= set("\u200c\u200d")
    left = iter(shown)
    assert all(one in left for one in text if one.isprintable()), "in their order"
    shown.encode()
    assert visible(shown) == shown


@given(st.text(), st.integers(1, 20))
def test_a_cut_text_is_no_longer_than_asked_and_says_that_it_was_cut(text: str, most: int) -> None:
    short = cut(text, most)

    assert short == text or (len(short) == most and short.endswith("…"))
    assert text.startswith(short.removesuffix("…"))


@given(st.lists(json_values) | st.dictionaries(st.text(), json_values))
def test_indented_json_keeps_every_character_but_white_space(value: Any) -> None:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    shown = indented_json(text)

    assert shown is not None
    assert json.loads(shown) == value
    assert "".join(shown.split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("body", "kind", "shown"),
    [
        ('{"a":1.50}', "JSON", '{\n  "a": 1.50\n}'),
        ('{"a": 1, "a": 2}', "text", '{"a": 1, "a": 2}'),
        ('{"cut": "of', "text", '{"cut": "of'),
        ("[12:30:01] ERROR down", "text", "[12:30:01] ERROR down"),
        ("17", "text", "17"),
        ("[" * 3_000, "text", "[" * 3_000),
        (" a\n{b} ", "text", " a\n{b} "),
        (" \n", "empty", " \n"),
    ],
)
def test_json_is_indented_and_other_text_stays_as_it_is(body: str, kind: str, shown: str) -> None:
    sample = shown_sample(a_sample(body=body))

    assert (sample["kind"], sample["body"], sample["is_cut"]) == (kind, shown, False)


@pytest.mark.parametrize("body", ["x" * (SAMPLE_CHARACTERS + 1), json.dumps([[1]] * 1_000)])
def test_a_long_body_is_cut_and_says_so(body: str) -> None:
    sample = shown_sample(a_sample(body=body))

    assert sample["is_cut"]
    assert len(sample["body"]) == SAMPLE_CHARACTERS
    assert sample["body"].endswith("…")
