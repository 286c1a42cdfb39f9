import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.figures import cut
from spark_reprocess.report.texts import visible
from tests.support.findings_builder import HOSTILE_TEXTS

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, é, 漢字, 🏳️\u200d🌈", "plain, é, 漢字, 🏳️\u200d🌈"),
        ("a\0b\x1b[31m\x7f", "a␀b␛[31m␡"),
        ("one\r\ntwo\tthree", "one␍\ntwo\tthree"),
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
