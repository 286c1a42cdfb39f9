"""Edits of messages: attributes, patches, and JSON that keeps its digits."""

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dlq.plan.edit import (
    AttributeChange,
    Edit,
    EditError,
    Patch,
    changed,
    name_fault,
    patch_faults,
)
from dlq.plan.json_text import (
    Json,
    JsonTextError,
    Number,
    read_json,
    write_indented,
    write_json,
)
from dlq_replay.rules.outgoing import redriven_entry
from dlq_replay.wire.attributes import MessageAttribute
from tests.property.strategies import json_of
from tests.support.builders import MAIN, context, context_of, message, text
from tests.support.golden import assert_stored, stored_texts

OLD = {"tenant": text("acme", "String.name"), "size": text("7", "Number.int"), "debug": text("on")}


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["a", "tenant-id", "a.b.c", "A_1", "x" * 256, "AWSx", "sqs", "sqs-dlqx"], "None"),
        (["", "x" * 257, 7, ".a", "a.", "a..b", "AWS.trace", "amazon.x"], "must be 1 to 256"),
        (["tenant id", "é"], "must be 1 to 256"),
        (["SQS-DLQ-x", "sqs-dlq-context", "sqs-dlq-replay-nb"], "this product's own"),
    ],
)
def test_names_that_sqs_or_this_product_refuses_are_refused(
    names: list[object], fault: str
) -> None:
    assert [name for name in names if fault not in str(name_fault(name))] == []


def test_attributes_are_set_added_and_removed() -> None:
    changes: list[AttributeChange] = [
        ("tenant", text("other")),
        ("size", MessageAttribute("Binary", b"\x00")),
        ("debug", None),
        ("nothing", None),
        ("new", text("1.50", "Number")),
    ]

    result = changed(OLD, changes)

    assert result == {
        "tenant": text("other", "String.name"),
        "size": MessageAttribute("Binary", b"\x00"),
        "new": text("1.50", "Number"),
    }
    assert list(OLD) == ["tenant", "size", "debug"]


@pytest.mark.parametrize("new", [text(""), MessageAttribute("Binary", b"")])
def test_empty_value_leaves_the_message(new: MessageAttribute) -> None:
    with pytest.raises(EditError, match="attribute tenant: its new value is empty"):
        changed(OLD, [("tenant", new)])


def copies(count: int) -> Patch:
    """Each of the operations doubles the body."""
    return Patch.of(
        [{"op": "copy", "from": "", "path": f"/copy_{number}"} for number in range(count)]
    )


def test_patch_ends_at_the_copy_that_makes_the_body_too_large() -> None:
    body = '{"a":"' + "é" * 100_000 + '"}'

    assert len(copies(2).apply(body).encode()) > 800_000
    with pytest.raises(EditError, match=r"operation 3 \(copy /copy_2\): the body would have 1,6"):
        copies(8).apply(body)


def test_copies_in_the_place_of_others_are_no_larger() -> None:
    body = write_json({"a": "x" * 400_000, "b": "y" * 400_000})
    exchange: list[Json] = [
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "remove", "path": "/a"},
        {"op": "copy", "from": "/b", "path": "/a"},
    ]

    patch = Patch.of([operation for _ in range(10) for operation in exchange])

    assert patch.apply(body) == write_json({"b": "x" * 400_000, "a": "x" * 400_000})


def test_copy_of_what_is_not_there_is_named() -> None:
    missing: Json = [{"op": "copy", "from": "/nothing", "path": "/a"}]

    with pytest.raises(EditError, match="the body has no such place"):
        Patch.of(missing).apply("{}")


@pytest.mark.parametrize("levels", [10, 900])
def test_what_is_large_and_deep_is_not_indented(levels: int) -> None:
    text = "[" * levels + "1," * 30_000 + "1" + "]" * levels
    indented = write_indented(read_json(text))

    assert read_json(indented) == read_json(text)
    assert ("\n" in indented) is (levels == 10)


@given(st.dictionaries(st.text("abc", min_size=1), st.text("xy", min_size=1)), st.data())
def test_what_is_not_named_stays(own: dict[str, str], data: Any) -> None:
    old = {name: text(value) for name, value in own.items()}
    names = data.draw(st.lists(st.text("abc", min_size=1), unique=True))

    result = changed(old, [(name, data.draw(st.sampled_from([None, text("z")]))) for name in names])

    for name in result.keys() | old.keys():
        if name not in names:
            assert result[name] == old[name]


