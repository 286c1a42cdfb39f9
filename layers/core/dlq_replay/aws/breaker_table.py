"""The circuit breaker's calls of AWS: its item in the failure table, and the queue's metric.

An adapter. Item ``breaker#<queue>`` is the breaker of one main queue.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.aws.sqs import describe
from dlq_replay.errors import TableError
from dlq_replay.rules.breaker import Update, known_minutes

KEPT_SECONDS = 2 * 24 * 3600
"""Lifetime of an item that nobody writes."""

_ID = "message_id"
_PREFIX = "breaker#"

_DELETED = "deleted"
_ACTIVE = "active"

_ERRORS = (BotoCoreError, ClientError, RuntimeError)
"""RuntimeError: credentials that were renewed and had expired all the same."""


def breaker_client_config() -> Config:
    """Short timeouts: a slow table must not delay a message.

    No call is repeated: a write would count twice, and load a table that is throttled.
    """
    return Config(
        connect_timeout=0.3,
        read_timeout=0.3,
        retries={"mode": "standard", "total_max_attempts": 1},
    )


def update_item(client: Any, **request: object) -> tuple[bool, Mapping[str, Any]]:  # noqa: ANN401 - boto3's
    """Change one item if its condition holds. After a TableError it may have been changed, too.

    Returns:
        Whether that was done, and what ``ReturnValues`` asked for; if not done, the item as it is,
        empty if there is none.
    """
    try:
        answer = client.update_item(**request, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    except _ERRORS as error:
        response: Mapping[str, Any] = getattr(error, "response", {})
        if response.get("Error", {}).get("Code") != "ConditionalCheckFailedException":
            raise TableError(describe(error)) from error
        return False, response.get("Item", {})
    return True, answer.get("Attributes", {})


def read_items(client: Any, table: str, **wanted: object) -> list[Mapping[str, Any]]:  # noqa: ANN401 - boto3's
    """Read items of a table, up to 100. Raises TableError."""
    try:
        answer = client.batch_get_item(RequestItems={table: wanted})
    except _ERRORS as error:
        raise TableError(describe(error)) from error
    if answer.get("UnprocessedKeys"):
        raise TableError("throttled: DynamoDB left a read unprocessed")
    # By the table's name, also where an ARN was given.
    return list(chain.from_iterable(answer["Responses"].values()))


@dataclass(frozen=True, slots=True)
class DynamoDbBreaker:
    """The breaker of the main queue *queue*, in the failure table.

    *client* is a low-level DynamoDB client, best made with ``breaker_client_config``.
    """

    client: Any
    table_name: str
    queue: str
    now_seconds: Callable[[], int]

    def read(self) -> Mapping[str, int]:
        """Read the item's numbers, in two tries; without an item there are none."""
        items = _read_twice(self.client, self.table_name, [self.queue])
        return _numbers(items[0]) if items else {}

    def update(self, update: Update) -> tuple[bool, Mapping[str, int]]:
        """As ``BreakerTable`` says. After an error the change may have been made all the same."""
        is_done, item = update_item(
            self.client,
            TableName=self.table_name,
            Key=_key(self.queue),
            ReturnValues="ALL_NEW",
            **_expressions(update, self.now_seconds() + KEPT_SECONDS),
        )
        return is_done, _numbers(item)


def read_breakers(client: Any, table: str, queues: Sequence[str]) -> dict[str, Mapping[str, int]]:  # noqa: ANN401 - boto3's
    """Read the numbers of the breakers of up to 100 main queues, by queue, in two tries.

    A queue without an item is left out. Raises TableError.
    """
    items = _read_twice(client, table, queues)
    return {item[_ID]["S"].removeprefix(_PREFIX): _numbers(item) for item in items}


def _read_twice(client: Any, table: str, queues: Sequence[str]) -> list[Mapping[str, Any]]:  # noqa: ANN401 - boto3's
    read = partial(read_items, client, table, Keys=[_key(queue) for queue in queues])
    try:
        return read()
    except TableError:
        return read()


