from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from dlq_replay.replaying.sending import (
    Confirmed,
    NotSent,
    Refused,
    SendResult,
    Shipment,
    Unconfirmed,
    forever,
    pack,
    send_groups,
)
from dlq_replay.wire.message import SendEntry
from tests.support.builders import FakeQueue, StuckQueue, queue_url

MEBIBYTE = 1_048_576


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def shipment(key: str, queue: FakeQueue, body: str | None = None) -> Shipment:
    return Shipment(key, queue, SendEntry(body or key))


MAIN = FakeQueue(queue_url("main"))
PARKED = FakeQueue(queue_url("parked"))
HALF = "x" * (MEBIBYTE // 2)


@pytest.mark.parametrize(
    ("shipments", "runs"),
    [
        (
            [shipment(key, MAIN) for key in "abcdefghijklmnopqrstu"],
            ["abcdefghij", "klmnopqrst", "u"],
        ),
        ([shipment(key, MAIN, HALF) for key in "abc"], ["ab", "c"]),
        # Above the limit: alone.
        (
            [
                shipment("a", MAIN, HALF),
                shipment("b", MAIN, HALF * 3),
                shipment("c", MAIN, HALF),
            ],
            ["a", "b", "c"],
        ),
        ([shipment(key, (MAIN, PARKED)[n % 2]) for n, key in enumerate("abcd")], ["ac", "bd"]),
    ],
    ids=["ten entries", "one mebibyte exactly", "an entry above it", "two queues"],
)
def test_entries_of_a_call(shipments: list[Shipment], runs: list[str]) -> None:
    assert ["".join(shipment.key for shipment in run) for run in pack(shipments)] == runs


def test_call_carries_one_entry_of_a_group_and_keeps_its_order(executor: Executor) -> None:
    queue = FakeQueue()
    groups = [[shipment(f"{group}{n}", queue) for n in range(3)] for group in "ab"]
    send_groups(groups, executor, forever)

    bodies = [[entry.body for entry in call] for call in queue.calls]
    assert bodies == [["a0", "b0"], ["a1", "b1"], ["a2", "b2"]]


@pytest.mark.parametrize("failure", [Refused("no"), Unconfirmed("lost")])
def test_unconfirmed_entry_stops_its_group_only(executor: Executor, failure: SendResult) -> None:
    queue = FakeQueue(refuses={"a1": failure})
    groups = [[shipment(f"{group}{n}", queue) for n in range(3)] for group in "ab"]
    results = send_groups(groups, executor, forever)

    assert (results["a1"], results["a2"]) == (failure, NotSent())
    assert all(isinstance(results[key], Confirmed) for key in ("a0", "b0", "b1", "b2"))
    assert {"a0", "b0", "b1", "b2"} == {entry.body for entry in queue.sent}


def test_nothing_is_called_when_time_is_up(executor: Executor) -> None:
    queue = FakeQueue()
    results = send_groups([[shipment("a", queue)]], executor, lambda: 0.0)

    assert results == {"a": NotSent()}
    assert queue.calls == []


def test_open_call_is_unconfirmed_and_waiting_call_never_begins() -> None:
    queue = StuckQueue()
    groups = [[shipment(str(n), queue)] for n in range(20)]

    left = iter([1.0])

    def seconds_left() -> float:
        for seconds in left:
            return seconds
        assert queue.entered.wait(60)
        return 0.0

    with ThreadPoolExecutor(1) as pool:
        results = send_groups(groups, pool, seconds_left)
        queue.released.set()

    assert [Unconfirmed("no answer in time")] * 10 == [results[str(n)] for n in range(10)]
    assert [NotSent()] * 10 == [results[str(n)] for n in range(10, 20)]
    assert len(queue.sent) == 10


class BrokenQueue(FakeQueue):
    def send(self, entries: Sequence[SendEntry]) -> list[SendResult]:
        raise RuntimeError("a bug, with a body in its text")


def test_bug_in_one_call_leaves_the_others_alone(executor: Executor) -> None:
    good = FakeQueue()
    results = send_groups(
        [[shipment("a", BrokenQueue(queue_url("broken")))], [shipment("b", good)]],
        executor,
        forever,
    )

    assert results["a"] == Unconfirmed("RuntimeError in the call")
    assert isinstance(results["b"], Confirmed)
