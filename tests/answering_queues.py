"""Queues whose every call has a known answer, and what a redrive puts before them."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from dlq_replay.message import SendEntry
from dlq_replay.sending import BatchRejected, CallResult, Confirmed, InDoubt, Refused, SendResult
from spark_reprocess.redrive.rate_limited_queue import GlobalErrorDetector, RateLimitedQueue
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
