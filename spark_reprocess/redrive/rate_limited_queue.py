"""A queue that keeps to the rate, stops on a signal, and sends again what it may."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dlq_replay.message import SendEntry
from dlq_replay.sending import (
    CallResult,
    Confirmed,
    InDoubt,
    NotSent,
    SendResult,
    send_each_if_rejected,
)
from dlq_replay.sqs import SqsQueue
from spark_reprocess.redrive.error_classes import GlobalErrorDetector, is_transient
from spark_reprocess.redrive.rate_limiter import RateLimiter
from spark_reprocess.redrive.stop_signals import StopSignals

REPEATS = 5
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_DEDUPLICATION_SECONDS = 240.0
"""Of the five minutes for which a FIFO queue knows a deduplication id; the rest is for the call."""


@dataclass(frozen=True, slots=True)
class RateLimitedQueue:
    """Sends the messages of one chunk. Satisfies ``sending.Queue``.

    Attributes:
        limiter: the task's own.
        errors: the task's own; where it finds a global error, the whole run stops.
        until_seconds: when no further call may begin, on the clock of *now_seconds*.
        uniform: draws the pauses: full jitter, at most 5 s.
        is_fifo: SQS removes a repeated send, so an answer that was lost can be asked for again.
    """

    queue: SqsQueue
    signals: StopSignals
    limiter: RateLimiter
    errors: GlobalErrorDetector
    until_seconds: float
    now_seconds: Callable[[], float]
    uniform: Callable[[float, float], float]
    is_fifo: bool

    @property
    def url(self) -> str:
        """The queue's own."""
        return self.queue.url

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        """Send; five times more what SQS refuses for the moment. One result each, in order."""
        with self.errors.one_at_a_time(self.until_seconds - self.now_seconds()) as may_go:
            if not may_go:
                return [NotSent()] * len(entries)
            results = self._send_caught(entries)
            if reason := self.errors.reason_to_stop(results):
                self.signals.stop(reason)
            return results

    def _send_caught(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        try:
            return self._send_persistently(entries)
        except Exception as error:  # noqa: BLE001 - a bug in one call may be in every other, too
            return [InDoubt(f"{type(error).__name__} in the call")] * len(entries)

    def _send_persistently(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        results: list[SendResult] = []
        sent_at: list[float] = []
        for part in self._parts(entries):
            sent_at += [self.now_seconds()] * len(part)
            results += self._send(part, self.until_seconds)
        return self._repeated(entries, results, sent_at)

    def _repeated(
        self, entries: Sequence[SendEntry], results: list[SendResult], sent_at: list[float]
    ) -> Sequence[SendResult]:
        """Send again what may be.

        On a FIFO queue no repeat begins when SQS may be about to forget the message: a rate can
        make each wait for minutes.
        """
        for repeat in range(REPEATS):
            again = [place for place, one in enumerate(results) if self._may_repeat(one)]
            if not again or self.signals.stopped_by or self.now_seconds() >= self.until_seconds:
                break
            pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**repeat)
            self.signals.wait(self.uniform(0, pause))
            until = self._repeats_until(min(sent_at[place] for place in again))
            parts = self._parts([entries[place] for place in again])
            fresh = [result for part in parts for result in self._send(part, until)]
            for place, result in zip(again, fresh, strict=True):
                results[place] = _both(results[place], result)
        return results

    def _parts(self, entries: Sequence[SendEntry]) -> Iterator[Sequence[SendEntry]]:
        for start in range(0, len(entries), self.limiter.call_messages):
            yield entries[start : start + self.limiter.call_messages]

    def _may_repeat(self, result: SendResult) -> bool:
        return is_transient(result) or (self.is_fifo and isinstance(result, InDoubt))

    def _repeats_until(self, sent_at: float) -> float:
        if not self.is_fifo:
            return self.until_seconds
        return min(self.until_seconds, sent_at + _DEDUPLICATION_SECONDS)

    def _send(self, part: Sequence[SendEntry], until: float) -> Sequence[SendResult]:
        return send_each_if_rejected(lambda entries: self._call(entries, until), part)

    def _call(self, entries: Sequence[SendEntry], until: float) -> CallResult:
        def may_begin() -> bool:
            return self.signals.may_go_on() and self.now_seconds() < until

        if not self.limiter.acquire(len(entries), may_begin):
            return [NotSent()] * len(entries)
        try:
            # The wait may have taken all the time there was, or this machine may have slept.
            return self.queue.send_once(entries) if may_begin() else [NotSent()] * len(entries)
        finally:
            self.limiter.release(len(entries))


def _both(before: SendResult, now: SendResult) -> SendResult:
    """What two tries say together. A try in doubt stays so until the message is confirmed."""
    if isinstance(now, NotSent) or (isinstance(before, InDoubt) and not isinstance(now, Confirmed)):
        return before
    return now
