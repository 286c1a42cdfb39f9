import base64
import json

from demo.identity import (
    CONTEXT,
    COUNTER,
    DEMO_ID,
    Attribute,
    Content,
    from_archived,
    from_received,
    from_record,
    to_entry,
)

CONTENT = Content(
    "überweisung",
    {
        "tenant": Attribute("String", "acme"),
        "weight": Attribute("Number.float", "1.0E2"),
        "hmac": Attribute("Binary", b"\x00\xff"),
    },
)


def test_fingerprint_ignores_what_the_product_adds() -> None:
    replayed = Content(
        CONTENT.body,
        {
            **CONTENT.attributes,
            COUNTER: Attribute("Number", "2"),
            CONTEXT: Attribute("String", '{"v":1}'),
        },
    )

    assert replayed.fingerprint == CONTENT.fingerprint


def test_fingerprint_changes_with_body_type_and_value() -> None:
    tenant = CONTENT.attributes["tenant"]
    others = (
        Content(CONTENT.body + " ", CONTENT.attributes),
        Content(CONTENT.body, {**CONTENT.attributes, "tenant": Attribute("String.x", "acme")}),
        Content(CONTENT.body, {**CONTENT.attributes, "tenant": Attribute("String", "acm")}),
        Content(CONTENT.body, {**CONTENT.attributes, "more": tenant}),
        Content(CONTENT.body, {**CONTENT.attributes, "hmac": Attribute("Binary", b"\x00")}),
    )

    assert len({CONTENT.fingerprint, *(c.fingerprint for c in others)}) == 6


def test_binary_never_equals_text_of_the_same_letters() -> None:
    text = Content("b", {"a": Attribute("Binary", "00ff")})
    binary = Content("b", {"a": Attribute("Binary", b"\x00\xff")})

    assert text.fingerprint != binary.fingerprint


def test_identity_is_the_demo_id_where_there_is_one() -> None:
    marked = Content("b", {DEMO_ID: Attribute("String", "m00001")})

    assert marked.identity == "m00001"
    assert CONTENT.identity == CONTENT.fingerprint


def test_size_counts_names_types_and_values_in_utf8() -> None:
    assert Content("ü", {"a": Attribute("String", "é")}).size_bytes == 2 + 1 + 6 + 2


def test_content_is_the_same_from_each_side() -> None:
    entry = to_entry(CONTENT, "1")
    received = {"Body": entry["MessageBody"], "MessageAttributes": entry["MessageAttributes"]}
    record = {
        "body": CONTENT.body,
        "messageAttributes": {
            "tenant": {"dataType": "String", "stringValue": "acme"},
            "weight": {"dataType": "Number.float", "stringValue": "1.0E2"},
            "hmac": {"dataType": "Binary", "binaryValue": base64.b64encode(b"\x00\xff").decode()},
        },
    }
    row = {
        "body": CONTENT.body,
        "attributes": [
            ("tenant", _struct("String", "acme")),
            ("weight", _struct("Number.float", "1.0E2")),
            ("hmac", {"data_type": "Binary", "string_value": None, "binary_value": b"\x00\xff"}),
        ],
    }

    assert from_received(received) == CONTENT
    assert from_record(record) == CONTENT
    assert from_archived(row) == CONTENT


def test_archived_row_without_attributes_is_read() -> None:
    assert from_archived({"body": "b", "attributes": None}) == Content("b")


def test_counter_and_plan_are_read_where_they_make_sense() -> None:
    redriven = Content(
        "b",
        {
            COUNTER: Attribute("Number", "3"),
            CONTEXT: Attribute("String", json.dumps({"v": 1, "plan": "p1"})),
        },
    )
    nonsense = Content(
        "b", {COUNTER: Attribute("String", "²"), CONTEXT: Attribute("Binary", b"\xff")}
    )

    assert (redriven.replay_count, redriven.plan_id) == (3, "p1")
    assert (nonsense.replay_count, nonsense.plan_id) == (0, None)


def test_mark_of_a_canary_is_no_count_of_replays() -> None:
    canary = Content("b", {COUNTER: Attribute("Number", "1000000")})
    replayed = Content("b", {COUNTER: Attribute("Number", "999999")})

    assert (canary.replay_count, canary.is_canary) == (0, True)
    assert (replayed.replay_count, replayed.is_canary) == (999_999, False)


def _struct(data_type: str, text: str) -> dict[str, object]:
    return {"data_type": data_type, "string_value": text, "binary_value": None}
