"""The rate's law, on a virtual clock: whatever calls take, ten seconds never hold too many.

Tasks with uneven work send chunk after chunk, each with its share of the rate.
"""

import math
from collections.abc import Sequence
from heapq import heappop, heappush
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.archive.ledger.claims import CHUNK_MESSAGES
from dlq.aws.clients import CONCURRENT_CALLS
from dlq.redrive.sending.rate_limiter import (
    WINDOW_SECONDS,
    RateLimiter,
    most_tasks,
    share_window,
    window_messages,
)
from local_sqs.clock import VirtualClock

LEDGER_SECONDS = 0.05
"""Between two chunks of a task: a result is written, then a claim."""


def arrivals(
    window: int, left: int, call_seconds: Sequence[float], random: Random
) -> tuple[list[tuple[float, int]], float]:
    """Return when SQS gets how many messages of one task, and when its last call has ended."""
    clock = VirtualClock()
    began = clock.time()
    limiter = RateLimiter(window, clock.time)
    arrived: list[tuple[float, int]] = []

    while left:
        chunk = min(left, CHUNK_MESSAGES)
        left -= chunk
        calls: list[tuple[float, int]] = []
        while chunk or calls:
            now = clock.time()
            messages = min(chunk, limiter.call_messages)
            may_begin = chunk and len(calls) < CONCURRENT_CALLS
            begins_at = now + limiter.seconds_until(messages) if may_begin else math.inf
            if calls and calls[0][0] <= begins_at:
                ends_at, messages = heappop(calls)
                clock.advance(ends_at - now)
                limiter.release(messages)
                continue

            if begins_at > now:
                clock.advance(begins_at - now + 1e-6)
            assert limiter.acquire(messages) <= 0
            seconds = random.choice(call_seconds)
            arrived.append((clock.time() - began + random.uniform(0, seconds), messages))
            heappush(calls, (clock.time() + seconds, messages))
            chunk -= messages
        clock.advance(LEDGER_SECONDS)
    return arrived, clock.time() - began


def cluster(
    rate: float, shares: Sequence[int], call_seconds: Sequence[float], seed: int = 1
) -> tuple[list[tuple[float, int]], float]:
    """Return the same of all tasks, each with its share of the messages and of the rate."""
    shares = [share for share in shares if share]
    windows = share_window(window_messages(rate), shares) if shares else []
    arrived: list[tuple[float, int]] = []
    ended_at = 0.0
    for number, (window, share) in enumerate(zip(windows, shares, strict=True)):
        of_task, task_ended_at = arrivals(window, share, call_seconds, Random(f"{seed} {number}"))
        arrived += of_task
        ended_at = max(ended_at, task_ended_at)
    return arrived, ended_at


@given(
    st.floats(0.5, 60) | st.integers(1, 120).map(lambda halves: halves / 2),
    st.lists(st.integers(0, 250), min_size=1, max_size=4),
    st.lists(st.floats(0.001, 30), min_size=1, max_size=4),
    st.integers(),
)
def test_no_window_holds_more_than_five_percent_above(
    rate: float, shares: list[int], call_seconds: list[float], seed: int
) -> None:
    arrived, _ = cluster(rate, shares, call_seconds, seed)

    assert sum(messages for _, messages in arrived) == sum(shares)
    for start, _ in arrived:
        held = sum(messages for at, messages in arrived if start <= at < start + WINDOW_SECONDS)
        assert held <= rate * WINDOW_SECONDS * 1.05 + 1e-6


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
    minute = [max(1, round(60 * rate * part)) for part in parts[: most_tasks(rate)]]
    _, seconds = cluster(rate, minute, [0.02, 0.3])

    assert sum(minute) / seconds >= (0.9 if rate >= 10 else 0.6) * rate


@given(st.integers(1, 50_000))
def test_call_holds_no_more_than_a_second_of_the_rate(window: int) -> None:
    call_messages = RateLimiter(window).call_messages

    assert 1 <= call_messages <= min(10, max(1, window / 10.5), window)


def test_pause_is_not_made_up_for() -> None:
    clock = VirtualClock()
    limiter = RateLimiter(window_messages(100.0), clock.time)
    for seconds in (0, 60):
        clock.advance(seconds)
        started = 0
        while limiter.acquire(10) == 0:
            limiter.release(10)
            started += 10

    assert started <= 60


def test_nothing_goes_while_calls_without_an_answer_fill_the_window() -> None:
    clock = VirtualClock()
    limiter = RateLimiter(10, clock.time)
    for _ in range(10):
        clock.advance(2)
        assert limiter.acquire(1) == 0

    clock.advance(1000)
    assert [limiter.acquire(1) for _ in range(3)] == [math.inf] * 3
    limiter.release(1)
    assert limiter.acquire(1) == 10.0
    clock.advance(10)
    assert limiter.acquire(1) == 0


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

    assert {limiter.acquire(10) for _ in range(1000)} == {0}


@pytest.mark.parametrize("per_minute", [20, 30, 100, 1800, 30_000])
def test_tasks_that_pay_first_send_no_more_than_the_limit_in_their_first_minute(
    per_minute: int,
) -> None:
    rate = per_minute / 60
    tasks = min(16, most_tasks(rate))
    sent = 0
    for share in share_window(window_messages(rate), [1000] * tasks):
        clock = VirtualClock()
        minute_ends_at = clock.time() + 60
        limiter = RateLimiter(share, clock.time, waits_first=True)
        while True:
            clock.advance(limiter.seconds_until(limiter.call_messages))
            if clock.time() >= minute_ends_at:
                break
            assert limiter.acquire(limiter.call_messages) == 0
            limiter.release(limiter.call_messages)
            sent += limiter.call_messages

    assert 0.8 * per_minute <= sent <= per_minute
