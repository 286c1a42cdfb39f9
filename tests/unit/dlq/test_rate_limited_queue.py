"""The queue of a redrive counts every call, and sends again what was refused for a moment."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pytest

from dlq.archive.ledger.stop import Stop, StopCause
from dlq.redrive.sending.rate_limited_queue import (
    UNANSWERED_MESSAGES,
    GlobalErrorDetector,
    RateLimitedQueue,
    is_transient,
)
from dlq_replay.replaying.sending import (
    BatchRejected,
    CallResult,
    Confirmed,
    NotSent,
    Refused,
    SendResult,
    Unconfirmed,
)
from dlq_replay.wire.message import SendEntry
from tests.support.fake_limits import FakeLimiter, FakeSignals
from tests.support.golden import assert_stored, stored_rows
from tests.support.stops import sentence_of

if TYPE_CHECKING:
    from dlq_replay.aws.sqs import SqsQueue


GOOD = Confirmed("copy")
THROTTLED = Refused("RequestThrottled")
LOST = Unconfirmed("ConnectionClosedError")


@dataclass
class Answers:
    """A queue that gives each body its next answer, and then confirms.

    Attributes:
        by_body: the answers that are left for each body.
        at_call: what happens in the call of a number, and the answer to all of its entries, if any.
    """

    url: str = "https://q"
    by_body: dict[str, list[SendResult]] = field(default_factory=dict)
    spoilt_by: str = ""
    calls: list[list[str]] = field(default_factory=list)
    at_call: Callable[[int], SendResult | None] = lambda _: None
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def send_once(self, entries: Sequence[SendEntry]) -> CallResult:
        if answer := self.at_call(next(self.numbers)):
            return [answer] * len(entries)
        bodies = [entry.body for entry in entries]
        self.calls.append(bodies)
        if self.spoilt_by in bodies:
            return BatchRejected() if len(bodies) > 1 else [Refused("InvalidMessageContents")]
        return [self._next_answer(body) for body in bodies]

    def _next_answer(self, body: str) -> SendResult:
        left = self.by_body.get(body)
        return left.pop(0) if left else Confirmed(f"copy of {body}")


def limited(
    answers: Answers,
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
    has_waited: bool = True

    def acquire(self, messages: int) -> float:
        self.has_waited = not self.has_waited
        if self.has_waited:
            return super().acquire(messages)
        self.now += 90
        return 0.5


GONE = Refused("AWS.SimpleQueueService.NonExistentQueue", "there is no such queue")


@dataclass(frozen=True)
class Case:
    """So many messages, the answers to each body before it is confirmed, and what limits calls.

    Attributes:
        answers: by body.
        times: of each look at the clock; the last one stays. Calls may begin until second 100.
        stops_at: the run is stopped in the call of this number.
    """

    messages: int
    answers: Mapping[str, Sequence[SendResult]] = field(default_factory=dict)
    is_fifo: bool = False
    spoilt_by: str = ""
    limiter: Callable[[], FakeLimiter] = FakeLimiter
    times: Sequence[float] = (0.0,)
    until_seconds: float = 100.0
    stopped_by: Stop | None = None
    stops_at: int | None = None


CASES: dict[str, Case] = {
    "one call": Case(3),
    "repeats": Case(3, {"1": [THROTTLED, THROTTLED]}),
    "repeats end": Case(1, {"0": [THROTTLED] * 99}),
    "a call for each entry": Case(3, spoilt_by="1"),
    "calls of four": Case(10, limiter=lambda: FakeLimiter(call_messages=4)),
    "calls of a run that is stopped in the second": Case(
        4, limiter=lambda: FakeLimiter(call_messages=1), stops_at=2
    ),
    "a task that is stopped": Case(2, stopped_by=Stop(StopCause.INTERRUPTED)),
    "a run that is stopped in its first call": Case(1, {"0": [THROTTLED] * 9}, stops_at=1),
    "a queue that is gone": Case(1, {"0": [GONE]}),
    "a claim that aged in the wait for the rate": Case(1, limiter=SlowLimiter, until_seconds=90.0),
    "a claim that aged before a pause": Case(1, {"0": [THROTTLED]}, times=(*[99.0] * 3, 100.0)),
    "a refusal for good": Case(1, {"0": [Refused("InvalidMessageContents")]}),
    "a lost answer": Case(1, {"0": [LOST]}),
    # A FIFO queue knows the message, but may have forgotten it after five minutes.
    "FIFO: lost answers": Case(1, {"0": [LOST, LOST]}, is_fifo=True),
    "FIFO: a lost answer, after minutes": Case(
        1, {"0": [LOST] * 5}, is_fifo=True, limiter=SlowLimiter, until_seconds=10_000.0
    ),
    "throttled, for minutes": Case(
        1, {"0": [THROTTLED] * 5}, limiter=SlowLimiter, until_seconds=10_000.0
    ),
    # Unconfirmed stays unconfirmed unless it is confirmed.
    "FIFO: a lost answer, then throttled": Case(1, {"0": [LOST, *[THROTTLED] * 9]}, is_fifo=True),
    "FIFO: a lost answer, then no credentials": Case(
        1, {"0": [LOST, *[Refused("ExpiredToken")] * 9]}, is_fifo=True
    ),
    "FIFO: a lost answer, then not sent": Case(1, {"0": [LOST, *[NotSent()] * 9]}, is_fifo=True),
}


@stored_rows("sends", CASES)
def test_sends_end_as_they_are_stored(name: str) -> None:
    case = CASES[name]
    limiter = case.limiter()
    signals = FakeSignals(case.stopped_by)
    times = [*case.times]
    by_body = {body: [*answers] for body, answers in case.answers.items()}

    def stop(number: int) -> None:
        if number == case.stops_at:
            signals.stop(Stop(StopCause.INTERRUPTED))

    def now() -> float:
        if isinstance(limiter, SlowLimiter):
            return limiter.now
        return times.pop(0) if len(times) > 1 else times[0]

    answers = Answers(by_body=by_body, spoilt_by=case.spoilt_by, at_call=stop)
    queue = limited(answers, signals, limiter, is_fifo=case.is_fifo, now=now)
    queue = replace(queue, until_seconds=case.until_seconds)
    results = queue.send(entries(case.messages))

    assert limiter.in_flight == 0
    if signals.stopped_by:
        assert queue.send(entries(1)) == [NotSent()]
    why = signals.stopped_by.sentence if signals.stopped_by else ""

    lines = []
    for body, result in enumerate(results):
        lines.append(f"{body}: {in_words(result)}")
    lines.append(f"calls: {' | '.join(' '.join(call) for call in answers.calls)}")
    lines.append(f"acquired: {' '.join(map(str, limiter.calls))}")
    lines.append(f"pauses: {' '.join(map(str, signals.pauses))}")
    lines.append(f"stopped by: {why}")

    assert_stored("sends", name, "\n".join(lines))


def in_words(result: SendResult) -> str:
    match result:
        case Confirmed(message_id):
            return f"confirmed: {message_id}"
        case Refused(code, text):
            return f"refused: {code}: {text}" if text else f"refused: {code}"
        case Unconfirmed(cause):
            return f"unconfirmed: {cause}"
        case NotSent():
            return "not sent"


def test_silence_puts_few_more_unconfirmed_than_were_in_flight() -> None:
    """Ten threads, and a queue that takes four calls and says nothing to any other."""
    signals = FakeSignals()
    sender = limited(Answers(at_call=lambda number: GOOD if number <= 4 else LOST), signals)

    with ThreadPoolExecutor(10) as threads:
        calls = threads.map(sender.send, [entries(10)] * 100)
        results = list(itertools.chain.from_iterable(calls))

    assert "messages in a row were not taken" in sentence_of(signals.stopped_by)
    assert results.count(GOOD) == 40
    assert results.count(LOST) <= 10 * 10 + UNANSWERED_MESSAGES
    assert len(results) == 1000


def test_nobody_waits_for_an_answer_to_others_beyond_the_claims_age() -> None:
    limiter = FakeLimiter()
    answers = Answers(by_body={"0": [LOST]})
    queue = limited(answers, limiter=limiter, now=lambda: 100.0)
    queue.errors.stop_after([LOST])

    with queue.errors.one_at_a_time(0):
        assert queue.send(entries(1)) == [NotSent()]
    assert (answers.calls, limiter.calls) == ([], [])


def test_bug_in_each_call_stops_the_run() -> None:
    limiter = FakeLimiter()
    signals = FakeSignals()

    def fail(_: int) -> None:
        raise RuntimeError("a bug")

    breaking = limited(Answers(at_call=fail), signals, limiter)

    results: list[SendResult] = []
    for _ in range(10):
        results += breaking.send(entries(10))

    assert results.count(Unconfirmed("RuntimeError in the call")) == 50
    assert results.count(NotSent()) == 50
    assert limiter.in_flight == 0


@pytest.mark.parametrize(
    ("code", "is_global", "is_again"),
    [
        ("ExpiredToken", True, False),
        ("KMS.DisabledException", True, False),
        ("InvalidMessageContents", False, False),
        ("RequestThrottled", False, True),
        ("KMS.ThrottlingException", False, True),
    ],
)
def test_a_refusal_stops_the_sends_to_the_queue_or_is_transient_or_is_of_one_message(
    code: str, *, is_global: bool, is_again: bool
) -> None:
    stop = GlobalErrorDetector().stop_after([GOOD, Refused(code, f"{code}: so it is")])

    assert stop == (Stop(StopCause.QUEUE, f"{code}: so it is") if is_global else None)
    assert is_transient(Refused(code)) is is_again


SILENCE = [LOST] * (UNANSWERED_MESSAGES - 1)


@pytest.mark.parametrize(
    ("sends", "reason"),
    [
        # It stops the run before all is unconfirmed.
        ([[GOOD, *SILENCE], [LOST]], "50 messages in a row were not taken: ConnectionClosedError"),
        # Any answer breaks it, and what was not tried says nothing.
        ([SILENCE, [Refused("InvalidMessageContents")]] * 10, ""),
        ([[NotSent()] * 1000], ""),
    ],
)
def test_silence_stops_the_run(sends: Sequence[Sequence[SendResult]], reason: str) -> None:
    *before, last = map(GlobalErrorDetector().stop_after, sends)

    assert {*before} <= {None}
    assert last == (Stop(StopCause.NO_ANSWERS, reason) if reason else None)


def silent() -> GlobalErrorDetector:
    detector = GlobalErrorDetector()
    with detector.one_at_a_time(0):
        detector.stop_after([GOOD, LOST])
    return detector


@pytest.mark.parametrize(
    ("results", "is_over"),
    [
        ([GOOD], True),
        ([Refused("InvalidMessageContents")], True),
        ([GOOD, NotSent()], True),
        ([GOOD, LOST], False),
        ([LOST], False),
        ([Refused("RequestThrottled")], False),
        ([NotSent()], False),
    ],
)
def test_an_answer_to_a_later_send_ends_that(results: list[SendResult], is_over: bool) -> None:
    detector = silent()
    with detector.one_at_a_time(0):
        detector.stop_after(results)

    with detector.one_at_a_time(0), detector.one_at_a_time(0) as beside:
        assert beside is is_over


def test_an_answer_to_an_earlier_send_does_not() -> None:
    detector = GlobalErrorDetector()
    with detector.one_at_a_time(0):
        with detector.one_at_a_time(0):
            detector.stop_after([LOST])
        detector.stop_after([GOOD])

    with detector.one_at_a_time(0), detector.one_at_a_time(0) as beside:
        assert not beside


def test_a_send_that_raises_makes_room_for_the_next() -> None:
    detector = silent()
    with pytest.raises(RuntimeError), detector.one_at_a_time(0):
        raise RuntimeError("a bug")

    with detector.one_at_a_time(0) as after:
        assert after
