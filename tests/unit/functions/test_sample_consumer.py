"""The example's own work, with an invented payments service behind it; the kit around it is tested
in tests/integration."""

import json
from email.message import Message as Headers
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import Request

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from demo.functions import cold_start
from dlq_replay.rules.failures import Failure
from dlq_replay.wire.message import Message
from tests.support.builders import NOW, context, lambda_record, message, queue_url

NON_RETRYABLE = ("CardRefusedError", "JSONDecodeError")


class Payments:
    """Answers by the customer's name: refuses a card, is out of order, or takes the money."""

    def __init__(self) -> None:
        self.charged: dict[str, int] = {}

    def __call__(self, request: Request, timeout: float) -> "Payments":
        order = json.loads(cast("bytes", request.data))
        status = {"refused": 402, "outage": 503}.get(order["customer"])
        if status:
            raise HTTPError(request.full_url, status, "no", Headers(), None)
        self.charged[cast("str", request.get_header("Idempotency-key"))] = order["cents"]
        return self

    def close(self) -> None:
        pass


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("QUEUE_URL", queue_url("orders"))
    monkeypatch.setenv("PROCESSED_TABLE", "processed")
    monkeypatch.setenv("PAYMENTS_URL", "https://payments.example.com/charges")
    return cold_start("sample_consumer")


@pytest.fixture
def payments(handler: Any) -> Payments:
    handler.urlopen = Payments()
    return cast("Payments", handler.urlopen)


def order(customer: str, **options: Any) -> Message:
    return message(customer, body=json.dumps({"customer": customer, "cents": 150}), **options)


def charge(handler: Any, source: Message) -> None:
    handler.work(SQSRecord(lambda_record(source)))


def failure(handler: Any, source: Message) -> Failure:
    try:
        charge(handler, source)
    except Exception as error:  # noqa: BLE001 - whatever it is, it would be recorded
        return Failure.of(source.message_id, error, NOW)
    raise AssertionError("nothing was raised")


def test_order_is_charged_under_the_id_of_its_first_copy(handler: Any, payments: Payments) -> None:
    charge(handler, order("alice"))
    charge(handler, order("bob", attributes=context(first_id="first")))

    assert payments.charged == {"alice": 150, "first": 150}


@pytest.mark.usefixtures("payments")
def test_what_would_fail_again_is_told_from_what_may_succeed(handler: Any) -> None:
    orders = [order("refused"), order("outage"), message("torn", body="{card 4111")]

    failures = {order.message_id: failure(handler, order) for order in orders}

    assert {i for i, order_failure in failures.items() if order_failure.matches(NON_RETRYABLE)} == {
        "refused",
        "torn",
    }
    assert failures["outage"].error_type == "urllib.error.HTTPError"
    assert "4111" not in str(failures)
