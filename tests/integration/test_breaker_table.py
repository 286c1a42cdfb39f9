"""The circuit breakers against a DynamoDB server over HTTP: what ``apply`` says, DynamoDB does."""

import itertools
import os
from collections.abc import Mapping
from typing import Any

import boto3
import pytest
from botocore.config import Config

from dlq_replay.breaker import BreakerState, Update, apply
from dlq_replay.breaker_table import KEPT_SECONDS, DynamoDbBreakers, breaker_client_config
from dlq_replay.errors import BreakerTableError
from tests.builders import NOW
from tests.failure_table import create_failure_table

_numbers = itertools.count(1)


@pytest.fixture
def client(moto_endpoint: str) -> Any:
    return boto3.client(
        "dynamodb",
        endpoint_url=moto_endpoint,
        region_name=os.environ["AWS_REGION"],
        # The server of the tests is slower than DynamoDB.
        config=breaker_client_config().merge(Config(read_timeout=10)),
    )


@pytest.fixture
def table(client: Any) -> DynamoDbBreakers:
    name = f"breakers-{next(_numbers)}"
    create_failure_table(client, name)
    return DynamoDbBreakers(client, name, "orders", lambda: NOW)


def of(state: BreakerState) -> tuple[Mapping[str, int], Mapping[int, str]]:
    """A state without what the adapter itself adds."""
    ours = {"v", "expires_at"}
    return {n: v for n, v in state.numbers.items() if n not in ours}, state.probes


def item_of(table: DynamoDbBreakers, name: str) -> dict[str, Any]:
    client: Any = table.client
    key = {"message_id": {"S": f"breaker#orders#{name}"}}
    return dict(client.get_item(TableName=table.table_name, Key=key).get("Item", {}))


UPDATES = [
    Update(add={"s1": 3, "b1": 1}),
    Update(add={"s1": 2, "n2": 1}, put={"opened_at": NOW}, expect={"opened_at": None}),
    Update(put={"opened_at": NOW + 9}, expect={"opened_at": None}),
    Update(put={"p17": "m-17", "p20": "m-20"}, expect={"opened_at": NOW}),
    Update(put={"p99": "never"}, expect={"opened_at": NOW + 1}),
    Update(put={"returned_at": 17}, remove=frozenset({"p17", "absent"}), expect={"opened_at": NOW}),
    Update(add={"s3": 1}, remove=frozenset({"s1", "b1"})),
    Update(remove=frozenset({"opened_at"}), put={"closed_at": NOW}, expect={"returned_at": 17}),
]


def test_updates_do_what_the_pure_function_says(table: DynamoDbBreakers) -> None:
    state = BreakerState()
    for update in UPDATES:
        expected = apply(state, update)
        is_done, answered = table.update("orders.TimeoutError", update)
        state = expected or state

        assert is_done is (expected is not None)
        assert of(state) == of(answered)
    types, states = table.read(["orders.TimeoutError", "unknown"])
    assert types == frozenset()
    assert {name: of(one) for name, one in states.items()} == {"orders.TimeoutError": of(state)}


def test_items_have_a_format_and_an_end(table: DynamoDbBreakers) -> None:
    table.update("unknown", Update(add={"s1": 1}))

    item = item_of(table, "unknown")
    assert item["v"] == {"N": "1"}
    assert item["expires_at"] == {"N": str(NOW + KEPT_SECONDS)}


def test_types_are_registered_while_there_is_room(table: DynamoDbBreakers) -> None:
    assert table.register(["A", "B"], room=6) == {"A", "B"}
    assert table.register(["C"], room=2) == {"A", "B", "C"}
    assert table.register(["D"], room=2) == {"A", "B", "C"}

    table.update("B", Update(add={"s1": 1}))
    types, states = table.read(["unknown"])
    assert types == {"A", "B", "C"}
    assert of(states["B"]) == ({"s1": 1}, {})


def test_items_of_a_later_format_are_neither_read_nor_changed(table: DynamoDbBreakers) -> None:
    later = {
        "message_id": {"S": "breaker#orders#unknown"},
        "v": {"N": "2"},
        "opened_at": {"M": {}},
    }
    client: Any = table.client
    client.put_item(TableName=table.table_name, Item=later)
    registry = {"message_id": {"S": "breaker#orders"}, "v": {"N": "2"}, "types": {"SS": ["A"]}}
    client.put_item(TableName=table.table_name, Item=registry)

    assert table.read(["unknown"]) == (frozenset(), {})
    assert table.update("unknown", Update(add={"s1": 1})) == (False, BreakerState())
    assert table.register(["B"], room=7) == frozenset()
    assert item_of(table, "unknown") == later


def test_a_consistent_read_is_asked_for_of_every_item(client: Any, table: DynamoDbBreakers) -> None:
    asked: list[bool] = []

    def keep(params: Mapping[str, Any], **_: Any) -> None:
        asked.append(params["RequestItems"][table.table_name]["ConsistentRead"])

    client.meta.events.register("before-parameter-build.dynamodb.BatchGetItem", keep)
    table.register(["A"], room=7)
    for is_consistent in (False, True):
        table.read(["unknown"], is_consistent=is_consistent)

    assert asked == [False, False, True, True]


def test_a_table_that_is_missing_is_an_error_that_says_so(client: Any) -> None:
    table = DynamoDbBreakers(client, "missing", "orders", lambda: NOW)

    with pytest.raises(BreakerTableError, match="ResourceNotFoundException"):
        table.read(["unknown"])
    with pytest.raises(BreakerTableError, match="ResourceNotFoundException"):
        table.update("unknown", Update(add={"s1": 1}))


def test_a_server_that_does_not_answer_costs_one_short_wait() -> None:
    client = boto3.client(
        "dynamodb",
        endpoint_url="http://127.0.0.1:9",
        region_name=os.environ["AWS_REGION"],
        config=breaker_client_config(),
    )
    table = DynamoDbBreakers(client, "failures", "orders", lambda: NOW)

    with pytest.raises(BreakerTableError, match="EndpointConnectionError"):
        table.read(["unknown"])
