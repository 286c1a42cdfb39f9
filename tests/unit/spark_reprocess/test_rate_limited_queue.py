"""What a redrive puts before a queue: every call is counted, and transient refusals go again."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pytest

from dlq_replay.message import SendEntry
from dlq_replay.sending import (
    BatchRejected,
    CallResult,
    Confirmed,
    InDoubt,
    NotSent,
    Refused,
    SendResult,
)
from spark_reprocess.redrive.rate_limited_queue import (
    REPEATS,
    UNANSWERED_MESSAGES,
    GlobalErrorDetector,
    RateLimitedQueue,
)
from tests.fake_limits import FakeLimiter, FakeSignals

if TYPE_CHECKING:
    from dlq_replay.sqs import SqsQueue


THROTTLED = Refused("RequestThrottled")
LOST = InDoubt("ConnectionClosedError")


@dataclass
class Answers:
    """A queue that gives each body its next answer, and then confirms."""

    url: str = "https://q"
    of: dict[str, list[SendResult]] = field(default_factory=dict)
    spoilt_by: str = ""
    calls: list[list[str]] = field(default_factory=list)

    def send_once(self, entries: Sequence[SendEntry]) -> CallResult:
        bodies = [entry.body for entry in entries]
        self.calls.append(bodies)
        if self.spoilt_by in bodies:
            return BatchRejected() if len(bodies) > 1 else [Refused("InvalidMessageContents")]
        return [(self.of.get(body) or [Confirmed(f"copy of {body}")]).pop(0) for body in bodies]


@dataclass
class FallsSilent:
    """Takes so many calls, and then no answer comes to any."""

    answered_calls: int
    url: str = "https://q"
    calls: Iterator[int] = field(default_factory=itertools.count)

    def send_once(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        is_answered = next(self.calls) < self.answered_calls
        return [Confirmed("copy") if is_answered else LOST] * len(entries)


@dataclass
class Breaking:
    """Has a bug."""

    url: str = "https://q"

    def send_once(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        raise RuntimeError("a bug")


def limited(
    answers: "Answers | FallsSilent | Breaking",
    signals: FakeSignals | None = None,
    limiter: FakeLimiter | None = None,
    *,
    is_fifo: bool = False,
    now: Callable[[], float] = lambda: 0.0,
) -> RateLimitedQueue:
    return RateLimitedQueue(
        cast("SqsQueue", answers),
        signals or FakeSignals(),
        limiter or FakeLimiter(),
        GlobalErrorDetector(),
        100.0,
        now,
        lambda _, longest: longest,
        is_fifo,
    )


def entries(count: int) -> list[SendEntry]:
    return [SendEntry(str(number)) for number in range(count)]


@dataclass
class SlowLimiter(FakeLimiter):
    """Each call waits 90 s, as behind 45 others at 0.5 messages a second."""

    now: float = 0.0

    def acquire(self, messages: int, may_wait: Callable[[], bool]) -> bool:
        self.now += 90
        return super().acquire(messages, may_wait)


THREE = [Confirmed(f"copy of {n}") for n in range(3)]


@pytest.mark.parametrize(
    ("answers", "results", "calls"),
    [
        (Answers(), THREE, [3]),
        (Answers(of={"1": [THROTTLED, THROTTLED]}), THREE, [3, 1, 1]),
        (
            Answers(spoilt_by="1"),
            [THREE[0], Refused("InvalidMessageContents"), THREE[2]],
            [3, 1, 1, 1],
        ),
    ],
    ids=["one call", "repeats", "a call for each entry"],
)
def test_every_call_is_acquired_and_released(
    answers: Answers, results: list[SendResult], calls: list[int]
) -> None:
    limiter = FakeLimiter()

    assert limited(answers, limiter=limiter).send(entries(3)) == results
    assert (limiter.calls, limiter.in_flight) == (calls, 0)


def test_calls_are_no_larger_than_the_rate_allows() -> None:
    limiter = FakeLimiter(call_messages=4)
    answers = Answers()

    assert len(limited(answers, limiter=limiter).send(entries(10))) == 10
    assert answers.calls == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]]
    assert limiter.calls == [4, 4, 2]


def test_stopped_task_sends_nothing() -> None:
    answers = Answers()

    assert limited(answers, FakeSignals("x")).send(entries(2)) == [NotSent()] * 2
    assert answers.calls == []


def test_stop_between_calls_lets_no_more_begin() -> None:
    limiter = FakeLimiter(call_messages=1, most_calls=2)

    results = limited(Answers(), limiter=limiter).send(entries(4))

    assert [type(one) for one in results] == [Confirmed, Confirmed, NotSent, NotSent]


def test_no_call_begins_once_the_claim_has_aged() -> None:
    """The wait for the rate took the rest of the time."""
    times = iter([99.0, 99.0, 99.0, 100.0])
    limiter, answers = FakeLimiter(), Answers()
    queue = limited(answers, limiter=limiter, now=lambda: next(times))

    assert queue.send(entries(1)) == [NotSent()]
    assert (answers.calls, limiter.in_flight) == ([], 0)


def test_repeats_end() -> None:
    signals = FakeSignals()
    answers = Answers(of={"0": [THROTTLED] * 99})

    assert limited(answers, signals).send(entries(1)) == [THROTTLED]
    assert len(answers.calls) == 1 + REPEATS
    assert signals.pauses == [0.2, 0.4, 0.8, 1.6, 3.2]


@pytest.mark.parametrize(
    ("is_fifo", "answer", "result", "calls"),
    [(True, LOST, LOST, 2), (False, THROTTLED, Confirmed("copy of 0"), 6)],
)
def test_only_a_fifo_queue_that_may_have_forgotten_the_message_is_not_asked_again(
    answer: SendResult, result: SendResult, calls: int, *, is_fifo: bool
) -> None:
    answers, limiter = Answers(of={"0": [answer] * 5}), SlowLimiter()
    queue = limited(answers, limiter=limiter, is_fifo=is_fifo, now=lambda: limiter.now)

    assert replace(queue, until_seconds=10_000.0).send(entries(1)) == [result]
    assert len(answers.calls) == calls


@pytest.mark.parametrize(
    ("is_fifo", "answers", "result", "calls"),
    [
        (False, [Refused("InvalidMessageContents")], Refused("InvalidMessageContents"), 1),
        (False, [LOST], LOST, 1),
        # A FIFO queue knows the message.
        (True, [LOST, LOST], Confirmed("copy of 0"), 3),
    ],
)
def test_standard_queue_is_not_asked_again_after_a_refusal_for_good_or_a_lost_answer(
    answers: list[SendResult], result: SendResult, calls: int, *, is_fifo: bool
) -> None:
    queue = Answers(of={"0": answers})

    assert limited(queue, is_fifo=is_fifo).send(entries(1)) == [result]
    assert len(queue.calls) == calls


@pytest.mark.parametrize("second", [THROTTLED, Refused("ExpiredToken"), NotSent()])
def test_message_in_doubt_stays_so_unless_it_is_confirmed(second: SendResult) -> None:
    answers = Answers(of={"0": [LOST, *[second] * 9]})

    assert limited(answers, is_fifo=True).send(entries(1)) == [LOST]


def test_stopped_run_does_not_try_again() -> None:
    signals = FakeSignals()

    class Stopping(Answers):
        def send_once(self, entries: Sequence[SendEntry]) -> CallResult:
            signals.stop("interrupted")
            return super().send_once(entries)

    answers = Stopping(of={"0": [THROTTLED] * 9})

    assert limited(answers, signals).send(entries(1)) == [THROTTLED]
    assert len(answers.calls) == 1


def test_queue_that_is_gone_stops_the_run_at_once() -> None:
    gone = Refused("AWS.SimpleQueueService.NonExistentQueue", "there is no such queue")
    signals, answers = FakeSignals(), Answers(of={"0": [gone]})
    queue = limited(answers, signals)

    assert queue.send(entries(1)) == [gone]
    assert signals.stopped_by == "there is no such queue"
    assert queue.send(entries(1)) == [NotSent()]
    assert len(answers.calls) == 1


def test_silence_puts_few_more_in_doubt_than_were_in_flight() -> None:
    """Ten threads, and a queue that takes four calls and says nothing to any other."""
    signals, queue = FakeSignals(), FallsSilent(answered_calls=4)
    sender = limited(queue, signals)

    with ThreadPoolExecutor(10) as threads:
        results = [one for call in threads.map(sender.send, [entries(10)] * 100) for one in call]

    assert "messages in a row were not taken" in signals.stopped_by
    assert results.count(Confirmed("copy")) == 40
    assert results.count(LOST) <= 10 * 10 + UNANSWERED_MESSAGES
    assert len(results) == 1000


def test_nobody_waits_for_an_answer_to_others_beyond_the_claims_age() -> None:
    limiter, answers = FakeLimiter(), Answers(of={"0": [LOST]})
    queue = limited(answers, limiter=limiter, now=lambda: 100.0)
    queue.errors.reason_to_stop([LOST])

    with queue.errors.one_at_a_time(0):
        assert queue.send(entries(1)) == [NotSent()]
    assert (answers.calls, limiter.calls) == ([], [])


def test_bug_in_each_call_stops_the_run() -> None:
    limiter, signals = FakeLimiter(), FakeSignals()
    breaking = limited(Breaking(), signals, limiter)

    results = [one for _ in range(10) for one in breaking.send(entries(10))]

    assert results.count(InDoubt("RuntimeError in the call")) == 50
    assert results.count(NotSent()) == 50
    assert limiter.in_flight == 0


def test_no_pause_begins_once_the_claim_has_aged() -> None:
    times = iter([99.0, 99.0, 99.0, 99.0, *[100.0] * 9])
    signals, answers = FakeSignals(), Answers(of={"0": [THROTTLED]})

    assert limited(answers, signals, now=lambda: next(times)).send(entries(1)) == [THROTTLED]
    assert signals.pauses == []
