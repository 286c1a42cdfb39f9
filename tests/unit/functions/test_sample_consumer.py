"""The example that consumers copy, with an invented payments service behind it."""

import json
from email.message import Message as Headers
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import Request

import pytest
from aws_lambda_powertools.utilities.typing import LambdaContext

from dlq_replay.failures import Failure
from dlq_replay.message import Message
from functions.sample_consumer import handler
from tests.builders import context, lambda_record, message
from tests.failure_table import FakeFailureTable

NON_RETRYABLE = "CardRefusedError,JSONDecodeError"


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
def table(monkeypatch: pytest.MonkeyPatch) -> FakeFailureTable:
    table = FakeFailureTable()
    monkeypatch.setattr(handler.recorder, "table", table)
    return table


@pytest.fixture(autouse=True)
def payments(monkeypatch: pytest.MonkeyPatch) -> Payments:
    payments = Payments()
    monkeypatch.setenv("PAYMENTS_URL", "https://payments.example.com/charges")
    monkeypatch.setattr(handler, "urlopen", payments)
    return payments


def order(customer: str, **options: Any) -> Message:
    return message(customer, body=json.dumps({"customer": customer, "cents": 150}), **options)


def handle(*messages: Message) -> list[str]:
    event = {"Records": [lambda_record(one) for one in messages]}
    answer = handler.lambda_handler(event, LambdaContext())
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def failures(table: FakeFailureTable) -> dict[str, Failure]:
    (call,) = table.calls
    return {one.message_id: one for one in call}


def test_each_message_fails_by_itself_and_all_failures_are_written_at_once(
    table: FakeFailureTable, payments: Payments
) -> None:
    torn = message("torn", body="{card 4111")

    assert handle(order("alice"), order("refused"), order("outage"), torn) == [
        "refused",
        "outage",
        "torn",
    ]
    assert payments.charged == {"alice": 150}
    assert set(failures(table)) == {"refused", "outage", "torn"}


def test_what_would_fail_again_is_told_from_what_may_succeed(table: FakeFailureTable) -> None:
    handle(order("refused"), order("outage"), message("torn", body="{card 4111"))

    found = failures(table)
    assert {i for i, one in found.items() if one.matches(NON_RETRYABLE)} == {"refused", "torn"}
    assert found["outage"].error_type == "urllib.error.HTTPError"
    assert "4111" not in str(found)


def test_a_batch_that_fails_whole_names_every_message(table: FakeFailureTable) -> None:
    assert handle(order("refused"), order("outage")) == ["refused", "outage"]


def test_a_copy_is_charged_under_the_id_of_the_first_one(payments: Payments) -> None:
    handle(order("alice", attributes=context(first_id="first")))

    assert payments.charged == {"first": 150}


def test_the_consumer_works_without_a_table() -> None:
    assert handler.recorder.table is None
    assert handle(order("alice"), order("refused")) == ["refused"]
