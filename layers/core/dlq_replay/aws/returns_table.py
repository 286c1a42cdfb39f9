"""The counters of returns in the failure table, as botocore speaks DynamoDB. An adapter.

Item ``returns#<plan>#<group>`` has the counters of one plan and group: the first ids of the first
100 messages or some more (``returned_ids``, ``parked_ids``), so that a message that is counted
again changes nothing, and the number of those beyond (``returned``, ``parked``).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dlq_replay.aws.breaker_table import read_items, update_item
from dlq_replay.aws.failure_table import MAX_READS
from dlq_replay.replaying.returns import Returns

KEPT_SECONDS = 90 * 24 * 3600
"""Lifetime of an item after the last ``begin``."""

MAX_IDS = 100
"""Ids in a full set."""

_KEY = "message_id"


@dataclass(frozen=True, slots=True)
class ReturnsTable:
    """The counters of all plans and groups.

    Every method raises TableError where the failure table is missing, refuses, is throttled or does
    not answer. No call is repeated by it; *client* is made with ``breaker_client_config``.
    """

    client: Any
    table_name: str
    now_seconds: Callable[[], int]

    def begin(self, plan_id: str, group_ids: Collection[str]) -> set[str]:
        """Make the counters of these groups, or keep what is there, for 90 days from now.

        Returns:
            The groups that had none.
        """
        until = {":until": {"N": str(self.now_seconds() + KEPT_SECONDS)}}
        new = set[str]()
        for group_id in group_ids:
            change = "SET expires_at = :until"
            _, before = self._update(plan_id, group_id, change, until, ReturnValues="ALL_OLD")
            if not before:
                new.add(group_id)
        return new

    def read(self, plan_id: str, group_ids: Collection[str]) -> dict[str, Returns]:
        """Read the counters of these groups, strongly consistent.

        A group without counters is not in the answer: nothing is known of it.
        """
        group_of: dict[str, str] = {}
        for group_id in group_ids:
            group_of[_item_key(plan_id, group_id)] = group_id
        keys = [{_KEY: {"S": key}} for key in group_of]

        items: list[Mapping[str, Any]] = []
        for start in range(0, len(keys), MAX_READS):
            part = keys[start : start + MAX_READS]
            items += read_items(self.client, self.table_name, Keys=part, ConsistentRead=True)

        returns: dict[str, Returns] = {}
        for item in items:
            group_id = group_of[item[_KEY]["S"]]
            returns[group_id] = _returns(item)
        return returns

    def add(self, plan_id: str, group_id: str, kind: str, first_ids: Collection[str]) -> bool:
        """Add messages by their first ids; False where there are no counters.

        *kind* is ``returned`` or ``parked``. Ids that are in the set already change nothing. The
        change may have been made although this raises: then ids beyond a full set count twice if
        they are added again.
        """
        ids = f"{kind}_ids"
        exists = f"attribute_exists({_KEY})"
        has_room = f"(attribute_not_exists({ids}) OR size({ids}) < :most)"
        is_done, item = self._update(
            plan_id,
            group_id,
            f"ADD {ids} :ids",
            {":ids": {"SS": sorted(first_ids)[:MAX_IDS]}, ":most": {"N": str(MAX_IDS)}},
            ConditionExpression=f"{exists} AND {has_room}",
            ReturnValues="ALL_NEW",
        )

        # Nobody adds to a full set any more.
        beyond = len({*first_ids} - _ids(item, kind))
        if item and beyond:
            is_done, item = self._update(
                plan_id,
                group_id,
                f"ADD {kind} :beyond",
                {":beyond": {"N": str(beyond)}},
                ConditionExpression=exists,
            )
        return is_done or bool(item)

    def _update(
        self, plan_id: str, group_id: str, change: str, values: Mapping[str, Any], **condition: str
    ) -> tuple[bool, Mapping[str, Any]]:
        return update_item(
            self.client,
            TableName=self.table_name,
            Key={_KEY: {"S": _item_key(plan_id, group_id)}},
            UpdateExpression=change,
            ExpressionAttributeValues=values,
            **condition,
        )


def _item_key(plan_id: str, group_id: str) -> str:
    return f"returns#{plan_id}#{group_id}"


def _returns(item: Mapping[str, Any]) -> Returns:
    returned_ids = _ids(item, "returned")
    parked_ids = _ids(item, "parked")
    returned = len(returned_ids) + _beyond(item, "returned")
    parked = len(parked_ids) + _beyond(item, "parked")
    return Returns(
        # A message that was parked again came back, whether or not its return could be counted.
        returned=max(returned, parked),
        parked=parked,
        returned_ids=returned_ids | parked_ids,
        parked_ids=parked_ids,
    )


def _beyond(item: Mapping[str, Any], kind: str) -> int:
    return int(item.get(kind, {}).get("N", 0))


def _ids(item: Mapping[str, Any], kind: str) -> frozenset[str]:
    return frozenset(item.get(f"{kind}_ids", {}).get("SS", ()))
