"""The circuit breaker against a DynamoDB server over HTTP: what ``apply`` says, DynamoDB does."""

from collections.abc import Mapping
from typing import Any

import pytest

from dlq_replay.aws.breaker_table import KEPT_SECONDS, DynamoDbBreaker
from dlq_replay.errors import TableError
from dlq_replay.rules.breaker import Update, apply
from tests.support.builders import NOW


@pytest.fixture
def table(dynamodb: Any, failure_table: str) -> DynamoDbBreaker:
    return DynamoDbBreaker(dynamodb, failure_table, "orders", lambda: NOW)


def of(numbers: Mapping[str, int]) -> Mapping[str, int]:
    """An item's numbers without what the adapter itself adds."""
    return {name: number for name, number in numbers.items() if name != "expires_at"}


UPDATES = [
    Update(add={"n1": 3, "b1": 1}),
    Update(add={"n1": 2, "x2": 1}, put={"limit": 1, "since": NOW}, expect={"limit": None}),
    Update(put={"since": NOW + 9}, expect={"limit": None}),
    Update(add={"g1": 22}, expect={"limit": 1, "g1": None}),
    Update(add={"g1": 20}, expect={"limit": 1, "g1": None}),
    Update(add={"n3": 1, "g1": -2}, put={"n1": None, "b1": None, "absent": None}),
    Update(put={"limit": 90, "since": None}, expect={"since": NOW}),
    Update(),
]


def test_updates_do_what_the_pure_function_says(table: DynamoDbBreaker) -> None:
    numbers: Mapping[str, int] = {}
    for update in UPDATES:
        expected = apply(numbers, update)
        is_done, answered = table.update(update)
        numbers = numbers if expected is None else expected

        assert is_done is (expected is not None)
        assert of(numbers) == of(answered)
    assert of(table.read()) == of(numbers) == {"x2": 1, "g1": 20, "n3": 1, "limit": 90}
    assert table.read()["expires_at"] == NOW + KEPT_SECONDS


def test_without_an_item_there_is_no_limit(table: DynamoDbBreaker) -> None:
    assert table.read() == {}


def test_what_nobody_of_ours_wrote_is_left_out(dynamodb: Any, table: DynamoDbBreaker) -> None:
    item = {
        "message_id": {"S": "breaker#orders"},
        "limit": {"S": "1"},
        "since": {"N": "-5"},
        "full": {"N": "1.5"},
        "n1": {"M": {}},
        "b1": {"N": "7"},
    }
    dynamodb.put_item(TableName=table.table_name, Item=item)

    assert table.read() == {"b1": 7}


def test_a_table_that_is_missing_is_an_error_that_says_so(dynamodb: Any) -> None:
    table = DynamoDbBreaker(dynamodb, "missing", "orders", lambda: NOW)

    with pytest.raises(TableError, match="ResourceNotFoundException"):
        table.read()
    with pytest.raises(TableError, match="ResourceNotFoundException"):
        table.update(Update(add={"n1": 1}))


def test_a_read_is_tried_twice_and_a_write_once() -> None:
    class Silent:
        def __init__(self) -> None:
            self.calls = 0

        def batch_get_item(self, **_: object) -> Mapping[str, Any]:
            self.calls += 1
            raise RuntimeError("no answer")

        update_item = batch_get_item

    client = Silent()
    table = DynamoDbBreaker(client, "failures", "orders", lambda: NOW)
    with pytest.raises(TableError):
        table.read()
    assert client.calls == 2
    with pytest.raises(TableError):
        table.update(Update())
    assert client.calls == 3
