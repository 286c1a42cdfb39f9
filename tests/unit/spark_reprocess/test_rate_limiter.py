"""The rate's law, on a virtual clock: whatever calls take, ten seconds never hold too many.

Tasks with uneven work send chunk after chunk, each with its share of the rate.
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.replaying.sending import MAX_BATCH_ENTRIES
from spark_reprocess.archive.ledger.claims import CHUNK_MESSAGES
from spark_reprocess.aws.clients import CONCURRENT_CALLS
from spark_reprocess.redrive.sending.rate_limiter import (
    WINDOW_SECONDS,
    RateLimiter,
    SlidingWindow,
    most_tasks,
    share_window,
    window_messages,
)

LEDGER_SECONDS = 0.05
"""Between two chunks of a task: a result is written, then a claim."""


@dataclass(eq=False)
class Thread:
    """Sends ten messages of a task's chunk at most, in as many calls as the pace says."""

    task: "Task"
    left: int


@dataclass(eq=False)
class Task:
    """Holds so many messages; its threads send a chunk side by side, then comes the next chunk.

    Attributes:
        window: its share of the run's.
    """

    left: int
    window: SlidingWindow
    threads: set[Thread] = field(default_factory=set)
    waiting: deque[Thread] = field(default_factory=deque)

    def next_chunk(self) -> Iterator[Thread]:
        chunk = min(self.left, CHUNK_MESSAGES)
        self.left -= chunk
        for start in range(0, chunk, MAX_BATCH_ENTRIES):
            self.threads.add(Thread(self, min(MAX_BATCH_ENTRIES, chunk - start)))
        assert len(self.threads) <= CONCURRENT_CALLS
        yield from self.threads


@dataclass
class Cluster:
    """Tasks, each with its share of the messages and of the rate.

    Attributes:
        arrived: when SQS got how many messages.
        now: once it has run: when the last call had ended.
    """

    rate: float
    shares: list[int]
    call_seconds: list[float]
    random: Random
    arrived: list[tuple[float, int]] = field(default_factory=list)
    now: float = 0.0

    def run(self) -> None:
        shares = [share for share in self.shares if share]
        windows = share_window(window_messages(self.rate), shares) if shares else []
        self._tasks = [Task(*one) for one in zip(shares, map(SlidingWindow, windows), strict=True)]
        self._events: list[tuple[float, int, Thread | Task]] = []
        self._order = itertools.count()
        for task in self._tasks:
            self._begin(task)
        while True:
            starts_at = min(map(self._start_calls, self._tasks), default=math.inf)
            event_at = self._events[0][0] if self._events else math.inf
            if math.isinf(starts_at) and math.isinf(event_at):
                return
            self.now = min(starts_at + 1e-9, event_at)
            if self.now == event_at:
                self._happen(heapq.heappop(self._events)[2])

    def _begin(self, task: Task) -> None:
        task.waiting.extend(task.next_chunk())

    def _start_calls(self, task: Task) -> float:
        """Start what may begin now; return when the next call may, if nothing happens before."""
        while task.waiting:
            messages = self._messages(task.waiting[0])
            wait = task.window.seconds_until(messages, self.now)
            if wait > 0:
                return self.now + wait
            task.window.start(messages, self.now)
            self._call(task.waiting.popleft())
        return math.inf

    def _messages(self, thread: Thread) -> int:
        return min(thread.left, thread.task.window.call_messages)

    def _call(self, thread: Thread) -> None:
        seconds = self.random.choice(self.call_seconds)
        self.arrived.append((self.now + self.random.uniform(0, seconds), self._messages(thread)))
        self._at(seconds, thread)

    def _at(self, seconds: float, what: Thread | Task) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), what))

    def _happen(self, what: Thread | Task) -> None:
        if isinstance(what, Task):
            self._begin(what)
            return
        messages = self._messages(what)
        what.task.window.end(messages, self.now)
        what.left -= messages
        if what.left:
            what.task.waiting.append(what)
            return
        what.task.threads.discard(what)
        if not what.task.threads and what.task.left:
            self._at(LEDGER_SECONDS, what.task)

    def held_from(self, start: float) -> int:
        end = start + WINDOW_SECONDS
        return sum(messages for at, messages in self.arrived if start <= at < end)


