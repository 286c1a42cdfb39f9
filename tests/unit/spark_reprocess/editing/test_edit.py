from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.rules.outgoing import redriven_entry
from dlq_replay.wire.attributes import MessageAttribute
from spark_reprocess.editing.edit import (
    AttributeChange,
    Edit,
    EditError,
    Patch,
    changed,
    name_fault,
)
from tests.support.builders import MAIN, context, context_of, message, text

OLD = {"tenant": text("acme", "String.name"), "size": text("7", "Number.int"), "debug": text("on")}


@pytest.mark.parametrize(
    "name", ["a", "tenant-id", "a.b.c", "A_1", "x" * 256, "AWSx", "sqs", "sqs-dlqx"]
)
def test_name_that_sqs_takes_is_taken(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize(
    "name", ["", "x" * 257, 7, ".a", "a.", "a..b", "AWS.trace", "amazon.x", "tenant id", "é"]
)
def test_name_that_sqs_refuses_is_refused(name: object) -> None:
    assert "must be 1 to 256" in str(name_fault(name))


@pytest.mark.parametrize("name", ["SQS-DLQ-x", "sqs-dlq-context", "sqs-dlq-replay-nb"])
def test_names_of_this_product_are_refused(name: str) -> None:
    assert "this product's own" in str(name_fault(name))


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


@given(st.dictionaries(st.text("abc", min_size=1), st.text("xy", min_size=1)), st.data())
def test_what_is_not_named_stays(own: dict[str, str], data: Any) -> None:
    old = {name: text(value) for name, value in own.items()}
    names = data.draw(st.lists(st.text("abc", min_size=1), unique=True))

    result = changed(old, [(name, data.draw(st.sampled_from([None, text("z")]))) for name in names])

    assert {n: v for n, v in result.items() if n not in names} == {
        n: v for n, v in old.items() if n not in names
    }


def test_edit_changes_body_and_attributes_of_a_message() -> None:
    edit = Edit(Patch('[{"op":"remove","path":"/x"}]'), (("debug", None),))
    source = message("m-1", '{"x":1,"y":2.0}', OLD, MessageGroupId="g")

    edited = edit.apply(source, [("debug", None)])

    assert edited.body == '{"y":2.0}'
    assert list(edited.attributes) == ["tenant", "size"]
    assert (edited.message_id, edited.system) == (source.message_id, source.system)


def test_edited_message_keeps_its_first_id_and_its_context_fits_the_new_body() -> None:
    ours = context(first_id="first", source_queue="orders")
    parked = replace(message("m-1", '{"x":1}', ours), md5_of_body="0" * 32)
    fitting = message("m-1", '{"x":1}', ours)
    edit = Edit(Patch('[{"op":"remove","path":"/x"}]'), (("a", "'x'"),))

    for source, first_id in ((parked, "m-1"), (fitting, "first")):
        entry = redriven_entry(edit.apply(source, [("a", text("x"))]), "p", MAIN)
        assert context_of(entry).first_id == first_id


def test_attributes_of_a_message_with_any_body_can_be_set() -> None:
    edited = Edit(None, (("a", "'x'"),)).apply(message("m-1", "no json"), [("a", text("x"))])

    assert (edited.body, edited.attributes) == ("no json", {"a": text("x")})


def test_digest_tells_edits_apart() -> None:
    edits = [
        Edit(Patch('[{"op":"remove","path":"/x"}]')),
        Edit(Patch('[{"op":"remove","path":"/y"}]')),
        Edit(None, (("a", None),)),
        Edit(None, (("a", "null"),)),
    ]

    assert len({edit.digest for edit in edits}) == 4
    assert edits[0].digest == Edit(Patch('[{"op":"remove","path":"/x"}]')).digest
