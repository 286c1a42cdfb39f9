"""The tables of failures, breakers and returns against a DynamoDB server over HTTP."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from dlq_replay.aws import breaker_table, returns_table
from dlq_replay.aws.breaker_table import DynamoDbBreaker, read_deletions
from dlq_replay.aws.failure_table import MAX_READS, MAX_WRITES, FailureTable, table_client_config
from dlq_replay.aws.returns_table import ReturnsTable
from dlq_replay.errors import TableError
from dlq_replay.replaying.returns import Returns
from dlq_replay.rules.breaker import Update, apply
from dlq_replay.rules.failures import Failure
from tests.support.builders import NOW


@pytest.fixture
def failures(dynamodb: Any, failure_table: str) -> FailureTable:
    return FailureTable(dynamodb, failure_table)


@pytest.fixture
def breaker(dynamodb: Any, failure_table: str) -> DynamoDbBreaker:
    return DynamoDbBreaker(dynamodb, failure_table, "orders", lambda: NOW)


@pytest.fixture
def table(dynamodb: Any, failure_table: str) -> ReturnsTable:
    return ReturnsTable(dynamodb, failure_table, lambda: NOW)


class Denying:
    def get_metric_data(self, **_: object) -> object:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetMetricData")


class CloudWatch:
    """Answers with one value a minute: what was deleted, and how many messages are visible."""

    def __init__(self, *codes: str) -> None:
        self.codes = codes

    def get_metric_data(self, **request: Any) -> object:
        series = {"NumberOfMessagesDeleted": [(60, 5.0)]}
        series["ApproximateNumberOfMessagesVisible"] = [(120, 0.0), (60, 3.0)]
        results = []
        for query, code in zip(request["MetricDataQueries"], self.codes, strict=True):
            points = series[query["MetricStat"]["Metric"]["MetricName"]]
            results.append(
                {
                    "Id": query["Id"],
                    "StatusCode": code,
                    "Timestamps": [datetime.fromtimestamp(second, UTC) for second, _ in points],
                    "Values": [value for _, value in points],
                }
            )
        return {"MetricDataResults": results}


def test_a_metric_that_cannot_be_read_is_unknown() -> None:
    assert read_deletions(Denying, "orders", 0, 60) == {}


@pytest.mark.parametrize(
    ("codes", "deletions"),
    [
        (("Complete", "Complete"), {1: 5, 2: 0}),
        # Half an answer says of no minute that nothing was deleted in it.
        (("InternalError", "Complete"), {}),
        (("Complete", "PartialData"), {}),
    ],
)
def test_what_a_queue_deleted_is_known_where_both_metrics_are_complete(
    codes: tuple[str, str], deletions: Mapping[int, int]
) -> None:
    assert read_deletions(lambda: CloudWatch(*codes), "orders", 0, 180) == deletions


def test_a_table_that_is_missing_is_an_error_that_says_so(dynamodb: Any) -> None:
    breaker = DynamoDbBreaker(dynamodb, "missing", "orders", lambda: NOW)
    returns = ReturnsTable(dynamodb, "missing", lambda: NOW)
    calls: list[Callable[[], object]] = [
        breaker.read,
        lambda: breaker.update(Update(add={"n1": 1})),
        lambda: returns.begin("p", ["g"]),
        lambda: returns.read("p", ["g"]),
        lambda: returns.add("p", "g", "returned", ids(1)),
    ]
    for call in calls:
        with pytest.raises(TableError, match="ResourceNotFoundException"):
            call()


# --- Failures


def failure(message_id: str = "m-1", text: str = "bad") -> Failure:
    return Failure.of(message_id, ValueError(text), NOW)


@pytest.mark.parametrize("count", [0, 1, 2, MAX_WRITES, MAX_READS + 1])
def test_what_was_recorded_is_found(failures: FailureTable, count: int) -> None:
    recorded = {f"m-{n}": failure(f"m-{n}") for n in range(count)}

    assert failures.record([*recorded.values()]) is None
    assert failures.find([*recorded, *recorded, "unknown"]) == (recorded, None)


def test_the_last_failure_of_a_message_stands(failures: FailureTable) -> None:
    failures.record([failure(text="first")])
    failures.record([failure(text="second"), failure("m-2"), failure(text="third")])

    assert failures.find(["m-1"])[0]["m-1"].error_message == "third"


def test_an_item_of_another_program_without_a_type_is_left_out(
    failures: FailureTable, dynamodb: Any
) -> None:
    dynamodb.put_item(TableName=failures.table_name, Item={"message_id": {"S": "strange"}})
    failures.record([failure()])

    failure_of, fault = failures.find(["strange", "m-1"])

    assert (set(failure_of), fault) == ({"m-1"}, "items without an error_type: 1")


def test_a_table_or_server_that_is_not_there_is_said_and_not_raised(dynamodb: Any) -> None:
    absent = boto3.client(
        "dynamodb", endpoint_url="http://127.0.0.1:9", config=table_client_config()
    )
    for table, code in (
        (FailureTable(dynamodb, "nowhere"), "ResourceNotFoundException: "),
        (FailureTable(absent, "failures"), "EndpointConnectionError: "),
    ):
        recorded = table.record([failure(), failure("m-2")])
        failure_of, fault = table.find(["m-1"])

        assert failure_of == {}
        assert str(recorded).startswith(f"2 of 2: {code}")
        assert str(fault).startswith(code)


# --- The circuit breaker: what ``apply`` says, DynamoDB does


def without_expiry(numbers: Mapping[str, int]) -> Mapping[str, int]:
    """An item's numbers without what the adapter itself adds."""
    return {name: number for name, number in numbers.items() if name != "expires_at"}


