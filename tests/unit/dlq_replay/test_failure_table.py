"""The table of failures where DynamoDB does a part of what it is asked, slowly, or nothing."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, ParamValidationError

from dlq_replay.aws.failure_table import BUDGET_SECONDS, MAX_READS, FailureTable
from dlq_replay.retry import Retry
from dlq_replay.rules.failures import Failure
from tests.support.builders import NOW

SECRET = "card 4111"


def failures(number: int) -> list[Failure]:
    return [Failure.of(message_id, ValueError("bad"), NOW) for message_id in ids(number)]


def ids(number: int) -> list[str]:
    return [f"m-{index}" for index in range(number)]


class FakeClient:
    """A table in memory that leaves as many entries of a call unprocessed as it is told to.

    Attributes:
        leaves: how many, call by call; none in the calls after these.
        fails_at: the call, from 0, that raises *error*.
    """

    def __init__(
        self, leaves: Sequence[int] = (), fails_at: int | None = None, error: Any = None
    ) -> None:
        self.leaves = list(leaves)
        self.fails_at = fails_at
        self.error = error
        self.items: dict[str, Any] = {}
        self.calls: list[int] = []

    def _left(self, entries: Sequence[Any]) -> int:
        self.calls.append(len(entries))
        if len(self.calls) - 1 == self.fails_at:
            raise self.error
        return self.leaves.pop(0) if self.leaves else 0

    def batch_write_item(self, **request: Any) -> Mapping[str, Any]:
        ((name, entries),) = request["RequestItems"].items()
        left = self._left(entries)
        for entry in entries[left:]:
            item = entry["PutRequest"]["Item"]
            self.items[item["message_id"]["S"]] = item
        return {"UnprocessedItems": {name: entries[:left]} if left else {}}

    def batch_get_item(self, **request: Any) -> Mapping[str, Any]:
        ((name, asked),) = request["RequestItems"].items()
        keys = asked["Keys"]
        assert asked["ConsistentRead"]
        left = self._left(keys)
        ids = [key["message_id"]["S"] for key in keys[left:]]
        return {
            "Responses": {name: [self.items[key] for key in ids if key in self.items]},
            "UnprocessedKeys": {name: {"Keys": keys[:left]}} if left else {},
        }


def table_of(client: FakeClient, step_seconds: float = 0.0) -> tuple[FailureTable, list[float]]:
    pauses: list[float] = []
    retry = Retry(3, sleep=pauses.append, draw=lambda: 1.0)
    # Each look at the clock takes so many seconds.
    return FailureTable(client, "failures", retry, count(0, step_seconds).__next__), pauses


def filled(number: int, **behaviour: Any) -> FakeClient:
    client = FakeClient(**behaviour)
    client.items = {failure.message_id: failure.to_item() for failure in failures(number)}
    return client


@pytest.mark.parametrize(("leaves", "calls"), [([3], [25, 3]), ([24, 1], [25, 24, 1])])
def test_unprocessed_writes_are_tried_again_after_a_pause(
    leaves: list[int], calls: list[int]
) -> None:
    client = FakeClient(leaves)
    table, pauses = table_of(client)

    assert table.record(failures(25)) is None
    assert (client.calls, len(client.items)) == (calls, 25)
    assert pauses == sorted(pauses)
    assert len(pauses) == len(calls) - 1


THROTTLED = "throttled: DynamoDB left a part of a batch unprocessed"


def test_writes_that_stay_unprocessed_are_given_up_and_counted() -> None:
    client = FakeClient([2] * 9)
    table, _ = table_of(client)

    assert table.record(failures(60)) == f"37 of 60: {THROTTLED}"
    assert client.calls == [25, 2, 2]
    assert len(client.items) == 23


def test_unprocessed_reads_are_tried_again_and_given_up() -> None:
    patient, _ = table_of(filled(150, leaves=[40, 7]))
    impatient, _ = table_of(filled(150, leaves=[40] * 9))

    assert len(patient.find(ids(150))[0]) == 150
    records, fault = impatient.find(ids(150))
    assert (len(records), fault) == (60, THROTTLED)


def test_a_slow_table_is_left_with_what_it_gave() -> None:
    client = filled(10 * MAX_READS)
    table, _ = table_of(client, step_seconds=BUDGET_SECONDS * 0.6)

    records, fault = table.find(ids(10 * MAX_READS))

    assert (len(client.calls), len(records)) == (2, 2 * MAX_READS)
    assert fault == "slow: stopped after 3 s"


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (
            ConnectTimeoutError(endpoint_url="https://dynamodb"),
            'ConnectTimeoutError: Connect timeout on endpoint URL: "https://dynamodb"',
        ),
        (
            ClientError({"Error": {"Code": "AccessDenied", "Message": "no, and\nno"}}, "x"),
            "AccessDenied: no, and no",
        ),
        (ParamValidationError(report=SECRET), "ParamValidationError"),
        (KeyError(SECRET), "KeyError"),
    ],
)
def test_no_call_follows_one_that_failed(error: Exception, fault: str) -> None:
    reading = filled(500, fails_at=2, error=error)
    writing = FakeClient(fails_at=2, error=error)

    records, reported = table_of(reading)[0].find(ids(500))

    assert (len(reading.calls), len(records), reported) == (3, 200, fault)
    assert table_of(writing)[0].record(failures(500)) == f"450 of 500: {fault}"
    assert len(writing.calls) == 3
