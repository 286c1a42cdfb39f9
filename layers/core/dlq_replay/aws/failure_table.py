"""The table of failures, as boto3 speaks DynamoDB. An adapter; it never raises.

Failure records are advisory: without the table messages are replayed as if no error were known. So
each call returns what it could do, and one line that says why it could not do the rest.

The table's key is ``message_id`` (S), alone; its TTL attribute is ``expires_at``.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from botocore.config import Config

from dlq_replay.aws.sqs import describe
from dlq_replay.backoff import Backoff
from dlq_replay.errors import TableError
from dlq_replay.retry import Retry
from dlq_replay.rules.failures import Failure

MAX_WRITES = 25
"""Items in one BatchWriteItem."""

MAX_READS = 100
"""Keys in one BatchGetItem."""

BUDGET_SECONDS = 3.0
"""Time in which one ``record`` or ``find`` starts calls."""

_RETRY = Retry(3, Backoff(rate_seconds=0.05, cap_seconds=1))


def table_client_config() -> Config:
    """Timeouts and retries of the client: a slow table must not delay a message."""
    return Config(
        connect_timeout=1,
        read_timeout=2,
        retries={"mode": "standard", "total_max_attempts": 2},
    )


@dataclass(frozen=True, slots=True)
class FailureTable:
    """One table, through one client; safe to share between threads.

    Attributes:
        client: a low-level DynamoDB client, best made with ``table_client_config``.
        table_name: or the table's ARN, where it is another account's.
    """

    client: Any
    table_name: str
    retry: Retry = _RETRY
    clock_seconds: Callable[[], float] = time.monotonic

    def record(self, failures: Sequence[Failure]) -> str | None:
        """Write each failure over what was recorded of its message; of equal ids the last.

        After a call that fails no other is made, so that a table that is down costs one time-out.

        Returns:
            The number that DynamoDB did not confirm, and why, in one line without any part of a
            message; None if it confirmed all.
        """
        items = {failure.message_id: failure.to_item() for failure in failures}
        written = 0

        def write(items: Sequence[Any]) -> Sequence[Any]:
            nonlocal written
            requests = [{"PutRequest": {"Item": item}} for item in items]
            answer = self.client.batch_write_item(RequestItems={self.table_name: requests})
            left = chain.from_iterable((answer.get("UnprocessedItems") or {}).values())
            unwritten = [request["PutRequest"]["Item"] for request in left]
            written += len(items) - len(unwritten)
            return unwritten

        try:
            self._in_batches([*items.values()], MAX_WRITES, write)
        except Exception as error:  # noqa: BLE001 - records are advisory: see the module
            return f"{len(items) - written} of {len(items)}: {describe(error)}"
        return None

    def find(self, message_ids: Sequence[str]) -> tuple[Mapping[str, Failure], str | None]:
        """Read the records of these messages, each asked for once, 100 in a call.

        Reads are strongly consistent: the failure that made SQS move a message may be the first one
        recorded of it, and a moment old. An item that cannot be read is left out.

        Returns:
            The failures by message id; and why they may be incomplete, in one line without any part
            of a message, else None.
        """
        failures: dict[str, Failure] = {}
        unreadable = 0

        def read(keys: Sequence[Any]) -> Sequence[Any]:
            nonlocal unreadable
            wanted = {self.table_name: {"Keys": keys, "ConsistentRead": True}}
            answer = self.client.batch_get_item(RequestItems=wanted)
            for item in chain.from_iterable((answer.get("Responses") or {}).values()):
                try:
                    failure = Failure.from_item(item)
                    failures[failure.message_id] = failure
                except ValueError:
                    unreadable += 1

            left: list[Any] = []
            for unprocessed in (answer.get("UnprocessedKeys") or {}).values():
                left += unprocessed["Keys"]
            return left

        try:
            keys = [{"message_id": {"S": message_id}} for message_id in dict.fromkeys(message_ids)]
            self._in_batches(keys, MAX_READS, read)
        except Exception as error:  # noqa: BLE001 - records are advisory: see the module
            return failures, describe(error)
        return failures, f"items without an error_type: {unreadable}" if unreadable else None

    def _in_batches(
        self, items: Sequence[Any], size: int, work: Callable[[Sequence[Any]], Sequence[Any]]
    ) -> None:
        """Give *work* all *items*, batch by batch, and again what it returns as not done."""
        end_seconds = self.clock_seconds() + BUDGET_SECONDS
        retry = replace(self.retry, seconds_left=lambda: end_seconds - self.clock_seconds())
        for start in range(0, len(items), size):
            if start and self.clock_seconds() > end_seconds:
                raise TableError(f"slow: stopped after {BUDGET_SECONDS:g} s")
            if retry.finish(work, items[start : start + size]):
                raise TableError("throttled: DynamoDB left a part of a batch unprocessed")
