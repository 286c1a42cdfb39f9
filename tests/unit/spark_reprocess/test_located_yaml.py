import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.plan.located_yaml import node_at, read_yaml, with_scalars

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


def test_every_value_has_its_line() -> None:
    located = read_yaml(DOCUMENT)

    assert located.value["rules"][1] == {"name": "second", "when": "c"}
    assert located.line("version") == 2
    assert located.line("rules", 0) == 4
    assert located.line("rules", 0, "when") == 5
    assert located.line("rules", 1, "when") == 8


def test_what_is_missing_has_the_line_of_what_lacks_it() -> None:
    assert read_yaml(DOCUMENT).line("rules", 1, "action") == 8
    assert read_yaml(DOCUMENT).line("nothing") == 2


def test_keys_that_stand_twice_are_named() -> None:
    located = read_yaml("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n")

    assert located.repeated == ((("b", "c"), 4), (("a",), 5))


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_nothing_is_none(text: str) -> None:
    assert read_yaml(text).value is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: [1,\nb: 2", "line 2: is not YAML"),
        ("a: !!python/object:os.system x", "line 1: is not YAML"),
        ("a: 2026-13-45", "cannot be read as YAML"),
        ("a\0b", "is not YAML"),
        ("one: 1\n---\ntwo: 2\n", "line 2: is not YAML: but found another document"),
    ],
)
def test_what_is_no_yaml_says_where(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_yaml(text)


def test_an_alias_within_itself_ends() -> None:
    assert read_yaml("a: &x [1, *x]").line("a", 0) == 1


def test_a_billion_laughs_are_read_once() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30)]

    assert len(read_yaml("\n".join(["l0: &l0 [x]", *levels])).lines) < 1000


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc: -#\n\"'"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abcxyz"), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(PLAIN)
def test_the_value_is_what_yaml_says_and_every_line_exists(value: object) -> None:
    text = yaml.safe_dump(value)
    located = read_yaml(text)

    assert located.value == value
    assert all(1 <= line <= text.count("\n") + 1 for line in located.lines.values())
    assert located.repeated == ()


def test_replaced_scalars_leave_every_other_character() -> None:
    located = read_yaml(DOCUMENT)
    changes = [
        (node_at(located.root, ("rules", 0, "when")), '"x"'),
        (node_at(located.root, ("rules", 1, "name")), "third"),
    ]

    assert (
        with_scalars(DOCUMENT, changes)
        == """\
# a comment
version: 1
rules:
  - name: first
    when: "x"
  - {name: third, when: c}
"""
    )


@pytest.mark.parametrize("path", [("rules", 0, "action"), ("version", "x"), ("nothing",)])
def test_path_of_nothing_is_an_error(path: tuple[str | int, ...]) -> None:
    with pytest.raises(KeyError):
        node_at(read_yaml(DOCUMENT).root, path)


_PIECES = (
    *("a: ", "- ", "\n", "\n  ", "\n    ", "'", '"', "#", " ", "x", "1", "0x1f", "2020-01-01"),
    *("|", "|-", ">", "\\u0041", "\\n", "😀", "{", "}", "[", "]", ",", "? ", ": ", "!!str ", "&a "),
    *("*a", "~", "no", "%YAML 1.1\n", "---\n", "...\n", ":", "-", "é", "<<: ", "\t", "\ufeff"),
)


@given(st.lists(st.sampled_from(_PIECES), max_size=14).map("".join))
def test_both_parsers_of_pyyaml_read_the_same(text: str) -> None:
    """Where PyYAML's own takes a text at all."""
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    assert repr(read_yaml(text).value) == repr(value)
