"""YAML that people edit: what is refused and where, and changes that keep the rest."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.errors import InputError
from spark_reprocess.plan.yaml_text import read_document, with_scalars
from tests.support.golden import assert_stored, stored_texts

DOCUMENT = """\
# a comment
version: 1
rules:
  - name: first
    when: |
      a
      b
  - {name: second, when: c}
"""
LAUGHS = "\n".join(
    ["l0: &l0 [x]", *(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30))]
)


@pytest.mark.parametrize("text", stored_texts("refused_yaml"))
def test_what_is_refused_says_where(text: str) -> None:
    with pytest.raises(InputError) as raised:
        read_document("f", json.loads(text))

    assert_stored("refused_yaml", text, str(raised.value))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"a: {'[' * 10_000}", "f: is nested too deeply"),
        (LAUGHS, "f: line 2: is an alias (*); write it out"),
    ],
    ids=["deep", "laughs"],
)
def test_what_would_take_long_is_refused(text: str, fault: str) -> None:
    with pytest.raises(InputError) as raised:
        read_document("f", text)

    assert fault in str(raised.value)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc: -#\n\"'"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abcxyz"), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(PLAIN)
def test_the_value_is_what_yaml_says(value: object) -> None:
    document = {"version": 1, "value": value}

    assert read_document("f", yaml.safe_dump(document)) == document


def test_replaced_scalars_leave_every_other_character() -> None:
    root: Any = yaml.compose(DOCUMENT, Loader=yaml.SafeLoader)
    first, second = root.value[1][1].value
    when, name = first.value[1][1], second.value[0][1]

    changed = DOCUMENT.replace("|\n      a\n      b", '"x"').replace("second", "third")
    assert with_scalars(DOCUMENT, [(when, '"x"'), (name, "third")]) == changed
