from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_reprocess.editing.json_text import JsonTextError, Number, read_json, write_json

literals = st.one_of(
    st.integers().map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,12})?", fullmatch=True),
    st.sampled_from(["1.10", "-0", "-0.0", "1E400", "1e-400", "0.1e+007", "9" * 5000]),
)
documents = st.recursive(
    st.none() | st.booleans() | st.text() | literals.map(Number),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(documents)
@example({"a": "\ud83d", "b": "\uffff\x00\x7f\u2028", "": []})
@example([Number("1.10"), {"z": {}, "a": [[]]}])
def test_written_document_is_read_back_digit_by_digit(document: Any) -> None:
    text = write_json(document)

    assert literal_of(read_json(text)) == literal_of(document)
    text.encode()


def literal_of(value: Any) -> Any:
    """Numbers as their digits, objects as their pairs: equality without any tolerance."""
    match value:
        case Number():
            return ("number", value.encoded_json)
        case dict():
            return [(key, literal_of(one)) for key, one in value.items()]
        case list():
            return ["list", *map(literal_of, value)]
        case _:
            return (type(value).__name__, value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is not JSON"),
        ("order 17", "is not JSON"),
        ("\ufeff{}", "is not JSON"),
        ('{"a":NaN}', "is not JSON"),
        ("[-Infinity]", "is not JSON"),
        ("01", "is not JSON"),
        ('{"a":1,"b":{"c":1,"c":1}}', "repeats a key of an object"),
        ("[" * 100_000, "is nested too deeply"),
    ],
)
def test_what_cannot_be_changed_safely_is_said(text: str, fault: str) -> None:
    with pytest.raises(JsonTextError, match=fault):
        read_json(text)


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        ("1", "1.0", True),
        ("100", "1e2", True),
        ("-0", "0", True),
        ("0.1", "0.10000000000000000001", False),
        ("12345678901234567890", "12345678901234567891", False),
        ("1e9999999999999999999999", "1e9999999999999999999999", True),
        ("1e9999999999999999999999", "2", False),
    ],
)
def test_numbers_are_equal_by_value(one: str, other: str, are_equal: bool) -> None:
    assert (Number(one) == Number(other)) is are_equal
    assert not are_equal or hash(Number(one)) == hash(Number(other))


def test_number_is_no_boolean_and_no_text() -> None:
    assert Number("1") not in (True, 1, "1")
