"""The circuit breaker in the failure table, as botocore speaks DynamoDB. An adapter.

Item ``breaker#<queue>`` is the breaker of one main queue.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.breaker import BreakerState, Update
from dlq_replay.errors import TableError
from dlq_replay.failure_table import describe_fault

KEPT_SECONDS = 2 * 24 * 3600
"""How long an item lives that nobody writes."""

_KEY = "message_id"
_READ_TRIES = 2
_REFUSED = "ConditionalCheckFailedException"


class DynamoDbClient(Protocol):
    """The part of boto3's low-level DynamoDB client that is used here."""

    def batch_get_item(self, **request: object) -> Mapping[str, Any]:
        """Read up to 100 different keys; some may be left unprocessed."""

    def update_item(self, **request: object) -> Mapping[str, Any]:
        """Change one item, or make it."""


def breaker_client_config() -> Config:
    """Timeouts of the client: the breaker is worth less than a message in time.

    No call is repeated by it. A repeated write would count twice, and load a table that is
    throttled.
    """
    return Config(
        connect_timeout=0.3,
        read_timeout=0.3,
        retries={"mode": "standard", "total_max_attempts": 1},
    )


@dataclass(frozen=True, slots=True)
class DynamoDbBreaker:
    """The breaker of one main queue. Satisfies ``breaker_worker.BreakerTable``.

    Attributes:
        client: a low-level DynamoDB client, best made with ``breaker_client_config``.
        table_name: the failure table.
        queue: name of the main queue.
        now_seconds: the clock, epoch seconds.
    """

    client: DynamoDbClient
    table_name: str
    queue: str
    now_seconds: Callable[[], int]

    def read(self) -> BreakerState:
        """Read the item; without one there is no limit, and nothing was counted.

        Raises:
            TableError: the table is missing, refuses, is throttled or does not answer.
        """
        for tries_left in reversed(range(_READ_TRIES)):
            try:
                return self._read()
            except TableError:
                if not tries_left:
                    raise
        raise AssertionError

    def update(self, update: Update) -> tuple[bool, BreakerState]:
        """Change the item; whether that was done, and what it is now.

        Raises:
            TableError: as ``read``. The change may have been made all the same.
        """
        try:
            answer = ask(
                self.client.update_item,
                TableName=self.table_name,
                Key=self._key(),
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **_expressions(update, self.now_seconds() + KEPT_SECONDS),
            )
        except RefusedError as refused:
            return False, _state(refused.item)
        return True, _state(answer["Attributes"])

    def _key(self) -> dict[str, dict[str, str]]:
        return {_KEY: {"S": f"breaker#{self.queue}"}}

    def _read(self) -> BreakerState:
        wanted = {"Keys": [self._key()]}
        answer = ask(self.client.batch_get_item, RequestItems={self.table_name: wanted})
        if answer.get("UnprocessedKeys"):
            raise TableError("throttled: DynamoDB left a read unprocessed")
        items = [item for part in answer["Responses"].values() for item in part]
        return _state(items[0]) if items else BreakerState()


class RefusedError(Exception):
    """The item was not as expected; this is how it is, empty if there is none."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        self.item = item


def _expressions(update: Update, expires_at: int) -> dict[str, Any]:
    """The expressions of one UpdateItem, with places for names and values."""
    names: dict[str, str] = {}
    values: dict[str, Mapping[str, str]] = {}

    def name(attribute: str) -> str:
        return names.setdefault(attribute, f"#n{len(names)}")

    def value(number: int) -> str:
        place = f":v{len(values)}"
        values[place] = {"N": str(number)}
        return place

    put = {**update.put, "expires_at": expires_at}
    clauses = {
        "ADD": [f"{name(n)} {value(more)}" for n, more in update.add.items()],
        "SET": [f"{name(n)} = {value(number)}" for n, number in put.items()],
        "REMOVE": [name(n) for n in sorted(update.remove.difference(put, update.add))],
    }
    conditions = [
        f"attribute_not_exists({name(n)})" if seen is None else f"{name(n)} = {value(seen)}"
        for n, seen in update.expect.items()
    ]
    conditions += [
        f"(attribute_not_exists({name(n)}) OR {name(n)} <= {value(most)})"
        for n, most in update.at_most.items()
    ]
    return {
        "UpdateExpression": " ".join(
            f"{action} {', '.join(parts)}" for action, parts in clauses.items() if parts
        ),
        **({"ConditionExpression": " AND ".join(conditions)} if conditions else {}),
        "ExpressionAttributeNames": {place: attribute for attribute, place in names.items()},
        "ExpressionAttributeValues": values,
    }


def ask(call: Callable[..., Mapping[str, Any]], **request: object) -> Mapping[str, Any]:
    """Make one *call* to DynamoDB.

    Raises:
        RefusedError: the condition of a write did not hold.
        TableError: the table is missing, refuses, is throttled or does not answer.
    """
    try:
        return call(**request)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == _REFUSED:
            response: Mapping[str, Any] = error.response
            raise RefusedError(response.get("Item", {})) from error
        raise TableError(describe_fault(error)) from error
    except (BotoCoreError, RuntimeError) as error:
        # RuntimeError: credentials that were renewed and had expired all the same.
        raise TableError(describe_fault(error)) from error


def _state(item: Mapping[str, Any]) -> BreakerState:
    """Read an item; what is no whole number of at least 0 is left out."""
    numbers = {name: one.get("N", "") for name, one in item.items() if isinstance(one, Mapping)}
    return BreakerState(
        {n: int(text) for n, text in numbers.items() if text.isascii() and text.isdigit()}
    )
