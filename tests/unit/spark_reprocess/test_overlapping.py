"""Calls side by side in one thread: what is sent is what threads would send."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.message import SendEntry
from dlq_replay.sending import (
    Confirmed,
    InDoubt,
    NotReached,
    Refused,
    SendResult,
    Shipment,
    forever,
    send_lanes,
)
from spark_reprocess.redrive.overlapping import LookingAhead, send_overlapping
from tests.builders import queue_url

ANSWERS: Sequence[SendResult] = (
    Confirmed("copy"),
    Refused("InvalidMessageContents"),
    InDoubt("ReadTimeoutError"),
    NotReached(),
)


@dataclass
class Halves:
    """A queue that answers each body as told, and says what happened in which order.

    Attributes:
        open_calls: how many are begun and not ended.
    """

    answers: dict[str, SendResult]
    url: str = queue_url("main")
    open_calls: int = 0
    sent: list[str] = field(default_factory=list)

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        return self.begin(entries)()

    def begin(self, entries: Sequence[SendEntry]) -> Callable[[], Sequence[SendResult]]:
        bodies = [entry.body for entry in entries]
        self.open_calls += 1
        self.sent += bodies

        def end() -> Sequence[SendResult]:
            self.open_calls -= 1
            return [self.answers[body] for body in bodies]

        return end


def lanes_of(queue: Halves, shape: Sequence[int]) -> list[list[Shipment[str]]]:
    bodies = iter(queue.answers)
    return [
        [Shipment(body, queue, SendEntry(body)) for body in islice(bodies, length)]
        for length in shape
    ]


def nothing() -> None:
    pass


def overlapping(
    queue: Halves,
    shape: Sequence[int],
    *,
    seconds_left: Callable[[], float] = forever,
    meanwhile: Callable[[], None] = nothing,
    most: int = 10,
) -> Mapping[str, SendResult]:
    lanes = lanes_of(queue, shape)
    return send_overlapping(lanes, queue, seconds_left, most_calls=most, meanwhile=meanwhile)


@given(st.lists(st.lists(st.sampled_from(ANSWERS), max_size=4), max_size=25))
def test_results_are_those_of_threads(answers: list[list[SendResult]]) -> None:
    flat = {str(n): answer for n, answer in enumerate(a for lane in answers for a in lane)}
    shape = [len(lane) for lane in answers]
    ours, theirs = Halves(flat), Halves(flat)

    results = overlapping(ours, shape)

    with ThreadPoolExecutor(1) as executor:
        assert results == send_lanes(lanes_of(theirs, shape), executor, forever)
    assert sorted(ours.sent) == sorted(theirs.sent)
    assert ours.open_calls == 0


def test_all_calls_of_a_round_are_under_way_at_once() -> None:
    queue = Halves({str(n): Confirmed("copy") for n in range(35)})
    seen: list[int] = []

    overlapping(queue, [1] * 35, meanwhile=lambda: seen.append(queue.open_calls))

    assert seen == [4]


def test_no_more_calls_are_under_way_than_are_wanted() -> None:
    queue = Halves({str(n): Confirmed("copy") for n in range(35)})
    seen: list[int] = []

    results = overlapping(queue, [1] * 35, meanwhile=lambda: seen.append(queue.open_calls), most=3)

    assert seen == [3, 1]
    assert set(results.values()) == {Confirmed("copy")}


def test_answers_are_not_waited_for_when_time_is_up() -> None:
    queue = Halves({str(n): Confirmed("copy") for n in range(40)})
    left = iter([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])

    results = overlapping(queue, [1] * 40, most=2, seconds_left=lambda: next(left))

    assert [results[n] for n in ("0", "10", "20")] == [
        Confirmed("copy"),
        InDoubt("no answer in time"),
        NotReached(),
    ]


def test_no_round_begins_when_time_is_up() -> None:
    queue = Halves({str(n): Confirmed("copy") for n in range(4)})
    left = iter([1.0, 1.0, 1.0, 1.0, 0.0])

    results = overlapping(queue, [2, 2], seconds_left=lambda: next(left))

    assert queue.sent == ["0", "2"]
    assert [results[key] for key in "13"] == [NotReached(), NotReached()]


def test_looking_ahead_changes_nothing_of_what_comes() -> None:
    things = LookingAhead(range(4))

    found = []
    for thing in things:
        found.append(thing)
        things.look()
        things.look()

    assert found == [0, 1, 2, 3]


def test_what_looking_ahead_meets_is_raised_for_whoever_asks() -> None:
    def breaking() -> Iterator[int]:
        yield 1
        raise ValueError("a broken batch")

    things = LookingAhead(breaking())

    assert next(things) == 1
    things.look()
    with pytest.raises(ValueError, match="a broken batch"):
        next(things)
