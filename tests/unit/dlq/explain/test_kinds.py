"""The kind of a job, as frameworks name it, and pointers to bodies in S3."""

import base64
import json
from typing import Any

import pytest

from dlq.explain.signature.kinds import kind_words
from dlq.explain.signature.payload import Pointer, pointer_in_attributes, unwrap
from dlq.explain.signature.signature import shape_of, signature_of


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"headers": {"task": "shop.price", "id": "1"}}, ["task=shop.price"]),
        (
            {"displayName": "App\\Jobs\\Price", "data": {"commandName": "App\\Jobs\\Price"}},
            ["displayName=App\\Jobs\\Price", "commandName=App\\Jobs\\Price"],
        ),
        ({"job_class": "PriceJob"}, ["job_class=PriceJob"]),
        ({"class": "Wrapper", "wrapped": "PriceJob"}, ["class=Wrapper", "wrapped=PriceJob"]),
        (
            {"messageType": ["urn:message:Shop:Placed", "x"]},
            ["messageType=urn:message:Shop:Placed"],
        ),
        (
            {"Headers": {"NServiceBus.EnclosedMessageTypes": "Shop.Placed, Shop;Shop.IEvent"}},
            ["EnclosedMessageTypes=Shop.Placed"],
        ),
        (
            {"payload": {"source": {"table": "orders"}, "op": "c"}},
            ["table=orders", "op=c"],
        ),
        ({"source": {"table": "orders"}, "op": "c"}, ["table=orders"]),
        ({"operationName": "Price"}, ["operationName=Price"]),
        ({"pattern": "order.placed"}, ["pattern=order.placed"]),
        ({"pattern": {"cmd": "price"}}, ["pattern=price"]),
        ({"Event": "s3:TestEvent"}, ["Event=s3:TestEvent"]),
        ({"_class": "a.B", "@type": "C"}, ["@type=C", "_class=a.B"]),
        ({"event": {"id": "17"}, "type": 7, "action": []}, []),
        ({"type": "one, two and three"}, []),
        ({"type": "mona, lisa"}, []),
        ({"type": "of anna, please"}, []),
        ({"headers": ["task"], "payload": "source"}, []),
    ],
)
def test_a_kind_is_read_where_frameworks_write_it(value: dict[str, Any], words: list[str]) -> None:
    assert kind_words(value) == words
    assert kind_words(dict(reversed(value.items()))) == words


def test_two_kinds_of_job_are_two_groups_whatever_carries_them() -> None:
    jobs = [json.dumps({"headers": {"task": name}, "body": "W10="}) for name in ("price", "mail")]
    packed = [base64.b64encode(job.encode()).decode() for job in jobs]
    price_by_attribute = signature_of("{}", None, None, None, None, "JavaType=shop.Price")
    mail_by_attribute = signature_of("{}", None, None, None, None, "JavaType=shop.Mail")

    assert [shape_of(job).text.partition(" {")[0] for job in packed] == [
        "base64 of JSON task=price",
        "base64 of JSON task=mail",
    ]
    assert price_by_attribute.group_id != mail_by_attribute.group_id
    assert price_by_attribute.text == "parked_by_sqs: JavaType=shop.Price JSON {}"


_OBJECT = Pointer("files", "orders/", "orders/17")
_NAMED = {"s3BucketName": "files", "s3Key": "orders/17"}
_OFFICIAL = ["software.amazon.payloadoffloading.PayloadS3Pointer", _NAMED]


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (_OFFICIAL, _OBJECT),
        (_NAMED, _OBJECT),
        ({"S3Payload": {"Id": "1", "Bucket": "files", "Key": "orders/17"}}, _OBJECT),
        ({"Headers": {}, "S3BodyKey": "orders/17"}, Pointer("", "orders/", "orders/17")),
        ({"Headers": {}, "S3BodyKey": None}, None),
        ({"s3BucketName": "files"}, None),
        (["files", "orders/17"], None),
    ],
)
def test_a_pointer_is_known_in_each_form_also_in_an_envelope(
    value: object, pointer: Pointer | None
) -> None:
    body = json.dumps(value)
    envelope = {"Type": "Notification", "TopicArn": "arn:aws:sns:eu-west-1:1:orders"}

    assert unwrap(body).pointer == pointer
    assert unwrap(json.dumps({**envelope, "Message": body})).pointer == pointer


def test_a_pointer_with_a_bucket_is_called_one() -> None:
    assert {shape_of(json.dumps(value)).text for value in (_OFFICIAL, _NAMED)} == {
        "S3 pointer: JSON {bucket:string, prefix:string}"
    }


@pytest.mark.parametrize(
    ("attributes", "pointer"),
    [
        ([("S3MessageBodyKey", "(files)orders/17")], _OBJECT),
        ([("a", "b"), ("S3BodyKey", "orders/17")], Pointer("", "orders/", "orders/17")),
        ([("S3BodyKey", None), ("order", "(files)orders/17")], None),
    ],
)
def test_a_pointer_is_known_in_an_attribute(
    attributes: list[tuple[str, str | None]], pointer: Pointer | None
) -> None:
    assert pointer_in_attributes(attributes) == pointer
