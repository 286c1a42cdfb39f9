import json

import pytest

from dlq_replay.wire.context import ReplayContext
from tests.support.golden import assert_stored, stored_texts


def test_absent_fields_are_absent_on_the_wire() -> None:
    assert ReplayContext(first_id="a", first_seen_seconds=7).to_json() == '{"v":1,"id":"a","t0":7}'


def test_other_keys_are_ignored() -> None:
    read = ReplayContext.from_json('{"v":1,"id":"a","later":[1],"other":NaN}')

    assert read == ReplayContext(first_id="a")


@pytest.mark.parametrize("key", ["id", "plan", "g", "last"])
@pytest.mark.parametrize("value", ["said anna@example.com", "Anna Muster", "5,9", "é", "a\n"])
def test_an_id_is_no_sentence(key: str, value: str) -> None:
    rule = f"^{key} must be 1 to 128 letters, digits, '_', '-', '\\.' and ':'$"

    with pytest.raises(ValueError, match=rule):
        ReplayContext.from_json(json.dumps({"v": 1, key: value}))


@pytest.mark.parametrize("text", stored_texts("malformed_contexts"))
def test_malformed_context_names_the_rule(text: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is compared
        ReplayContext.from_json(text)

    assert_stored("malformed_contexts", text, str(raised.value))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "not JSON"),
        ("[" * 1024, "not JSON"),
        ('{"v":1}' + " " * 1018, "longer than 1,024 bytes"),
        ('{"v":1,"id":"%s"}' % ("x" * 129), "id must be 1 to 128 letters"),
        ('{"v":1,"t0":%s}' % ("9" * 1000), "t0 must be epoch seconds"),
        ('{"v":1,"src":"%s.fifo"}' % ("x" * 76), "src must be the name of an SQS queue"),
    ],
)
def test_context_that_is_too_long_names_the_rule(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        ReplayContext.from_json(text)
