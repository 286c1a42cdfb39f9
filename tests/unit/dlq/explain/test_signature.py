"""Groups keep their ids: those below were written down once, and hold for all of version 1.

Where one of them has to change, so has ``SIGNATURE_VERSION``: plans name groups by them.
"""

import base64
import gzip
import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.explain.grouping import SIGNATURE_VERSION, grouped
from dlq.explain.signature.signature import (
    reason_of,
    shape_of,
    short_title,
    signature_of,
)
from dlq_replay.rules.failures import Failure
from dlq_replay.text.places import PLACE_CHARACTERS
from dlq_replay.wire.context import ReplayContext
from tests.support.builders import NOW

MEGABYTE = 1024 * 1024


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("", "empty body"),
        ('{"b": 1, "a": "x"}', "JSON {a:string, b:number}"),
        (
            '{"a": [1], "b": {}, "c": null, "d": true}',
            "JSON {a:array, b:object, c:null, d:boolean}",
        ),
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
        ('"text"', "JSON string of text text"),
        ("null", "JSON null"),
        ("{not json", "text {not json"),
        (in_base64(bytes(range(256))), "base64 of bytes, up to 1 KiB"),
        (in_base64(bytes(200_000)), "base64 of bytes, up to 256 KiB"),
        ("\x00\x01\x02binary", "encoded bytes, up to 1 KiB"),
        # No half word at the end.
        (f"{'word ' * 15}bob@example.com", f"text {'word ' * 15}…"),
        (f"{'word ' * 15}1234 and more", f"text {'word ' * 15}<n>"),
        (f"{'a,' * 39}token=ab;c", f"text {'a,' * 39}…"),
        ("字" * 100, f"text {'字' * 80}"),
        # A row of comments is no root element.
        (f"{'<!---->' * 146}x", f"text {'<!---->' * 11}<…"),
        ("x " * (MEGABYTE // 2), f"text {('x ' * 40).strip()}"),
        ("A" * MEGABYTE, "base64 of bytes, above 256 KiB"),
        ("?" * MEGABYTE, "text …"),
        ("[" * MEGABYTE, f"text {'[' * 80}"),
        (f"<a>{'<b/>' * (MEGABYTE // 4)}</a>", "XML a"),
        (json.dumps({"rows": [{"n": n} for n in range(100_000)]}), "JSON {rows:array}"),
        (json.dumps({"payload": json.dumps({"t": "x" * MEGABYTE})}), "JSON {payload:string}"),
        ('{"a": 1, "b": ' + "[1, " * (MEGABYTE // 4), "broken JSON {a, b, …}"),
        (" " * MEGABYTE, "empty body"),
        ("<!--" * (MEGABYTE // 4), f"text {'<!--' * 20}"),
        ('"' * MEGABYTE, f"text {chr(34) * 80}"),
    ],
)
def test_payload_is_known_by_its_shape(body: str, shape: str) -> None:
    assert shape_of(body).text == shape


def test_wide_object_is_cut_to_fifty_keys() -> None:
    body = json.dumps({f"{a}{b}": 1 for a in "abcdefgh" for b in "abcdefgh"})

    assert shape_of(body).text.count(":number") == 50
    assert shape_of(body).text.endswith(", …}")


WORDS = st.sampled_from(
    ("ordér", "заказ", "顧客", "\U0001f389", '"vat"', "column", "a\\b", "'", "x" * 30, "12", "<id>")
)


@given(
    st.lists(WORDS, max_size=60),
    st.sampled_from(["", "pay", "q" * 80]),
    st.sampled_from(["", "p" * PLACE_CHARACTERS]),
)
def test_no_cut_of_an_error_changes_its_group(words: list[str], source: str, place: str) -> None:
    """After a redrive the context of a message is fuller, with less room for the error."""
    failure = Failure.of("m-1", ValueError(" ".join(words)), 0)
    error = replace(failure.to_failure_error(), type="shop.errors." + "E" * 116, place=place)
    first_id = "7c1811ed-e98f-4c9c-a9f9-58c757ff494f"
    slim = ReplayContext(first_id, error=error)
    full = slim._replace(
        first_seen_seconds=NOW,
        reason="attempts_exhausted",
        plan_id="20261121T000001Z-ab12cdef012",
        source_queue=source or None,
        held_seconds=NOW,
        body_digest="0123abcd",
        group_id="g-0123456789",
        is_back=True,
        in_step=True,
    )
    arrived = (ReplayContext.from_json(sent.to_json()).error for sent in (slim, full))
    errors = [error, *filter(None, arrived)]

    assert len(errors) == 3
    signatures = []
    for cut in errors:
        signatures.append(signature_of("", None, cut.type, cut.message, error_place=cut.place))
    assert len({signature.key for signature in signatures}) == 1
    assert all(place in signature.text for signature in signatures)


def test_where_it_failed_is_a_part_of_what_failed() -> None:
    places = ("com.shop.Tax#rate", "com.shop.Mail#send", None)
    bare = [signature_of("", None, "NullPointerException", "", error_place=at) for at in places]
    texts = [signature_of("", None, "TypeError", "x is null", error_place=at) for at in places]
    coded = {signature_of("", None, "E", "", "slow", error_place=at).key for at in places}

    assert [signature.text for signature in bare] == [
        "NullPointerException: at com.shop.Tax#rate",
        "NullPointerException: at com.shop.Mail#send",
        "NullPointerException",
    ]
    assert texts[0].text == "TypeError: x is null at com.shop.Tax#rate"
    assert len({signature.key for signature in bare + texts}) == 6
    assert len(coded) == 1
    _, grouping = grouped((), {signature.group_key: 90 for signature in bare + texts})
    assert len(set(grouping.ids.values())) == 6


def test_of_a_logged_error_the_place_is_that_of_the_first_own_frame() -> None:
    logged = "found by id in g, s, 2026\nhttps://a.example\nrate (/var/task/tax.js:17:9)\nb"
    row = {"log_error_message": "", "logged": logged}
    reasons = {
        "m-1": {**row, "log_error_type": "TypeError"},
        "m-2": {**row, "log_error_type": "NoRateError", "log_error_message": "no rate for HR"},
        "m-3": {**row, "log_error_type": "TypeError", "logged": "found by id"},
    }

    assert reason_of(reasons, "m-1", None, None).place == "task/tax.js#rate"
    assert reason_of(reasons, "m-2", None, None).place == ""
    assert reason_of(reasons, "m-3", None, None).place == ""
    # What is recorded counts first.
    assert reason_of(reasons, "m-1", "E", None, "a.py#f") == ("E", None, "a.py#f", None)


def test_whether_an_id_has_a_letter_is_chance() -> None:
    ids = ("12345678", "1234567a", "0x1f", "17")

    keys = set()
    for lease_id in ids:
        signature = signature_of("", None, "LeaseLost", f"lease {lease_id} expired")
        keys.add(signature.group_key)

    assert len(keys) == 1


def test_a_code_is_the_failure_whatever_the_text_says() -> None:
    texts = [f"{first}{second} is refused" for first in "abcdefghij" for second in "klmnopqrst"]
    of_one = [signature_of(text, text, "shop.Refused", text, "limit") for text in texts]
    others = [
        signature_of("", None, "shop.Refused", texts[0], "stolen"),
        signature_of("", None, "shop.Late", texts[0], "limit"),
        signature_of("", None, "shop.Refused", "limit"),
        signature_of("", None, "shop.Refused (limit)", None),
    ]
    _, grouping = grouped((), Counter(signature.group_key for signature in of_one + others))

    assert {grouping.ids[signature.group_key] for signature in of_one} == {of_one[0].group_id}
    assert len(set(grouping.ids.values())) == 5
    assert {signature.text for signature in of_one} == {"shop.Refused (limit)"}


@pytest.mark.parametrize(("error_type", "message"), [(" ", " "), (" ", None), ("\x00", "\n")])
def test_a_blank_error_has_a_title(error_type: str, message: str | None) -> None:
    assert signature_of("x", None, error_type, message).text == "Error"


any_text = st.text(max_size=300) | st.binary(max_size=300).map(in_base64)


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


ORDER: dict[str, Any] = {
    "type": "OrderPlaced",
    "id": 4711,
    "customer": {"id": "c-17", "vip": True, "tags": ["a"], "address": {"city": "Paris"}},
    "metadata": {"anything": 1},
    "note": None,
}
ORDER_TITLE = (
    "JSON type=OrderPlaced {customer:object, id:number, metadata:object, note:null, type:string}"
)
TEXT = json.dumps(ORDER)
SNS = json.dumps({"TopicArn": "arn:aws:sns:eu-west-1:1:orders", "Message": TEXT})
POINTER = json.dumps(["a.PayloadS3Pointer", {"s3BucketName": "b", "s3Key": "orders/17"}])
EVENT = json.dumps({"detail-type": "OrderPlaced", "source": "shop", "detail": ORDER})


def group_of(body: str, reason: str | None = "attempts_exhausted") -> tuple[str, str]:
    signature = signature_of(body, reason, None, None)
    return signature.group_id, short_title(signature.text).removeprefix(f"{reason}: ")


@pytest.mark.parametrize(
    ("body", "group_id", "title"),
    [
        (TEXT, "g-3eb7737bb7", ORDER_TITLE),
        (json.dumps({"payload": ORDER, "v": 1}), "g-91ec3ee1c6", "JSON {payload:object, v:number}"),
        (json.dumps({"payload": TEXT, "v": 1}), "g-8be03dc8f7", "JSON {payload:string, v:number}"),
        (SNS, "g-0e6d3a57d5", f"SNS orders: {ORDER_TITLE}"),
        (EVENT, "g-b93c82a6f3", f"EventBridge shop OrderPlaced: {ORDER_TITLE}"),
        (json.dumps(TEXT), "g-384dff48b4", f"JSON string of {ORDER_TITLE}"),
        (in_base64(TEXT.encode()), "g-a9e67298e0", f"base64 of {ORDER_TITLE}"),
        (
            in_base64(gzip.compress(TEXT.encode(), mtime=0)),
            "g-86da326904",
            f"base64 of gzip of {ORDER_TITLE}",
        ),
        (POINTER, "g-f9edc10d0c", "S3 pointer: JSON {bucket:string, prefix:string}"),
        (json.dumps([ORDER, 1]), "g-8c6c51ea72", "JSON array of number or object"),
        ("12", "g-4b0d36009e", "JSON number"),
        ("<?xml version='1.0'?><!-- x --><s:Body a='1'/>", "g-5d8aeaf914", "XML s:Body"),
        (TEXT[:-5], "g-9e186b01fd", "broken JSON {type, id, customer, …}"),
        (
            "order 4711 of ann@example.org failed at 2026-11-21T03:15:00Z",
            "g-08b6815e43",
            "text order <n> of <email> failed at <time>",
        ),
        (in_base64(bytes(range(256)) * 8), "g-679a2f6cd8", "base64 of bytes, up to 16 KiB"),
        (" ", "g-b858411ea4", "empty body"),
        ("Zahlung für 12 € abgelehnt", "g-2b39ff74e3", "text Zahlung für <n> € abgelehnt"),
    ],
)
def test_a_payload_keeps_its_group(body: str, group_id: str, title: str) -> None:
    assert SIGNATURE_VERSION == "v1"
    assert group_of(body) == (group_id, title)


@pytest.mark.parametrize(
    ("error_type", "message", "group_id", "title"),
    [
        (
            "TimeoutError",
            "no answer from 'pay-3' within 30 s",
            "g-c7a96b7625",
            "TimeoutError: no answer from '<text>' within <n>",
        ),
        ("KeyError", None, "g-2965257d54", "KeyError"),
        (
            None,
            "user 3f2b8c1e-9d4a-4b6c-8e2f-0a1b2c3d4e5f is unknown",
            "g-c39911bc73",
            "Error: user <id> is unknown",
        ),
        (
            "ClientError",
            "(Throttling) for ann@example.org: 0xdeadbeef at 2026-11-21, request ABCD1234EFGH",
            "g-fcbf0a3106",
            "ClientError: (Throttling) for <email>: <id> at <time>, request <id>",
        ),
    ],
)
def test_an_error_keeps_its_group(
    error_type: str | None, message: str | None, group_id: str, title: str
) -> None:
    signature = signature_of("any body", "any reason", error_type, message)

    assert (signature.group_id, short_title(signature.text)) == (group_id, title)


def varied(value: Any, chance: random.Random) -> Any:
    """The same message as it would be on another day: other values, other order of keys."""
    match value:
        case dict():
            other = {}
            for name in chance.sample([*value], len(value)):
                other[name] = value[name] if name == "type" else varied(value[name], chance)
            return other
        case list():
            return [varied(value[0], chance)] * chance.randint(1, 4)
        case str():
            return f"{chance.getrandbits(40):x}"
        case bool():
            return chance.random() < 0.5
        case int():
            return chance.randrange(10**6)
    return value


@given(st.randoms(use_true_random=False))
def test_values_and_the_order_of_keys_do_not_matter(chance: random.Random) -> None:
    another = json.dumps(varied(ORDER, chance), indent=chance.choice([None, 1]))

    assert group_of(another) == group_of(TEXT)
    assert group_of(json.dumps({**json.loads(SNS), "Message": another})) == group_of(SNS)
    assert group_of(in_base64(another.encode())) == group_of(in_base64(TEXT.encode()))


CUSTOMER: dict[str, Any] = ORDER["customer"]


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"type": "OrderPaid"}, False),
        ({"id": "4711"}, False),
        ({"coupon": "SPRING"}, False),
        ({"customer": {"id": "c-17"}}, False),
        ({"customer": {**CUSTOMER, "vip": 1}}, False),
        ({"note": "x"}, False),
        ({"metadata": {"something": "else"}}, True),
        ({"customer": {**CUSTOMER, "address": {"town": 5}}}, True),
        ({"customer": {**CUSTOMER, "id": None}}, True),
    ],
)
def test_another_kind_type_or_field_is_another_group_and_what_anybody_adds_is_not(
    change: dict[str, Any], *, is_same: bool
) -> None:
    assert (group_of(json.dumps({**ORDER, **change})) == group_of(TEXT)) is is_same
