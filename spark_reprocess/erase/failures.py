"""Deletes the items of erased messages from the failure table, by key.

The key is the message id of the copy that failed. Of a dead letter's copies the archive knows the
first one, the parked ones, and those that a redrive sent. The ids of replays in between are not
recorded: their items stay until the table's TTL deletes them.
"""

import os
from collections.abc import Callable, Collection, Iterator
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.failure_table import MAX_READS, MAX_WRITES, DynamoDbClient, table_client_config
from dlq_replay.retry import Retry
from dlq_replay.sqs import describe
from spark_reprocess.errors import ArchiveError, InputError

_RETRY = Retry(max_attempts=8)
_GONE = "ResourceNotFoundException"


def recorded(table: str, message_ids: Collection[str]) -> int:
    """Count the items of these messages.

    Raises:
        InputError: the table cannot be read. Nothing was changed.
    """
    found = 0

    def read(left: Any) -> Any:  # noqa: ANN401 - DynamoDB's
        nonlocal found
        wanted = {"Keys": left, "ProjectionExpression": "message_id", "ConsistentRead": True}
        answer = client.batch_get_item(RequestItems={table: wanted})
        found += sum(len(items) for items in answer.get("Responses", {}).values())
        return {name: one["Keys"] for name, one in answer.get("UnprocessedKeys", {}).items()}

    try:
        client = _client()
        for keys in _batches(message_ids, MAX_READS):
            _until_done(keys, read, table)
    except (ClientError, BotoCoreError) as error:
        raise InputError(
            f"--failure-table {table}: {describe(error)}; check the name, the Region, and that you "
            "may call dynamodb:BatchGetItem and dynamodb:BatchWriteItem on it"
        ) from error
    return found


def delete_recorded(table: str, message_ids: Collection[str]) -> None:
    """Delete the items of these messages, if there are any.

    Raises:
        ArchiveError: some may still be there; repeat later.
    """

    def write(left: Any) -> Any:  # noqa: ANN401 - DynamoDB's
        return client.batch_write_item(RequestItems={table: left}).get("UnprocessedItems", {})

    try:
        client = _client()
        for keys in _batches(message_ids, MAX_WRITES):
            _until_done([{"DeleteRequest": {"Key": key}} for key in keys], write, table)
    except (ClientError, BotoCoreError) as error:
        if isinstance(error, ClientError) and error.response["Error"].get("Code") == _GONE:
            # The table existed when the erasure began; its items were deleted with it.
            return
        raise ArchiveError(
            f"failure table {table}: cannot delete what was recorded of the erased messages: "
            f"{describe(error)}; run the same command again"
        ) from error


def _until_done(wanted: Any, call: Callable[[Any], Any], table: str) -> None:  # noqa: ANN401
    """Repeat *call* with what DynamoDB left unprocessed."""
    for _ in _RETRY.attempts():
        unprocessed = call(wanted)
        if not unprocessed:
            return
        [wanted] = unprocessed.values()
    raise ArchiveError(f"failure table {table}: DynamoDB is too busy; run the same command again")


def _batches(message_ids: Collection[str], size: int) -> Iterator[list[dict[str, Any]]]:
    keys = [{"message_id": {"S": message_id}} for message_id in sorted(message_ids)]
    yield from (keys[start : start + size] for start in range(0, len(keys), size))


def _client() -> DynamoDbClient:
    session = boto3.session.Session()
    region = os.environ.get("AWS_REGION") or session.region_name
    config = table_client_config()
    client: DynamoDbClient = session.client("dynamodb", region_name=region, config=config)
    return client
