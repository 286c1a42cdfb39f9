"""The circuit breakers in the failure table, as botocore speaks DynamoDB. An adapter.

``breaker#<queue>`` names the error types that have a breaker; ``breaker#<queue>#<type>`` is one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.breaker import BreakerState, Update
from dlq_replay.errors import BreakerTableError
from dlq_replay.failure_table import describe_fault

FORMAT_VERSION = 1
"""Items of a later format are as good as none: they are neither read nor changed."""

KEPT_SECONDS = 2 * 24 * 3600
"""How long an item lives that nobody writes."""

_KEY = "message_id"
_REFUSED = "ConditionalCheckFailedException"


class DynamoDbClient(Protocol):
    """The part of boto3's low-level DynamoDB client that is used here."""

    def batch_get_item(self, **request: object) -> Mapping[str, Any]:
        """Read up to 100 different keys; some may be left unprocessed."""

    def update_item(self, **request: object) -> Mapping[str, Any]:
        """Change one item, or make it."""


def breaker_client_config() -> Config:
    """Timeouts of the client: the breaker is worth less than a message in time.

    No call is repeated. A repeated one would count twice, and load a table that is throttled.
    """
    return Config(
        connect_timeout=0.3,
        read_timeout=0.3,
        retries={"mode": "standard", "total_max_attempts": 1},
    )


@dataclass(frozen=True, slots=True)
class DynamoDbBreakers:
    """The breakers of one source queue. Satisfies ``breaker_worker.BreakerTable``.

    Attributes:
        client: a low-level DynamoDB client, best made with ``breaker_client_config``.
        table_name: the failure table.
        queue: name of the source queue.
        now_seconds: the clock, epoch seconds.
    """

    client: DynamoDbClient
    table_name: str
    queue: str
    now_seconds: Callable[[], int]

    def read(
        self, names: Iterable[str], *, is_consistent: bool = False
    ) -> tuple[frozenset[str], Mapping[str, BreakerState]]:
        """Read the error types that have a breaker, their breakers, and those of *names*.

        Args:
            names: of breakers.
            is_consistent: whether every write that was confirmed before must be seen; at twice
                the price.

        Raises:
            BreakerTableError: the table is missing, refuses, is throttled or does not answer.
        """
        items = self._get([self._key(), *map(self._key, names)], is_consistent=is_consistent)
        types = _types(items.get(self._key(), {}))
        missing = [self._key(name) for name in types.difference(names)]
        items |= self._get(missing, is_consistent=is_consistent) if missing else {}
        known = {name: items.get(self._key(name), {}) for name in types.union(names)}
        return types, {name: _state(item) for name, item in known.items() if item}

    def register(self, types: Sequence[str], room: int) -> frozenset[str]:
        """Give *types* breakers of their own if at most *room* types have one; say which do.

        Raises:
            BreakerTableError: as ``read``.
        """
        request = _Request()
        added = request.value({"SS": list(types)})
        name, limit = request.name("types"), request.value({"N": str(room)})
        request.conditions.append(f"(attribute_not_exists({name}) OR size({name}) <= {limit})")
        request.clauses["ADD"].append(f"{name} {added}")
        _, item = self._change(self._key(), request)
        return _types(item)

    def update(self, name: str, update: Update) -> tuple[bool, BreakerState]:
        """Change a breaker; whether that was done, and what its state is now.

        Raises:
            BreakerTableError: as ``read``. The change may have been made all the same.
        """
        request = _Request()
        for attribute, more in update.add.items():
            added = request.value(_to_api(more))
            request.clauses["ADD"].append(f"{request.name(attribute)} {added}")
        for attribute, value in update.put.items():
            request.put(attribute, value)
        for attribute in sorted(update.remove):
            request.clauses["REMOVE"].append(request.name(attribute))
        for attribute, expected in update.expect.items():
            place = request.name(attribute)
            request.conditions.append(
                f"attribute_not_exists({place})"
                if expected is None
                else f"{place} = {request.value(_to_api(expected))}"
            )
        is_done, item = self._change(self._key(name), request)
        return is_done, _state(item)

    def _key(self, name: str | None = None) -> str:
        return f"breaker#{self.queue}" if name is None else f"breaker#{self.queue}#{name}"

    def _get(self, keys: Sequence[str], *, is_consistent: bool) -> dict[str, Mapping[str, Any]]:
        wanted = {"Keys": [{_KEY: {"S": key}} for key in keys], "ConsistentRead": is_consistent}
        answer = _ask(self.client.batch_get_item, RequestItems={self.table_name: wanted})
        if answer.get("UnprocessedKeys"):
            raise BreakerTableError("throttled: DynamoDB left a part of a read unprocessed")
        items = [item for part in answer["Responses"].values() for item in part]
        return {item[_KEY]["S"]: item for item in items if _is_readable(item)}

    def _change(self, key: str, request: "_Request") -> tuple[bool, Mapping[str, Any]]:
        request.put("v", FORMAT_VERSION)
        request.put("expires_at", self.now_seconds() + KEPT_SECONDS)
        version = request.name("v")
        newest = request.value(_to_api(FORMAT_VERSION))
        request.conditions.append(f"(attribute_not_exists({version}) OR {version} <= {newest})")
        try:
            answer = _ask(
                self.client.update_item,
                TableName=self.table_name,
                Key={_KEY: {"S": key}},
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **request.to_api(),
            )
        except _RefusedError as refused:
            return False, refused.item if _is_readable(refused.item) else {}
        return True, answer["Attributes"]


