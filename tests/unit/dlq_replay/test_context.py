import json

import pytest

from dlq_replay.context import FailureError, ReplayContext


def test_absent_fields_are_absent_on_the_wire() -> None:
    assert ReplayContext(first_id="a", first_seen_seconds=7).to_json() == '{"v":1,"id":"a","t0":7}'


def test_every_field_survives_the_wire() -> None:
    full = ReplayContext(
        "id",
        1,
        2,
        "too_old",
        FailureError("TimeoutError", "späť 🎉"),
        "plan-1",
        "orders",
        4,
        {"later": [1]},
        5,
        "orders.TimeoutError",
        6,
    )

    assert full == ReplayContext.from_json(full.to_json())


@pytest.mark.parametrize("value", ["[1]", "null", '{"a":[1.5,true,""]}', '"späť"', "0", "-1e3"])
def test_unknown_key_survives_a_rewrite_with_its_value(value: str) -> None:
    known = ReplayContext.from_json(f'{{"v":1,"id":"a","later":{value}}}')

    assert known.first_id == "a"
    assert json.loads(known.to_json())["later"] == json.loads(value)


@pytest.mark.parametrize(
    ("junk", "kept"),
    [
        ('"a":"%s","b":1' % ("x" * 300), {"b": 1}),
        ('"a":NaN,"b":1', {"b": 1}),
        ('"a":1e400,"b":1', {"b": 1}),
        (f'"a":{"[" * 500}1{"]" * 500},"b":1', {"b": 1}),
        (",".join(f'"k{n:03d}":{n}' for n in range(200)), {f"k{n:03d}": n for n in range(24)}),
    ],
    ids=["long", "not a number", "infinite", "deep", "many"],
)
def test_unknown_keys_that_cannot_be_kept_are_left_out(junk: str, kept: dict[str, int]) -> None:
    assert ReplayContext.from_json(f'{{"v":1,"id":"a",{junk}}}').unknown == kept


def test_error_message_gives_way_before_unknown_keys() -> None:
    later = {"later": "x" * 240}
    widest = FailureError("E" * 128, "m" * 500)
    context = ReplayContext(
        "i" * 128, 2**62, 2**62, "r" * 128, widest, "p" * 128, "q" * 80, 9, later
    )
    written = ReplayContext.from_json(context.to_json())

    assert written.unknown == later
    assert written.error == FailureError("E" * 128, "m" * 25)


def test_unknown_keys_give_way_before_the_error() -> None:
    quotes = '"' * 128
    context = ReplayContext(
        quotes,
        2**62,
        2**62,
        "r",
        FailureError("E" * 128, "m" * 500),
        quotes,
        "q" * 80,
        10**38 - 1,
        {"a": "x" * 240},
    )
    written = ReplayContext.from_json(context.to_json())

    assert (written.unknown, written.error) == ({}, FailureError("E" * 128, ""))
    assert (written.first_id, written.source_queue) == (quotes, "q" * 80)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ("{}", "v must be 1"),
        ('{"v":2}', "v must be 1"),
        ('{"v":1,"id":7}', "id must be text"),
        ('{"v":1,"id":""}', "id must be text"),
        ('{"v":1,"id":"\\u0000"}', "id must be printable ASCII"),
        ('{"v":1,"id":"%s"}' % ("x" * 129), "id must be text of 1 to 128"),
        ('{"v":1,"t0":"1"}', "t0 must be epoch seconds"),
        ('{"v":1,"t0":-1}', "t0 must be epoch seconds"),
        ('{"v":1,"t0":true}', "t0 must be epoch seconds"),
        ('{"v":1,"t0":%s}' % ("9" * 2000), "t0 must be epoch seconds"),
        ('{"v":1,"due":1.5}', "due must be epoch seconds"),
        ('{"v":1,"n":"1"}', "n must be a replay count"),
        ('{"v":1,"n":-1}', "n must be a replay count"),
        ('{"v":1,"n":true}', "n must be a replay count"),
        ('{"v":1,"n":%s}' % ("9" * 39), "n must be a replay count"),
        ('{"v":1,"src":7}', "src must be the name of an SQS queue"),
        ('{"v":1,"src":""}', "src must be the name of an SQS queue"),
        ('{"v":1,"src":"a.b"}', "src must be the name of an SQS queue"),
        ('{"v":1,"src":"a\\n"}', "src must be the name of an SQS queue"),
        ('{"v":1,"src":"%s.fifo"}' % ("x" * 76), "src must be the name of an SQS queue"),
        ('{"v":1,"error":"text"}', "error must be an object"),
    ],
)
def test_malformed_context_names_the_rule(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        ReplayContext.from_json(text)


def test_long_error_message_is_cut_until_the_context_fits() -> None:
    widest = '"' * 128
    context = ReplayContext(
        widest,
        2**62,
        2**62,
        widest,
        FailureError(widest, "\U0001f389" * 5000),
        widest,
        "q" * 80,
        10**38 - 1,
    )

    assert len(context.to_json()) <= 1024
    assert context.first_id == ReplayContext.from_json(context.to_json()).first_id


def test_the_version_of_an_error_gives_way_before_the_error() -> None:
    quotes = '"' * 128
    error = FailureError("E" * 128, "m" * 500, "v" * 64)
    context = ReplayContext(quotes, 2**62, 2**62, "r" * 60, error, quotes, "q" * 80, 10**38 - 1)
    roomy = ReplayContext.from_json(ReplayContext("m-1", error=error).to_json())

    written = ReplayContext.from_json(context.to_json())

    assert written.error == FailureError("E" * 128, "")
    assert roomy.error == FailureError("E" * 128, "m" * 200, "v" * 64)


@pytest.mark.parametrize("version", ["7", 7, "", "v" * 65, "ü", "a\nb", None, ["7"]])
def test_a_bad_version_of_an_error_costs_the_version_alone(version: object) -> None:
    error = {"type": "TimeoutError", "message": "slow", "version": version}

    read = ReplayContext.from_json(json.dumps({"v": 1, "id": "m-1", "error": error}))

    assert read.first_id == "m-1"
    assert read.error == FailureError("TimeoutError", "slow", "7" if version == "7" else None)
