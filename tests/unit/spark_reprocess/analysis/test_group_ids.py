"""Groups keep their ids: what follows was written down once, and holds for all of version 1.

Where an id here has to change, so has ``SIGNATURE_VERSION``: plans name groups by them.
"""

import base64
import gzip
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.analysis.groups.signature import short_title, signature_of
from spark_reprocess.groups.grouping import SIGNATURE_VERSION

ORDER = {
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


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


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
            "g-96e0b64db1",
            "Error: user <id> is unknown",
        ),
        (
            "ClientError",
            "(Throttling) for ann@example.org: 0xdeadbeef at 2026-11-21, request ABCD1234EFGH",
            "g-0f600295d5",
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
            names = chance.sample([*value], len(value))
            return {
                name: value[name] if name == "type" else varied(value[name], chance)
                for name in names
            }
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


@pytest.mark.parametrize(
    "change",
    [
        {"type": "OrderPaid"},
        {"id": "4711"},
        {"coupon": "SPRING"},
        {"customer": {"id": "c-17"}},
        {"customer": {**ORDER["customer"], "vip": 1}},  # type: ignore[dict-item]
        {"note": "x"},
    ],
)
def test_another_kind_another_type_or_another_field_is_another_group(
    change: dict[str, Any],
) -> None:
    assert group_of(json.dumps({**ORDER, **change})) != group_of(TEXT)


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"something": "else"}},
        {"customer": {**ORDER["customer"], "address": {"town": 5}}},  # type: ignore[dict-item]
        {"customer": {**ORDER["customer"], "id": None}},  # type: ignore[dict-item]
    ],
)
def test_what_anybody_adds_what_lies_deeper_and_what_may_be_null_is_not(
    change: dict[str, Any],
) -> None:
    assert group_of(json.dumps({**ORDER, **change})) == group_of(TEXT)


MEGABYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("body", "title"),
    [
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
def test_a_megabyte_of_anything_is_in_a_group_that_can_be_told(body: str, title: str) -> None:
    assert group_of(body)[1] == title
