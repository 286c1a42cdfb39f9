"""YAML that people edit: what is refused and where, and changes that keep the rest."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.errors import InputError
from spark_reprocess.plan.yaml_text import compose, node_at, read_document, with_scalars

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


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "f: must be a mapping"),
        ("# only a comment\n", "f: must be a mapping"),
        ("[]", "f: must be a mapping"),
        ("a: 1", "f: version: None: must be 1"),
        *((f"version: {found}", f"f: version: {found}: must be 1") for found in (0, 2, 1.0, -1)),
        ("version: '1'", "f: version: '1': must be 1"),
        ("version: true", "f: version: True: must be 1"),
        ("a: [1,\nb: 2", "f: line 2: is not YAML"),
        ("version: 1\n\tx: {", "f: line 2: is not YAML"),
        ("one: 1\n---\ntwo: 2\n", "f: line 2: is not YAML"),
        ("a\0b", "f: is not YAML"),
        pytest.param(f"a: {'[' * 10_000}", "f: is nested too deeply", id="deep"),
        pytest.param(" " * 33_554_433, "f: has more than 33,554,432 characters", id="long"),
        ("a: !!python/object:os.system x", "  a: could not determine a constructor"),
        ("a: 2026-13-45", "  a: month must be in"),
        ("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n", "  b.c: is repeated; remove one\n  a: is repeated"),
        ("a: {<<: {b: 1}}", "  a: '<<': a key must be text"),
        ("a: {1: 2}", "  a: '1': a key must be text"),
        ("{[a]: b}", "  the document: [ScalarNode("),
        ("a: &x [1, *x]", "  a[1]: is an alias (*); write it out"),
        (LAUGHS, "  l1[0]: is an alias (*); write it out"),
    ],
)
def test_what_is_refused_says_where(text: str, fault: str) -> None:
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
    root = compose("f", DOCUMENT)
    changes = [
        (node_at(root, ("rules", 0, "when")), '"x"'),
        (node_at(root, ("rules", 1, "name")), "third"),
    ]

    changed = DOCUMENT.replace("|\n      a\n      b", '"x"').replace("second", "third")
    assert with_scalars(DOCUMENT, changes) == changed


@pytest.mark.parametrize("path", [("rules", 0, "action"), ("version", "x"), ("nothing",)])
def test_path_of_nothing_is_an_error(path: tuple[str | int, ...]) -> None:
    with pytest.raises(KeyError):
        node_at(compose("f", DOCUMENT), path)
