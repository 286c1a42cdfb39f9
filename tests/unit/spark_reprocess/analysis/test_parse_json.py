"""JSON as the parsers of other languages read it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.analysis.groups.payload import (
    NOT_JSON,
    parse_container,
    parse_json,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
)


@given(VALUES)
def test_json_is_read(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


@given(VALUES, st.text(" \n\t"))
def test_only_objects_and_arrays_are_containers(value: object, space: str) -> None:
    found = parse_container(f"{space}{json.dumps(value)}{space}")

    assert found == value if isinstance(value, dict | list) else found is NOT_JSON


@pytest.mark.parametrize(
    "text",
    ["", " ", "NaN", "[Infinity]", '{"a": -Infinity}', "{", "{'a': 1}", "[" * 100_000, "1 2"],
)
def test_what_other_parsers_refuse_is_no_json(text: str) -> None:
    assert parse_json(text) is NOT_JSON
    assert parse_container(text) is NOT_JSON
