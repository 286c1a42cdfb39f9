import base64
import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.rules.failures import Failure
from dlq_replay.wire.context import ReplayContext
from spark_reprocess.analysis.groups.signature import shape_of, short_title, signature_of
from spark_reprocess.groups.grouping import grouped
from tests.support.builders import NOW


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("", "empty body"),
        (" \n", "empty body"),
        ('{"b": 1, "a": "x"}', "JSON {a:string, b:number}"),
        (
            '{"a": [1], "b": {}, "c": null, "d": true}',
            "JSON {a:array, b:object, c:null, d:boolean}",
        ),
        ('{"type": "OrderPlaced", "id": 1}', "JSON type=OrderPlaced {id:number, type:string}"),
        (
            '{"detail-type": "x", "action": "y"}',
            "JSON detail-type=x action=y {action:string, detail-type:string}",
        ),
        ('{"type": 7}', "JSON {type:number}"),
        ('{"order-1234": 1, "order-999": 2}', "JSON {order-<n>:number}"),
        (
            '{"line1": 1, "p2p": 1, "s3Key": {"h264": 1}, "address12": ""}',
            "JSON {address12:string, line1:number, p2p:number, s3Key:object}",
        ),
        (
            '{"sku1": 1, "sku2": 1, "sku7": 1, "sku9": 1, "n1": 1}',
            "JSON {n1:number, sku<n>:number}",
        ),
        ("{}", "JSON {}"),
        ("[]", "JSON array of nothing"),
        ('[{"a": 1}, 2, "x"]', "JSON array of number or object or string"),
        ('"text"', "JSON string of text text"),
        ("12", "JSON number"),
        ("null", "JSON null"),
        ("order 12 failed", "text order <n> failed"),
        ("{not json", "text {not json"),
        ("x " * 200, f"text {('x ' * 40).strip()}"),
        (base64.b64encode(bytes(range(256))).decode(), "base64 of bytes, up to 1 KiB"),
        (base64.b64encode(bytes(200_000)).decode(), "base64 of bytes, up to 256 KiB"),
        ("\x00\x01\x02binary", "encoded bytes, up to 1 KiB"),
    ],
)
def test_payload_is_known_by_its_shape(body: str, shape: str) -> None:
    assert shape_of(body).text == shape


def test_wide_object_is_cut_to_fifty_keys() -> None:
    body = json.dumps({f"{a}{b}": 1 for a in "abcdefgh" for b in "abcdefgh"})

    assert shape_of(body).text.count(":number") == 50
    assert shape_of(body).text.endswith(", …}")


def test_recorded_error_outweighs_payload_and_reason() -> None:
    first = signature_of('{"a": 1}', "too_old", "TimeoutError", "after 3 s")
    second = signature_of("text", "attempts_exhausted", "TimeoutError", "after 40 s")

    assert first == second
    assert first.text == "TimeoutError: after <n>"


WORDS = st.sampled_from(
    ("ordér", "заказ", "顧客", "\U0001f389", '"vat"', "column", "a\\b", "'", "x" * 30, "12", "<id>")
)


@given(st.lists(WORDS, max_size=60), st.sampled_from(["", "pay", "q" * 80]))
def test_no_cut_of_an_error_changes_its_group(words: list[str], source: str) -> None:
    """What came back of a redrive has a fuller context, with less room for the error."""
    failure = Failure.of("m-1", ValueError(" ".join(words)), 0)
    error = replace(failure.to_failure_error(), type="shop.errors." + "E" * 116)
    first_id = "7c1811ed-e98f-4c9c-a9f9-58c757ff494f"
    slim = ReplayContext(first_id, error=error)
    full = replace(
        slim,
        first_seen_seconds=NOW,
        reason="attempts_exhausted",
        plan_id="20261121T000001Z-ab12cdef012",
        source_queue=source or None,
        held_seconds=NOW,
        body_digest="0123abcd",
        group_id="g-0123456789",
        is_back=True,
        is_canary=True,
    )
    arrived = (ReplayContext.from_json(one.to_json()).error for one in (slim, full))
    errors = [error, *filter(None, arrived)]

    assert len(errors) == 3
    assert len({signature_of("", None, one.type, one.message).key for one in errors}) == 1


def test_a_code_is_the_failure_whatever_the_text_says() -> None:
    texts = [f"{first}{second} is refused" for first in "abcdefghij" for second in "klmnopqrst"]
    of_one = [signature_of(text, text, "shop.Refused", text, "limit") for text in texts]
    others = [
        signature_of("", None, "shop.Refused", texts[0], "stolen"),
        signature_of("", None, "shop.Late", texts[0], "limit"),
        signature_of("", None, "shop.Refused", "limit"),
        signature_of("", None, "shop.Refused (limit)", None),
    ]
    _, grouping = grouped((), Counter(one.group_key for one in [*of_one, *others]))

    assert {grouping.ids[one.group_key] for one in of_one} == {of_one[0].group_id}
    assert len(set(grouping.ids.values())) == 5
    assert {one.text for one in of_one} == {"shop.Refused (limit)"}


@pytest.mark.parametrize(("error_type", "message"), [(" ", " "), (" ", None), ("\x00", "\n")])
def test_a_blank_error_has_a_title(error_type: str, message: str | None) -> None:
    assert signature_of("x", None, error_type, message).text == "Error"


any_text = st.text(max_size=300)


@given(any_text, st.none() | any_text, st.none() | any_text, st.none() | any_text)
def test_any_message_has_a_printable_title(
    body: str, reason: str | None, error_type: str | None, error_message: str | None
) -> None:
    signature = signature_of(body, reason, error_type, error_message)

    assert signature == signature_of(body, reason, error_type, error_message)
    if not (error_type or error_message):
        other_reason = signature_of(body, f"{reason}x", None, None)
        assert signature.group_id != other_reason.group_id
    title = short_title(signature.text)
    assert title
    assert title.isprintable()
    assert len(title) <= 160
    assert signature.group_id.startswith("g-")


@pytest.mark.parametrize(
    ("body", "title"),
    [
        (f"{'word ' * 15}bob@example.com", f"text {'word ' * 15}…"),
        (f"{'word ' * 15}1234 and more", f"text {'word ' * 15}<n>"),
        (f"{'a,' * 39}token=ab;c", f"text {'a,' * 39}…"),
        ("字" * 100, f"text {'字' * 80}"),
        # A row of comments is no root element.
        (f"{'<!---->' * 146}x", f"text {'<!---->' * 11}<…"),
    ],
)
def test_the_title_of_a_text_has_no_half_word_at_its_end(body: str, title: str) -> None:
    assert shape_of(body).text == title
