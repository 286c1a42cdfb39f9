"""The rate's law, on a virtual clock: whatever calls take, ten seconds never hold too many."""

import heapq
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.redrive.rate_limiter import (
    RateLimiter,
    SlidingWindow,
    most_tasks,
    share_window,
    window_messages,
)


@dataclass
class Senders:
    """Threads of one task that call, and call again; SQS gets each call somewhere in between."""

    window: SlidingWindow
    seconds: list[float]
    random: Random
    now: float = 0.0
    arrived: list[tuple[float, int]] = field(default_factory=list)
    _ends: list[float] = field(default_factory=list)

    def run(self, threads: int, until: float) -> None:
        messages = self.window.call_messages
        while self.now < until:
            wait = self.window.seconds_until(messages, self.now)
            end = self._ends[0] if self._ends else math.inf
            if len(self._ends) < threads and wait <= 0:
                self._call(messages)
                continue
            self.now = min(end, self.now + wait + 1e-6 if len(self._ends) < threads else end)
            if self.now == end:
                heapq.heappop(self._ends)
                self.window.end(messages, self.now)

    def _call(self, messages: int) -> None:
        self.window.start(messages, self.now)
        takes = self.random.choice(self.seconds)
        self.arrived.append((self.now + self.random.uniform(0, takes), messages))
        heapq.heappush(self._ends, self.now + takes)

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
    senders = Senders(SlidingWindow(window_messages(rate)), seconds, Random(seed))
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


@given(st.integers(1, 50_000))
def test_call_holds_no_more_than_a_second_of_the_rate(window: int) -> None:
    call_messages = SlidingWindow(window).call_messages

    assert 1 <= call_messages <= min(10, max(1, window / 10.5), window)


def test_pause_is_not_made_up_for() -> None:
    window = SlidingWindow(window_messages(100.0))
    window.start(10, 0.0)
    window.end(10, 0.0)

    started = 0
    while window.seconds_until(10, 60.0) == 0:
        window.start(10, 60.0)
        window.end(10, 60.0)
        started += 10

    assert started <= 60


def test_nothing_goes_while_calls_without_an_answer_fill_the_window() -> None:
    window = SlidingWindow(10)
    for call in range(10):
        assert window.seconds_until(1, 2.0 * call) == 0
        window.start(1, 2.0 * call)

    assert window.seconds_until(1, 1000.0) == math.inf
    window.end(1, 1000.0)
    assert window.seconds_until(1, 1000.0) == 10.0


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=30), st.integers(0, 5000))
def test_shares_of_a_window_are_in_proportion_and_never_more_than_the_window(
    messages: list[int], spare: int
) -> None:
    window = len(messages) + spare

    shares = share_window(window, messages)

    assert sum(shares) == window
    assert min(shares) >= 1
    for share, count in zip(shares, messages, strict=True):
        assert abs(share - 1 - spare * count / sum(messages)) < 1


@pytest.mark.parametrize(
    ("rate", "claim_ttl_seconds", "tasks"),
    [
        (0.5, 900, 2),  # Two chunks of 100 take 400 s, at most half of 900 s.
        (0.2, 900, 0),
        (0.2, 1000, 1),
        (20.0, 900, 90),
        (20.0, 100_000, 210),  # No more tasks than messages in ten seconds.
    ],
)
def test_tasks_that_can_share_a_rate(rate: float, claim_ttl_seconds: float, tasks: int) -> None:
    assert most_tasks(rate, 100, claim_ttl_seconds) == tasks


def test_without_a_rate_every_call_begins_at_once() -> None:
    limiter = RateLimiter(None)

    assert all(limiter.acquire(10, lambda: True) for _ in range(1000))
    assert not limiter.acquire(10, lambda: False)


def test_calls_of_all_threads_begin_in_the_end() -> None:
    limiter, begun = RateLimiter(1_000_000), list[int]()

    def send(thread: int) -> None:
        for _ in range(20):
            assert limiter.acquire(10, lambda: True)
            begun.append(thread)
            limiter.release(10)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(send, range(8)))

    assert len(begun) == 160


def test_call_that_must_not_wait_any_more_takes_nothing_from_the_others() -> None:
    """A window of one message: the second call has to wait for ten seconds after the first."""
    clock = [0.0]
    limiter = RateLimiter(1, lambda: clock[0])
    assert limiter.acquire(1, lambda: True)
    asked = iter([True, False])

    assert not limiter.acquire(1, lambda: next(asked))
    limiter.release(1)
    clock[0] = 11.0
    assert limiter.acquire(1, lambda: True)


def test_stop_ends_the_wait_of_all_threads() -> None:
    limiter, is_stopped = RateLimiter(1), Event()
    assert limiter.acquire(1, lambda: True)

    with ThreadPoolExecutor(4) as threads:
        waiting = [
            threads.submit(limiter.acquire, 1, lambda: not is_stopped.is_set()) for _ in range(4)
        ]
        is_stopped.set()
        assert [one.result(30) for one in waiting] == [False] * 4
