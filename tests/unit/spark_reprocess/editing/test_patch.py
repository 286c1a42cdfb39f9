import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.editing.edit import EditError, Patch, patch_faults
from spark_reprocess.editing.json_text import COMPACT, Json, JsonTextError, Number, read_json


def patch(text: str) -> Patch:
    assert list(patch_faults(read_json(text))) == []
    return Patch.of(read_json(text))


CHANGES = """
replace /zip "10115"        | {"zip": 1, "n": 1.10}    | {"zip": "10115", "n": 1.10}
add /price 2.50             | {}                       | {"price":2.50}
remove /a/0                 | {"a":[1,2]}              | {"a":[2]}
move /a /b                  | {"a":1e5,"c":0}          | {"c":0,"b":1e5}
copy /a /b                  | {"a":{"x":1.0}}          | {"a":{"x":1.0},"b":{"x":1.0}}
add /a/- "é"                | {"a":["\\u00fc"]}        | {"a":["\\u00fc","\\u00e9"]}
replace  []                 | {"a":1}                  | []
replace /a~1b/~0 0          | {"a/b":{"~":1}}          | {"a/b":{"~":0}}
test /v 1; replace /v 2     | {"v":1.0}                | {"v":2}
"""

LEFT = """
remove /a                   | no json                  | the body is not JSON
remove /a                   | {"a":1,"a":2}            | the body repeats a key of an object
remove /a                   | {"b":1}                  | operation 1 (remove /a): the body has no such place
remove /a/b                 | {"a":"text"}             | operation 1 (remove /a/b): the body has no such place
remove /a/-                 | {"a":[1]}                | operation 1 (remove /a/-): the body has no such place
add /a/9 1                  | {"a":[]}                 | operation 1 (add /a/9): the body has no such place
move /a /a/b                | {"a":{}}                 | operation 1 (move /a/b): the body has no such place
test /a true                | {"a":1}                  | operation 1 (test /a): another value is there, or none
test /a 1                   | {"a":"1"}                | operation 1 (test /a): another value is there, or none
test /b 1                   | {"a":"1"}                | operation 1 (test /b): another value is there, or none
test /a 0.1                 | {"a":0.1000000000000001} | operation 1 (test /a): another value is there, or none
add /x 1; replace /y 1      | {"a":1}                  | operation 2 (replace /y): the body has no such place
"""  # noqa: E501 - a table


def rows(table: str) -> list[tuple[str, str, str]]:
    lines = [line.split(" | ") for line in table.strip().splitlines()]
    return [(short(one), body.strip(), last.strip()) for one, body, last in lines]


def short(operations: str) -> str:
    """Spell ``op path value`` and ``op from path`` as JSON Patch."""
    spelled = []
    for one in operations.split(";"):
        op, first, *second = one.split()
        if op in ("move", "copy"):
            spelled.append(f'{{"op":"{op}","from":"{first}","path":"{second[0]}"}}')
        elif op == "remove":
            spelled.append(f'{{"op":"{op}","path":"{first}"}}')
        else:
            path, value = (first, second[0]) if second else ("", first)
            spelled.append(f'{{"op":"{op}","path":"{path}","value":{value}}}')
    return f"[{','.join(spelled)}]"


@pytest.mark.parametrize(("operations", "body", "edited"), rows(CHANGES))
def test_patch_changes_what_it_names_and_nothing_else(
    operations: str, body: str, edited: str
) -> None:
    assert patch(operations).apply(body) == edited


@pytest.mark.parametrize(("operations", "body", "fault"), rows(LEFT))
def test_patch_that_does_not_apply_says_which_operation(
    operations: str, body: str, fault: str
) -> None:
    with pytest.raises(EditError) as caught:
        patch(operations).apply(body)
    assert str(caught.value) == fault


def test_fault_holds_no_part_of_the_body() -> None:
    with pytest.raises(EditError) as caught:
        patch('[{"op":"test","path":"/a","value":"x"}]').apply('{"a":"4111 1111 1111 1111"}')

    assert "4111" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_patch_that_changes_no_value_keeps_every_byte() -> None:
    body = '{"a" : 1,\n\n"b":2}'

    assert patch('[{"op":"replace","path":"/a","value":1}]').apply(body) == body


def test_patch_is_the_same_after_a_journey_to_a_worker() -> None:
    original = patch('[{"op":"add","path":"/a","value":[1.10]}]')
    arrived = pickle.loads(pickle.dumps(original))  # noqa: S301 - our own

    assert arrived == original
    assert arrived.apply("{}") == '{"a":[1.10]}'


def test_applying_twice_does_not_change_the_patch() -> None:
    one = patch('[{"op":"add","path":"/a","value":[]},{"op":"add","path":"/a/-","value":1}]')

    assert one.apply("{}") == one.apply("{}") == '{"a":[1]}'


A_LIST = (None, "must be a list of JSON Patch operations (RFC 6902)")
AN_OPERATION = (0, "must be a mapping with op and path")
NO_POINTER = "path: 'a' is not a JSON Pointer: it begins with / (and ~ is ~0, / in a name ~1)"


@pytest.mark.parametrize(
    ("operations", "faults"),
    [
        ("{}", [A_LIST]),
        ("[]", [A_LIST]),
        ("[1]", [AN_OPERATION]),
        ('[{"path":"/a"}]', [AN_OPERATION]),
        (
            '[{"op":"set","path":"/a"}]',
            [(0, "op must be one of add, replace, test, remove, move, copy")],
        ),
        (
            short("remove /a")[:-1] + ',{"op":"add"}]',
            [(1, "add needs path"), (1, "add needs value")],
        ),
        (
            '[{"op":"add","path":"/a","vaule":1}]',
            [(0, "add needs value"), (0, "add takes no vaule")],
        ),
        ('[{"op":"remove","path":"a"}]', [(0, NO_POINTER)]),
        (
            '[{"op":"move","path":"/a","from":7}]',
            [(0, "from: must be text, e.g. /customer/zip")],
        ),
        ('[{"op":"remove","path":""}]', [(0, "path: the whole body cannot be removed")]),
    ],
)
def test_faults_of_a_patch_are_all_named(
    operations: str, faults: list[tuple[int | None, str]]
) -> None:
    assert list(patch_faults(read_json(operations))) == faults


numbers = st.integers(0, 3).map(lambda number: Number(str(number)))
values = st.recursive(
    st.none() | st.booleans() | st.text("ab", max_size=2) | numbers,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab0"), inner, max_size=3)
    ),
    max_leaves=8,
)
pointers = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "~0", ""]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "replace", "test", "remove", "move", "copy"]), "path": pointers},
    optional={"value": values, "from": pointers},
)


@given(values, st.lists(operations, min_size=1, max_size=4))
def test_any_patch_applies_or_says_why_not(body: Json, patches: list[Json]) -> None:
    if list(patch_faults(patches)):
        return

    assert outcome(Patch.of(patches), COMPACT.write(body)) in ("applied", "operation")


def outcome(one: Patch, body: str) -> str:
    try:
        read_json(one.apply(body))
    except EditError as error:
        return str(error).split()[0]
    return "applied"


@given(st.text(max_size=40))
def test_any_body_is_patched_or_left(body: str) -> None:
    one = patch('[{"op":"add","path":"","value":1}]')
    try:
        read_json(body)
    except JsonTextError:
        with pytest.raises(EditError, match="the body"):
            one.apply(body)
    else:
        assert one.apply(body).strip() == "1"
