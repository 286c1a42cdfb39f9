"""The table of failures against a DynamoDB server over HTTP."""

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from dlq_replay.aws.failure_table import MAX_READS, MAX_WRITES, FailureTable, table_client_config
from dlq_replay.consumer.failures import FailureRecorder
from dlq_replay.rules.failures import Failure
from tests.support.builders import NOW, lambda_record, message


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


def test_the_requests_are_what_dynamodb_documents(dynamodb: Any) -> None:
    table = FailureTable(dynamodb, "failures")
    puts = [{"PutRequest": {"Item": one.to_item()}} for one in failures(2)]
    keys = [{"message_id": {"S": one}} for one in ids(2)]
    with Stubber(dynamodb) as stub:
        stub.add_response("batch_write_item", {}, {"RequestItems": {"failures": puts}})
        request = {"failures": {"Keys": keys, "ConsistentRead": True}}
        stub.add_response("batch_get_item", {}, {"RequestItems": request})

        assert table.record(failures(2)) is None
        assert table.find(ids(2)) == ({}, None)
        stub.assert_no_pending_responses()


def test_a_consumer_in_a_lambda_needs_only_the_name_of_the_table(
    table: FailureTable, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")  # as Lambda does
    recorder = FailureRecorder.from_environment({"FAILURE_TABLE": table.table_name})

    with recorder.batch():
        for name in ("m-1", "m-2"):
            with (
                pytest.raises(ValueError, match="bad"),
                recorder.recording(lambda_record(message(name))),
            ):
                raise ValueError("bad")

    found, _ = table.find(["m-1", "m-2"])
    assert [one.error_type for one in found.values()] == ["ValueError"] * 2