UPDATES = [
    Update(add={"n1": 3, "b1": 1}),
    Update(add={"n1": 2, "x2": 1}, put={"limit": 1, "since": NOW}, expect={"limit": None}),
    Update(put={"since": NOW + 9}, expect={"limit": None}),
    Update(add={"g1": 22}, expect={"limit": 1, "g1": None}),
    Update(add={"g1": 20}, expect={"limit": 1, "g1": None}),
    Update(add={"n3": 1, "g1": -2}, put={"n1": None, "b1": None, "absent": None}),
    Update(put={"limit": 90, "since": None}, expect={"since": NOW}),
    Update(),
]


def test_updates_do_what_the_pure_function_says(breaker: DynamoDbBreaker) -> None:
    numbers = breaker.read()
    assert numbers == {}
    for update in UPDATES:
        expected = apply(numbers, update)
        is_done, answered = breaker.update(update)
        numbers = numbers if expected is None else expected

        assert is_done is (expected is not None)
        assert without_expiry(numbers) == without_expiry(answered)
    assert (
        without_expiry(breaker.read())
        == without_expiry(numbers)
        == {"x2": 1, "g1": 20, "n3": 1, "limit": 90}
    )
    assert breaker.read()["expires_at"] == NOW + breaker_table.KEPT_SECONDS


def test_what_nobody_of_ours_wrote_is_left_out(dynamodb: Any, breaker: DynamoDbBreaker) -> None:
    item = {
        "message_id": {"S": "breaker#orders"},
        "limit": {"S": "1"},
        "since": {"N": "-5"},
        "full": {"N": "1.5"},
        "n1": {"M": {}},
        "b1": {"N": "7"},
    }
    dynamodb.put_item(TableName=breaker.table_name, Item=item)

    assert breaker.read() == {"b1": 7}


def test_a_read_is_tried_twice_and_a_write_once() -> None:
    class Silent:
        def __init__(self) -> None:
            self.calls = 0

        def batch_get_item(self, **_: object) -> Mapping[str, Any]:
            self.calls += 1
            raise RuntimeError("no answer")

        update_item = batch_get_item

    client = Silent()
    breaker = DynamoDbBreaker(client, "failures", "orders", lambda: NOW)
    with pytest.raises(TableError):
        breaker.read()
    assert client.calls == 2
    with pytest.raises(TableError):
        breaker.update(Update())
    assert client.calls == 3


# --- The counters of returns


def ids(*numbers: int) -> frozenset[str]:
    return frozenset(f"m-{n}" for n in numbers)


