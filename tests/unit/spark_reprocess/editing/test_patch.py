import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.editing.edit import EditError, Patch, patch_faults
from spark_reprocess.editing.json_text import Json, JsonTextError, Number, read_json, write_json
from tests.support.golden import assert_stored, stored_texts


def patch(text: str) -> Patch:
    assert list(patch_faults(read_json(text))) == []
    return Patch.of(read_json(text))


def short(operations: str) -> str:
    """Format ``op path value`` and ``op from path`` as JSON Patch."""
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


@pytest.mark.parametrize("change", stored_texts("patches"))
def test_patch_changes_what_it_names_and_nothing_else_or_says_which_operation_does_not_apply(
    change: str,
) -> None:
    operations, body = change.split(" | ")
    try:
        edited = patch(short(operations)).apply(body)
    except EditError as error:
        edited = str(error)

    assert_stored("patches", change, edited)


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


@pytest.mark.parametrize("operations", stored_texts("refused_patches"))
def test_faults_of_a_patch_are_all_named(operations: str) -> None:
    faults = patch_faults(read_json(operations))

    lines = [fault if place is None else f"{place}: {fault}" for place, fault in faults]
    assert_stored("refused_patches", operations, "\n".join(lines))


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

    assert outcome(Patch.of(patches), write_json(body)) in ("applied", "operation")


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
