"""The counters of returns in the failure table, as botocore speaks DynamoDB. An adapter.

Item ``returns#<plan>#<group>`` has the counters of one plan and group: the first ids of the first
100 messages (``returned_ids``, ``parked_ids``), so that a message that is counted again changes
nothing, and the number of those beyond (``returned``, ``parked``).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dlq_replay.breaker_table import DynamoDbClient, RefusedError, ask
from dlq_replay.errors import TableError
from dlq_replay.failure_table import MAX_READS
from dlq_replay.returns import Returns

KEPT_SECONDS = 90 * 24 * 3600
"""How long an item lives after the last ``begin``."""

MAX_IDS = 100
"""The most ids in one set."""

_KEY = "message_id"
_WRITE_TRIES = 4
"""Of one ``add``: others that write in between."""


@dataclass(frozen=True, slots=True)
class ReturnsTable:
    """The counters of all plans and groups. Satisfies ``returns.Counters``.

    Every method raises TableError where the table is missing, refuses, is throttled or does not
    answer. No call is repeated by it.

    Attributes:
        client: a low-level DynamoDB client; in the function made with ``breaker_client_config``.
        table_name: the failure table.
        now_seconds: the clock, epoch seconds.
    """

    client: DynamoDbClient
    table_name: str
    now_seconds: Callable[[], int]

    def begin(self, plan_id: str, group_ids: Collection[str]) -> None:
        """Make the counters of these groups, or keep what is there, for 90 days from now."""
        expires_at = str(self.now_seconds() + KEPT_SECONDS)
        for group_id in group_ids:
            ask(
                self.client.update_item,
                TableName=self.table_name,
                Key=_item_key(plan_id, group_id),
                UpdateExpression="SET #expires_at = :expires_at",
                ExpressionAttributeNames={"#expires_at": "expires_at"},
                ExpressionAttributeValues={":expires_at": {"N": expires_at}},
            )

    def read(self, plan_id: str, group_ids: Collection[str]) -> dict[str, Returns]:
        """Read the counters of these groups, strongly consistent.

        A group without counters is not in the answer: nothing is known of it.
        """
        group_of = {_item_key(plan_id, group)[_KEY]["S"]: group for group in group_ids}
        keys = [{_KEY: {"S": key}} for key in group_of]
        items: list[Mapping[str, Any]] = []
        for start in range(0, len(keys), MAX_READS):
            wanted = {"Keys": keys[start : start + MAX_READS], "ConsistentRead": True}
            answer = ask(self.client.batch_get_item, RequestItems={self.table_name: wanted})
            if answer.get("UnprocessedKeys"):
                raise TableError("throttled: DynamoDB left a read unprocessed")
            items += [item for part in answer["Responses"].values() for item in part]
        return {group_of[item[_KEY]["S"]]: _returns(item) for item in items}

    def add(
        self,
        plan_id: str,
        group_id: str,
        *,
        returned: frozenset[str] = frozenset(),
        parked: frozenset[str] = frozenset(),
    ) -> bool:
        """Add messages by their first ids; False where there are no counters.

        Ids that are in the set already change nothing. The change may have been made although this
        raises: then ids beyond the first 100 count twice if they are added again.
        """
        seen = Returns()
        for _ in range(_WRITE_TRIES):
            change = _change(seen, returned, parked)
            if change is None:
                return True
            try:
                ask(
                    self.client.update_item,
                    TableName=self.table_name,
                    Key=_item_key(plan_id, group_id),
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **change,
                )
            except RefusedError as refused:
                if not refused.item:
                    return False
                seen = _returns(refused.item)
            else:
                return True
        raise TableError("others changed the counters at each try")


def _item_key(plan_id: str, group_id: str) -> dict[str, dict[str, str]]:
    return {_KEY: {"S": f"returns#{plan_id}#{group_id}"}}


def _change(
    seen: Returns, returned: frozenset[str], parked: frozenset[str]
) -> dict[str, Any] | None:
    """The expressions of one UpdateItem; None where nothing is new to *seen*.

    Sets only grow. So one that has at most as many ids as *seen* is as seen, and what is added as a
    number is not in it.
    """
    names, values = {"#key": _KEY}, dict[str, Any]()
    additions, conditions = list[str](), ["attribute_exists(#key)"]
    for kind, ids, known in (
        ("returned", returned, seen.returned_ids),
        ("parked", parked, seen.parked_ids),
    ):
        new = sorted(ids - known)
        first, later = new[: MAX_IDS - len(known)], new[MAX_IDS - len(known) :]
        if new:
            names[f"#{kind}_ids"] = f"{kind}_ids"
            most = len(known) if later else MAX_IDS - len(first)
            values[f":{kind}_most"] = {"N": str(most)}
            size = f"size(#{kind}_ids) <= :{kind}_most"
            conditions.append(f"(attribute_not_exists(#{kind}_ids) OR {size})")
        if first:
            values[f":{kind}_ids"] = {"SS": first}
            additions.append(f"#{kind}_ids :{kind}_ids")
        if later:
            names[f"#{kind}"] = kind
            values[f":{kind}"] = {"N": str(len(later))}
            additions.append(f"#{kind} :{kind}")
    if not additions:
        return None
    return {
        "UpdateExpression": f"ADD {', '.join(additions)}",
        "ConditionExpression": " AND ".join(conditions),
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


def _returns(item: Mapping[str, Any]) -> Returns:
    """Read an item; what has another type counts as absent."""
    returned_ids, parked_ids = _ids(item, "returned_ids"), _ids(item, "parked_ids")
    return Returns(
        returned=len(returned_ids) + _number(item, "returned"),
        parked=len(parked_ids) + _number(item, "parked"),
        returned_ids=returned_ids,
        parked_ids=parked_ids,
    )


def _ids(item: Mapping[str, Any], name: str) -> frozenset[str]:
    return frozenset(item.get(name, {}).get("SS", ()))


def _number(item: Mapping[str, Any], name: str) -> int:
    text = item.get(name, {}).get("N", "")
    return int(text) if text.isascii() and text.isdigit() else 0