def stored_item(table: ReturnsTable) -> Mapping[str, Any]:
    key = {"message_id": {"S": "returns#p#g"}}
    return dict(table.client.get_item(TableName=table.table_name, Key=key).get("Item", {}))


def test_nothing_is_counted_for_a_group_that_nobody_asks_about(table: ReturnsTable) -> None:
    assert not table.add("p", "g", "returned", ids(1))
    assert (stored_item(table), table.read("p", ["g"])) == ({}, {})

    table.begin("p", ["g"])

    assert table.read("p", ["g", "other"]) == {"g": Returns()}
    assert stored_item(table).keys() == {"message_id", "expires_at"}

    # To begin again keeps the counts for longer.
    table.add("p", "g", "returned", ids(1))
    replace(table, now_seconds=lambda: NOW + 5).begin("p", ["g"])

    assert table.read("p", ["g"])["g"].returned_ids == ids(1)
    assert stored_item(table)["expires_at"] == {"N": str(NOW + 5 + returns_table.KEPT_SECONDS)}


@pytest.mark.parametrize("kind", ["returned", "parked"])
@pytest.mark.parametrize(
    ("added", "total"),
    [
        ([ids(1, 2), ids(2, 3), ids(1)], 3),
        # Beyond a full set the next are a number; those of the set still change nothing.
        ([ids(*range(95)), ids(*range(90, 110))], 110),
        ([ids(*range(250))], 250),
        ([ids(*range(100)), ids(7, 100), ids(7, 8), ids(101, 102)], 103),
    ],
)
def test_each_of_the_first_100_ids_counts_once(
    table: ReturnsTable, kind: str, added: list[frozenset[str]], total: int
) -> None:
    table.begin("p", ["g"])
    for some in added:
        assert table.add("p", "g", kind, some)

    counted = table.read("p", ["g"])["g"]
    known_ids = frozenset().union(*added)
    assert getattr(counted, kind) == total
    assert min(total, 100) <= len(getattr(counted, f"{kind}_ids")) < 200
    assert getattr(counted, f"{kind}_ids") <= known_ids
    # What was parked again failed again.
    assert (counted.returned, counted.parked > 0) == (total, kind == "parked")


def test_both_kinds_of_many_groups_are_counted_by_themselves(table: ReturnsTable) -> None:
    groups = [f"g-{n}" for n in range(120)]
    table.begin("p", groups)
    for kind, some in (("returned", ids(1, 2)), ("parked", ids(1, 3)), ("returned", ids(2))):
        table.add("p", "g-7", kind, some)
    table.add("p", "g-9", "parked", ids(*range(200)))

    read = table.read("p", groups)
    assert ({*read}, read["g-8"]) == ({*groups}, Returns())
    assert read["g-7"] == Returns(2, 2, ids(1, 2, 3), ids(1, 3))
    assert (read["g-9"].returned, read["g-9"].parked) == (200, 200)


def test_workers_that_fill_the_set_together_lose_and_repeat_nothing(
    table: ReturnsTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.begin("p", ["g"])
    table.add("p", "g", "returned", ids(*range(92)))
    update = table.client.update_item

    def cut_in(**request: object) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(table.client, "update_item", update)
            table.add("p", "g", "returned", ids(*range(95, 105)))
        return update(**request)

    monkeypatch.setattr(table.client, "update_item", cut_in)
    table.add("p", "g", "returned", ids(*range(91, 111)))

    counted = table.read("p", ["g"])["g"]
    assert (counted.returned, len(counted.returned_ids)) == (111, 102)


def test_an_answer_that_is_lost_is_an_error_and_its_ids_count_once(
    table: ReturnsTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.begin("p", ["g"])
    update = table.client.update_item
    calls = list[Any]()

    def lose(**request: object) -> Any:
        calls.append(update(**request))
        raise RuntimeError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(table.client, "update_item", lose)
        with pytest.raises(TableError, match="RuntimeError"):
            table.add("p", "g", "returned", ids(1))
    assert len(calls) == 1

    assert table.add("p", "g", "returned", ids(1))
    assert table.read("p", ["g"])["g"].returned == 1
