"""The counters of returns against a DynamoDB server over HTTP."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dlq_replay.aws.returns_table import KEPT_SECONDS, ReturnsTable
from dlq_replay.errors import TableError
from dlq_replay.replaying.returns import Returns
from tests.support.builders import NOW


@pytest.fixture
def table(dynamodb: Any, failure_table: str) -> ReturnsTable:
    return ReturnsTable(dynamodb, failure_table, lambda: NOW)


def ids(*numbers: int) -> frozenset[str]:
    return frozenset(f"m-{n}" for n in numbers)


def item(table: ReturnsTable) -> Mapping[str, Any]:
    key = {"message_id": {"S": "returns#p#g"}}
    return dict(table.client.get_item(TableName=table.table_name, Key=key).get("Item", {}))


def test_nothing_is_counted_for_a_group_that_nobody_asks_about(table: ReturnsTable) -> None:
    assert not table.add("p", "g", "returned", ids(1))
    assert (item(table), table.read("p", ["g"])) == ({}, {})

    table.begin("p", ["g"])

    assert table.read("p", ["g", "other"]) == {"g": Returns()}
    assert item(table).keys() == {"message_id", "expires_at"}

    # To begin again keeps the counts for longer.
    table.add("p", "g", "returned", ids(1))
    replace(table, now_seconds=lambda: NOW + 5).begin("p", ["g"])

    assert table.read("p", ["g"])["g"].returned_ids == ids(1)
    assert item(table)["expires_at"] == {"N": str(NOW + 5 + KEPT_SECONDS)}


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
    known = frozenset().union(*added)
    assert getattr(counted, kind) == total
    assert min(total, 100) <= len(getattr(counted, f"{kind}_ids")) < 200
    assert getattr(counted, f"{kind}_ids") <= known
    # What was parked again came back.
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
    update, calls = table.client.update_item, list[Any]()

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


def test_a_table_that_is_missing_is_an_error_that_says_so(dynamodb: Any) -> None:
    table = ReturnsTable(dynamodb, "missing", lambda: NOW)

    for call in (
        lambda: table.begin("p", ["g"]),
        lambda: table.read("p", ["g"]),
        lambda: table.add("p", "g", "returned", ids(1)),
    ):
        with pytest.raises(TableError, match="ResourceNotFoundException"):
            call()