def cluster(rate: float, shares: list[int], call_seconds: list[float], seed: int = 1) -> Cluster:
    made = Cluster(rate, shares, call_seconds, Random(seed))
    made.run()
    return made


shares = st.lists(st.integers(0, 250), min_size=1, max_size=4)


@given(
    st.floats(0.5, 60) | st.integers(1, 120).map(lambda halves: halves / 2),
    shares,
    st.lists(st.floats(0.001, 30), min_size=1, max_size=4),
    st.integers(),
)
def test_no_window_holds_more_than_five_percent_above(
    rate: float, shares: list[int], call_seconds: list[float], seed: int
) -> None:
    sent = cluster(rate, shares, call_seconds, seed)

    assert sum(messages for _, messages in sent.arrived) == sum(shares)
    fullest = max((sent.held_from(start) for start, _ in sent.arrived), default=0)
    assert fullest <= rate * WINDOW_SECONDS * 1.05 + 1e-6


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.5, 10.0, 50.0, 200.0])
@pytest.mark.parametrize(
    "parts",
    [(1.0,), (0.5, 0.5), (0.9, 0.1), (0.97, 0.01, 0.01, 0.01)],
    ids=["one task", "even", "uneven", "nearly all in one of four"],
)
def test_rate_is_nearly_reached_however_uneven_the_work_is(
    rate: float, parts: tuple[float, ...]
) -> None:
    """Below 10/s a window is a few messages, each task has one of them, and the rest is shared."""
    tasks = most_tasks(rate)
    minute = [max(1, round(60 * rate * part)) for part in parts[:tasks]]
    sent = cluster(rate, minute, [0.02, 0.3])

    assert sum(minute) / sent.now >= (0.9 if rate >= 10 else 0.6) * rate


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


@pytest.mark.parametrize(("rate", "tasks"), [(0.1, 1), (0.2, 1), (0.5, 2), (20.0, 105)])
def test_tasks_that_can_share_a_rate(rate: float, tasks: int) -> None:
    assert most_tasks(rate) == tasks


@given(st.floats(0.1, 1000), st.lists(st.integers(1, 10_000), min_size=1, max_size=30))
def test_claims_of_all_tasks_hold_what_the_rate_sends_in_ten_seconds(
    rate: float, messages: list[int]
) -> None:
    windows = share_window(window_messages(rate), messages[: most_tasks(rate)])

    claimed = sum(RateLimiter(window).claim_messages for window in windows)
    assert claimed <= max(rate * WINDOW_SECONDS + 1e-6, len(windows))


@pytest.mark.parametrize(("rate", "messages"), [(1.0, 9), (10.0, 100), (1000.0, 10_000)])
def test_claim_of_a_task_alone_takes_ten_seconds(rate: float, messages: int) -> None:
    assert RateLimiter(window_messages(rate)).claim_messages == messages


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


@pytest.mark.parametrize("per_minute", [20, 30, 100, 1800, 30_000])
def test_tasks_that_pay_first_send_no_more_than_the_limit_in_their_first_minute(
    per_minute: int,
) -> None:
    rate = per_minute / 60
    tasks = min(16, most_tasks(rate))
    sent = 0
    for share in share_window(window_messages(rate), [1000] * tasks):
        window, now = SlidingWindow(share, begins_at=0.0), 0.0
        while True:
            now += window.seconds_until(window.call_messages, now)
            if now >= 60:
                break
            window.start(window.call_messages, now)
            window.end(window.call_messages, now)
            sent += window.call_messages

    assert 0.8 * per_minute <= sent <= per_minute
