"""The fields of a body that the console offers for an edit."""

import json

from dlq.console.body_fields import MOST_FIELDS, body_fields
from dlq.explain.signature.mask import compile_masks
from dlq.plan.edit import Patch, read_patch

NO_MASKS = compile_masks(())
BODY = '{"zip": 1.10, "a/b~c": [null, {"ok": true}], "password": "hunter2", "note": "é"}'


def test_each_value_is_a_field_with_its_pointer() -> None:
    fields = {field.path: field.shown for field in body_fields(BODY, NO_MASKS)}

    assert fields == {
        "/zip": "1.10",
        "/a~1b~0c/0": "null",
        "/a~1b~0c/1/ok": "true",
        "/password": '"***"',
        "/note": '"é"',
    }


def test_operation_replaces_a_value_with_itself_and_none_has_a_masked_value() -> None:
    for field in body_fields(BODY, NO_MASKS):
        if field.path == "/password":
            assert field.operation == ""
            continue
        patch, faults = read_patch(f"[{field.operation}]")
        assert faults == []
        assert isinstance(patch, Patch)
        assert patch.apply(BODY) == BODY


def test_other_bodies_have_no_fields_and_large_ones_some() -> None:
    assert body_fields("not JSON", NO_MASKS) == []
    assert body_fields("", NO_MASKS) == []
    assert len(body_fields(json.dumps(list(range(500))), NO_MASKS)) == MOST_FIELDS


def test_text_that_is_no_json_is_refused_with_the_place() -> None:
    text = '[\n  {"op": "remove" "path": "/a"}\n]'

    assert read_patch(text) == (None, ["the text is not JSON: line 2, column 19"])