class _RefusedError(Exception):
    """The item was not as expected; this is how it is."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        self.item = item


class _Request:
    """The expressions of one UpdateItem, with places for names and values."""

    def __init__(self) -> None:
        self.clauses: dict[str, list[str]] = {"ADD": [], "SET": [], "REMOVE": []}
        self.conditions: list[str] = []
        self._names: dict[str, str] = {}
        self._values: dict[str, Mapping[str, Any]] = {}

    def name(self, attribute: str) -> str:
        return self._names.setdefault(attribute, f"#n{len(self._names)}")

    def value(self, value: Mapping[str, Any]) -> str:
        place = f":v{len(self._values)}"
        self._values[place] = value
        return place

    def put(self, attribute: str, value: int | str) -> None:
        self.clauses["SET"].append(f"{self.name(attribute)} = {self.value(_to_api(value))}")

    def to_api(self) -> dict[str, Any]:
        return {
            "UpdateExpression": " ".join(
                f"{action} {', '.join(parts)}" for action, parts in self.clauses.items() if parts
            ),
            "ConditionExpression": " AND ".join(self.conditions),
            "ExpressionAttributeNames": {place: name for name, place in self._names.items()},
            "ExpressionAttributeValues": self._values,
        }


def _ask(call: Callable[..., Mapping[str, Any]], **request: object) -> Mapping[str, Any]:
    try:
        return call(**request)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == _REFUSED:
            response: Mapping[str, Any] = error.response
            raise _RefusedError(response.get("Item", {})) from error
        raise BreakerTableError(describe_fault(error)) from error
    except (BotoCoreError, RuntimeError) as error:
        # RuntimeError: credentials that were renewed and had expired all the same.
        raise BreakerTableError(describe_fault(error)) from error


def _to_api(value: int | str) -> dict[str, str]:
    return {"N": str(value)} if isinstance(value, int) else {"S": value}


def _is_readable(item: Mapping[str, Any]) -> bool:
    version = item.get("v", {}).get("N", "0")
    return version.isdigit() and int(version) <= FORMAT_VERSION


def _types(item: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(item.get("types", {}).get("SS", ()))


def _state(item: Mapping[str, Any]) -> BreakerState:
    """Read an item; attributes that no version of ours writes are left out."""
    numbers = {name: int(one["N"]) for name, one in item.items() if one.get("N", "").isdigit()}
    probes = {
        int(name[1:]): one["S"]
        for name, one in item.items()
        if name.startswith("p") and name[1:].isdigit() and "S" in one
    }
    return BreakerState(numbers, probes)