def _key(queue: str) -> dict[str, dict[str, str]]:
    return {_ID: {"S": f"{_PREFIX}{queue}"}}


def read_deletions(
    make_client: Callable[[], Any],
    queue: str,
    start_seconds: int,
    end_seconds: int,
    minute_seconds: int = 60,
) -> Mapping[int, int]:
    """Read the number of messages that *queue* deleted, by minute, as far as that is known.

    One call reads this metric and the one that shows which minutes are known. *make_client* makes
    a CloudWatch client, for each read: few environments ever need one.

    Returns:
        ``breaker.known_minutes``. Empty where the metrics cannot be read or are incomplete, or
        there are none, as of a queue of another account. Never raises.
    """

    def query(query_id: str, metric: str, statistic: str) -> dict[str, Any]:
        return {
            "Id": query_id,
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/SQS",
                    "MetricName": metric,
                    "Dimensions": [{"Name": "QueueName", "Value": queue}],
                },
                "Period": minute_seconds,
                "Stat": statistic,
            },
        }

    try:
        answer = make_client().get_metric_data(
            MetricDataQueries=[
                query(_DELETED, "NumberOfMessagesDeleted", "Sum"),
                query(_ACTIVE, "ApproximateNumberOfMessagesVisible", "Maximum"),
            ],
            StartTime=datetime.fromtimestamp(start_seconds, UTC),
            EndTime=datetime.fromtimestamp(end_seconds, UTC),
        )
    except _ERRORS:
        return {}

    series: dict[str, dict[int, int]] = {_DELETED: {}, _ACTIVE: {}}
    for result in answer["MetricDataResults"]:
        if result["StatusCode"] != "Complete":
            return {}
        for moment, value in zip(result["Timestamps"], result["Values"], strict=True):
            minute = int(moment.timestamp()) // minute_seconds
            series[result["Id"]][minute] = round(value)
    return known_minutes(series[_DELETED], series[_ACTIVE])


def _expressions(update: Update, expires_at: int) -> dict[str, Any]:
    """Return the expressions of one UpdateItem: ``#name`` is an attribute, ``:name`` its value."""
    names: dict[str, str] = {}
    values: dict[str, dict[str, str]] = {}
    clauses: dict[str, list[str]] = {"ADD": [], "SET": [], "REMOVE": []}
    for name, number in update.add.items():
        names[f"#{name}"] = name
        values[f":{name}"] = {"N": str(number)}
        clauses["ADD"].append(f"#{name} :{name}")
    for name, new in {**update.put, "expires_at": expires_at}.items():
        names[f"#{name}"] = name
        if new is None:
            clauses["REMOVE"].append(f"#{name}")
        else:
            values[f":{name}"] = {"N": str(new)}
            clauses["SET"].append(f"#{name} = :{name}")

    conditions: list[str] = []
    for name, expected in update.expect.items():
        names[f"#{name}"] = name
        if expected is None:
            conditions.append(f"attribute_not_exists(#{name})")
        else:
            values[f":seen_{name}"] = {"N": str(expected)}
            conditions.append(f"#{name} = :seen_{name}")

    expression = [f"{action} {', '.join(parts)}" for action, parts in clauses.items() if parts]
    request: dict[str, Any] = {"UpdateExpression": " ".join(expression)}
    if conditions:
        request["ConditionExpression"] = " AND ".join(conditions)
    request["ExpressionAttributeNames"] = names
    request["ExpressionAttributeValues"] = values
    return request


def _numbers(item: Mapping[str, Any]) -> Mapping[str, int]:
    """Read an item's whole numbers of at least 0, and leave all else out."""
    numbers: dict[str, int] = {}
    for name, value in item.items():
        text = value.get("N", "")
        if text.isascii() and text.isdigit():
            numbers[name] = int(text)
    return numbers
