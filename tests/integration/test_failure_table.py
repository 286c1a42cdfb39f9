"""The table of failures against a DynamoDB server over HTTP."""

from typing import Any

import boto3
import pytest

from dlq_replay.aws.failure_table import MAX_READS, MAX_WRITES, FailureTable, table_client_config
from dlq_replay.rules.failures import Failure
from tests.support.builders import NOW


@pytest.fixture
def table(dynamodb: Any, failure_table: str) -> FailureTable:
    return FailureTable(dynamodb, failure_table)


def failure(message_id: str = "m-1", text: str = "bad") -> Failure:
    return Failure.of(message_id, ValueError(text), NOW)


def failures(count: int) -> list[Failure]:
    return [failure(f"m-{index}") for index in range(count)]


def ids(count: int) -> list[str]:
    return [f"m-{index}" for index in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, MAX_WRITES, MAX_READS + 1])
def test_what_was_recorded_is_found(table: FailureTable, count: int) -> None:
    assert table.record(failures(count)) is None
    found = {one.message_id: one for one in failures(count)}
    assert table.find([*ids(count), *ids(count), "unknown"]) == (found, None)


def test_the_last_failure_of_a_message_stands(table: FailureTable) -> None:
    table.record([failure(text="first")])
    table.record([failure(text="second"), failure("m-2"), failure(text="third")])

    assert table.find(["m-1"])[0]["m-1"].error_message == "third"


def test_an_item_of_another_program_without_a_type_is_left_out(
    table: FailureTable, dynamodb: Any
) -> None:
    dynamodb.put_item(TableName=table.table_name, Item={"message_id": {"S": "strange"}})
    table.record([failure()])

    found, fault = table.find(["strange", "m-1"])

    assert (set(found), fault) == ({"m-1"}, "items without an error_type: 1")


def test_a_table_or_server_that_is_not_there_is_said_and_not_raised(dynamodb: Any) -> None:
    absent = boto3.client(
        "dynamodb", endpoint_url="http://127.0.0.1:9", config=table_client_config()
    )
    for table, code in (
        (FailureTable(dynamodb, "nowhere"), "ResourceNotFoundException: "),
        (FailureTable(absent, "failures"), "EndpointConnectionError: "),
    ):
        recorded, (found, fault) = table.record(failures(2)), table.find(ids(2))

        assert found == {}
        assert str(recorded).startswith(f"2 of 2: {code}")
        assert str(fault).startswith(code)