def test_edit_changes_body_and_attributes_of_a_message() -> None:
    edit = Edit(Patch('[{"op":"remove","path":"/x"}]'), (("debug", None),))
    source = message("m-1", '{"x":1,"y":2.0}', OLD, MessageGroupId="g")

    edited = edit.apply(source, [("debug", None)])

    assert edited.body == '{"y":2.0}'
    assert list(edited.attributes) == ["tenant", "size"]
    assert (edited.message_id, edited.system) == (source.message_id, source.system)
    of_any_body = Edit(None, (("a", "'x'"),)).apply(message("m-1", "no json"), [("a", text("x"))])
    assert (of_any_body.body, of_any_body.attributes) == ("no json", {"a": text("x")})


def test_edited_message_keeps_its_first_id_and_its_context_fits_the_new_body() -> None:
    ours = context(first_id="first", source_queue="orders")
    parked = replace(message("m-1", '{"x":1}', ours), md5_of_body="0" * 32)
    fitting = message("m-1", '{"x":1}', ours)
    edit = Edit(Patch('[{"op":"remove","path":"/x"}]'), (("a", "'x'"),))

    for source, first_id in ((parked, "m-1"), (fitting, "first")):
        entry = redriven_entry(edit.apply(source, [("a", text("x"))]), "p", MAIN)
        assert context_of(entry).first_id == first_id


def test_digest_tells_edits_apart() -> None:
    edits = [
        Edit(Patch('[{"op":"remove","path":"/x"}]')),
        Edit(Patch('[{"op":"remove","path":"/y"}]')),
        Edit(None, (("a", None),)),
        Edit(None, (("a", "null"),)),
    ]

    assert len({edit.digest for edit in edits}) == 4
    assert edits[0].digest == Edit(Patch('[{"op":"remove","path":"/x"}]')).digest


def patch(text: str) -> Patch:
    assert list(patch_faults(read_json(text))) == []
    return Patch.of(read_json(text))


def short(operations: str) -> str:
    """Format ``op path value`` and ``op from path`` as JSON Patch."""
    spelled = []
    for operation in operations.split(";"):
        op, first, *second = operation.split()
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
    growing = patch('[{"op":"add","path":"/a","value":[]},{"op":"add","path":"/a/-","value":1}]')

    assert growing.apply("{}") == '{"a":[1]}'
    assert growing.apply("{}") == '{"a":[1]}'


@pytest.mark.parametrize("operations", stored_texts("refused_patches"))
def test_faults_of_a_patch_are_all_named(operations: str) -> None:
    faults = patch_faults(read_json(operations))

    lines = [fault if place is None else f"{place}: {fault}" for place, fault in faults]
    assert_stored("refused_patches", operations, "\n".join(lines))


numbers = st.integers(0, 3).map(lambda number: Number(str(number)))
scalars = st.none() | st.booleans() | st.text("ab", max_size=2) | numbers
values = json_of(scalars, st.sampled_from("ab0"), 3, max_leaves=8)
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

    try:
        read_json(Patch.of(patches).apply(write_json(body)))
    except EditError as error:
        assert str(error).startswith("operation ")  # noqa: PT017 - most patches apply


@given(st.text(max_size=40))
def test_any_body_is_patched_or_left(body: str) -> None:
    replacing = patch('[{"op":"add","path":"","value":1}]')
    try:
        read_json(body)
    except JsonTextError:
        with pytest.raises(EditError, match="the body"):
            replacing.apply(body)
    else:
        assert replacing.apply(body).strip() == "1"


literals = st.one_of(
    st.integers().map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,12})?", fullmatch=True),
    st.sampled_from(["1.10", "-0", "-0.0", "1E400", "1e-400", "0.1e+007", "9" * 5000]),
)
scalars_with_digits = st.none() | st.booleans() | st.text() | literals.map(Number)
documents = json_of(scalars_with_digits, st.text(max_size=8), 4, max_leaves=12)


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
            return [(key, literal_of(element)) for key, element in value.items()]
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
    ("first", "second", "are_equal"),
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
def test_numbers_are_equal_by_value(first: str, second: str, are_equal: bool) -> None:
    assert (Number(first) == Number(second)) is are_equal
    assert not are_equal or hash(Number(first)) == hash(Number(second))


def test_number_is_no_boolean_and_no_text() -> None:
    assert Number("1") not in (True, 1, "1")
