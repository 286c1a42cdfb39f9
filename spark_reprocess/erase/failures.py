"""Deletes the items of erased messages from the failure table, by key.

The key is the message id of the copy that failed. Of a dead letter's copies the archive knows the
first one, the parked ones, and those that a redrive sent. The ids of replays in between are not
recorded: their items stay until the table's TTL deletes them.
"""

from collections.abc import Callable, Collection
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.failure_table import MAX_READS, MAX_WRITES, DynamoDbClient, table_client_config
from dlq_replay.retry import Retry
from dlq_replay.sqs import describe
from spark_reprocess.clients import aws_client
from spark_reprocess.errors import ArchiveError, InputError

_RETRY = Retry(max_attempts=8)
_Keys = list[dict[str, Any]]


def recorded(table: str, message_ids: Collection[str]) -> int:
    """Count the items of these messages.

    Raises:
        InputError: the table cannot be read. Nothing was changed.
    """
    found = 0

    def read(client: DynamoDbClient, keys: _Keys) -> _Keys:
        nonlocal found
        wanted = {"Keys": keys, "ProjectionExpression": "message_id", "ConsistentRead": True}
        answer = client.batch_get_item(RequestItems={table: wanted})
        found += sum(len(items) for items in answer.get("Responses", {}).values())
        return [key for left in answer.get("UnprocessedKeys", {}).values() for key in left["Keys"]]

    try:
        _in_batches(table, message_ids, MAX_READS, read)
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

    def delete(client: DynamoDbClient, keys: _Keys) -> _Keys:
        requests = [{"DeleteRequest": {"Key": key}} for key in keys]
        answer = client.batch_write_item(RequestItems={table: requests})
        left = answer.get("UnprocessedItems", {}).values()
        return [request["DeleteRequest"]["Key"] for requests in left for request in requests]

    try:
        _in_batches(table, message_ids, MAX_WRITES, delete)
    except (ClientError, BotoCoreError) as error:
        code = error.response["Error"].get("Code") if isinstance(error, ClientError) else ""
        # A table that existed when the erasure began was deleted with its items.
        if code != "ResourceNotFoundException":
            raise ArchiveError(
                f"failure table {table}: cannot delete what was recorded of the erased messages: "
                f"{describe(error)}; run the same command again"
            ) from error


def _in_batches(
    table: str,
    message_ids: Collection[str],
    size: int,
    call: Callable[[DynamoDbClient, _Keys], _Keys],
) -> None:
    """Repeat *call* with the keys that DynamoDB left unprocessed."""
    client: DynamoDbClient = aws_client("dynamodb", table_client_config())
    keys = [{"message_id": {"S": message_id}} for message_id in sorted(message_ids)]
    for start in range(0, len(keys), size):
        left = keys[start : start + size]
        for _ in _RETRY.attempts():
            left = call(client, left)
            if not left:
                break
        else:
            raise ArchiveError(
                f"failure table {table}: DynamoDB is too busy; run the same command again"
            )
