"""Deletes the items of erased messages from the failure table, by key.

The key is the message id of the copy that failed. Of a dead letter's copies the archive knows the
first one, the last one that the consumer saw before each parked one, the parked ones, and those
that a redrive sent. The ids of replays in between are not recorded: their items stay until the
table's TTL deletes them.
"""

from collections.abc import Collection

from boto3.dynamodb.table import BatchWriter
from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.aws.failure_table import MAX_READS, MAX_WRITES, table_client_config
from dlq_replay.aws.sqs import describe
from dlq_replay.retry import Retry
from spark_reprocess.aws.clients import aws_client
from spark_reprocess.errors import ArchiveError, InputError

_RETRY = Retry(max_attempts=8)


def recorded(table: str, message_ids: Collection[str]) -> int:
    """Count the items of these messages; raise InputError if the table cannot be read."""
    client, found = aws_client("dynamodb", table_client_config()), 0
    keys = [{"message_id": {"S": message_id}} for message_id in sorted(message_ids)]
    try:
        for start in range(0, len(keys), MAX_READS):
            wanted = {"ProjectionExpression": "message_id", "ConsistentRead": True}
            left = {table: {**wanted, "Keys": keys[start : start + MAX_READS]}}
            for _ in _RETRY.attempts():
                answer = client.batch_get_item(RequestItems=left)
                found += len(answer["Responses"].get(table, ()))
                left = answer.get("UnprocessedKeys")
                if not left:
                    break
            else:
                raise ArchiveError(f"failure table {table}: DynamoDB is too busy; run again")
    except (ClientError, BotoCoreError) as error:
        raise InputError(
            f"--failure-table {table}: {describe(error)}; check the name, the Region, and that you "
            "may call dynamodb:BatchGetItem and dynamodb:BatchWriteItem on it"
        ) from error
    return found


def delete_recorded(table: str, message_ids: Collection[str]) -> None:
    """Delete the items of these messages, if there are any; repeat it after an ArchiveError."""
    try:
        client = aws_client("dynamodb", table_client_config())
        with BatchWriter(table, client, MAX_WRITES) as batch:
            for message_id in sorted(message_ids):
                batch.delete_item({"message_id": {"S": message_id}})
    except (ClientError, BotoCoreError) as error:
        code = error.response["Error"].get("Code") if isinstance(error, ClientError) else ""
        # A table that existed when the erasure began was deleted with its items.
        if code != "ResourceNotFoundException":
            raise ArchiveError(
                f"failure table {table}: cannot delete what was recorded of the erased messages: "
                f"{describe(error)}; run the same command again"
            ) from error
