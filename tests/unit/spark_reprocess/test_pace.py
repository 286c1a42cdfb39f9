"""The rate's law, on a virtual clock: whatever calls take, ten seconds never hold too many."""

import heapq
import math
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.redrive.pace import Pace, Permits


@dataclass
class Senders:
    """Threads that ask, call and ask again; SQS gets each call somewhere on its way."""

    permits: Permits[int]
    call_messages: int
    seconds: list[float]
    random: Random
    now: float = 0.0
    arrived: list[tuple[float, int]] = field(default_factory=list)
    _ends: list[tuple[float, int]] = field(default_factory=list)

    def run(self, threads: int, until: float) -> None:
        for thread in range(threads):
            self.permits.ask(thread, self.call_messages)
        while self.now < until:
            for thread in self.permits.grant(self.now):
                takes = self.random.choice(self.seconds)
                self.arrived.append((self.now + self.random.uniform(0, takes), self.call_messages))
                heapq.heappush(self._ends, (self.now + takes, thread))
            end = self._ends[0][0] if self._ends else math.inf
            self.now = min(end, self.now + self.permits.seconds_until_next(self.now) + 1e-6)
            if self.now == end:
                _, thread = heapq.heappop(self._ends)
                self.permits.end(self.call_messages, self.now)
                self.permits.ask(thread, self.call_messages)

    def most_in_ten_seconds(self) -> int:
        times = sorted(self.arrived)
        most = held = first = 0
        for at, messages in times:
            held += messages
            while times[first][0] <= at - 10:
                held -= times[first][1]
                first += 1
            most = max(most, held)
        return most


def sent_by(rate: float, seconds: list[float], threads: int, until: float, seed: int) -> Senders:
    pace = Pace(rate)
    senders = Senders(Permits(pace), pace.call_messages, seconds, Random(seed))
    senders.run(threads, until)
    return senders


rates = st.floats(0.5, 60) | st.integers(1, 120).map(lambda halves: halves / 2)
call_seconds = st.lists(st.floats(0.001, 30), min_size=1, max_size=4)


@given(rates, call_seconds, st.integers(1, 16), st.integers())
def test_ten_seconds_never_hold_more_than_five_percent_above(
    rate: float, seconds: list[float], threads: int, seed: int
) -> None:
    senders = sent_by(rate, seconds, threads, 60, seed)

    assert senders.most_in_ten_seconds() <= rate * 10 * 1.05 + 1e-6


@pytest.mark.parametrize("rate", [0.5, 1.0, 1.5, 2.0, 3.0, 7.5, 9.5, 20.0, 100.0, 1000.0, 5000.0])
def test_rate_is_reached_where_calls_are_quick(rate: float) -> None:
    until = 200.0 if rate < 20 else 40.0
    senders = sent_by(rate, [0.005, 0.02, 0.3], 16 + int(rate / 20), until, 1)

    assert sum(messages for _, messages in senders.arrived) >= 0.9 * rate * until


@given(st.floats(0.01, 5000))
def test_call_holds_no_more_than_a_second_of_the_rate(rate: float) -> None:
    pace = Pace(rate)

    assert 1 <= pace.call_messages <= min(10, max(1, rate), pace.window_messages)


def test_pause_is_not_made_up_for() -> None:
    pace = Pace(100.0)
    pace.start(10, 0.0)
    pace.end(10, 0.0)

    permitted = 0
    while pace.seconds_until(10, 60.0) == 0:
        pace.start(10, 60.0)
        pace.end(10, 60.0)
        permitted += 10

    assert permitted <= 60


def test_nothing_goes_while_calls_without_an_answer_fill_the_window() -> None:
    pace = Pace(1.0)
    for second in range(10):
        assert pace.seconds_until(1, float(second)) == 0
        pace.start(1, float(second))

    assert pace.seconds_until(1, 1000.0) == math.inf
    pace.end(1, 1000.0)
    assert pace.seconds_until(1, 1000.0) == 10.0


def test_first_come_is_first_served() -> None:
    permits = Permits[str](Pace(1.0))
    for who in "abc":
        permits.ask(who, 1)

    assert [permits.grant(now) for now in (0.0, 0.5, 1.0, 2.0)] == [["a"], [], ["b"], ["c"]]


def test_those_who_went_away_hold_nobody_up() -> None:
    permits = Permits[str](Pace(1.0))
    for who in "abc":
        permits.ask(who, 1)

    permits.withdraw(lambda who: who in "ab")

    assert permits.grant(0.0) == ["c"]
    assert permits.seconds_until_next(0.0) == math.inf


def test_nobody_waits_without_a_pace() -> None:
    permits = Permits[int](None)
    for who in range(1000):
        permits.ask(who, 10)

    assert permits.grant(0.0) == list(range(1000))
