"""A queue that keeps to the rate, stops on a signal, and sends again what it may.

A transient refusal is repeated; a global one stops the sends to the queue. ``refusals`` says which
is which.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dlq.archive.ledger.stop import Stop, StopCause
from dlq.redrive.sending.rate_limiter import RateLimiter
from dlq.redrive.sending.stop_signals import LOOK_SECONDS, StopSignals
from dlq_replay.aws.refusals import RefusalKind, refusal_kind
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.replaying.sending import (
    CallResult,
    Confirmed,
    NotSent,
    Refused,
    SendResult,
    Unconfirmed,
    send_each_if_rejected,
)
from dlq_replay.wire.message import SendEntry

UNANSWERED_MESSAGES = 50
"""A run stops after this number in a row that SQS neither took nor refused one by one."""


def is_transient(result: SendResult) -> bool:
    """Return whether SQS refused the message now, but may take the same message in a moment."""
    return isinstance(result, Refused) and refusal_kind(result.code) is RefusalKind.TRANSIENT


class GlobalErrorDetector:
    """Detects errors that are global rather than for one message, in one task. Thread-safe.

    Sends go side by side while SQS answers. After one without an answer they go one at a time,
    until one that began later is answered. So an outage of SQS leaves unconfirmed the messages in
    flight when it began, and few more.
    """

    def __init__(self) -> None:
        """Start in the state in which SQS answers."""
        self._alone = threading.Lock()
        self._counting = threading.Lock()
        self._unanswered_in_a_row = 0
        self._answers = 0
        self._missing_answers = 0
        self._is_serial = False

    @contextmanager
    def one_at_a_time(self, seconds: float) -> Iterator[bool]:
        """Wait until a send may go, *seconds* at most; yield whether it may.

        The caller gives the results to ``stop_after`` before the block ends.
        """
        if not self._is_serial:
            yield True
        elif not self._alone.acquire(timeout=max(0.0, min(seconds, threading.TIMEOUT_MAX))):
            yield False
        else:
            try:
                answers = self._answers
                missing = self._missing_answers
                yield True
                with self._counting:
                    if self._answers > answers and self._missing_answers == missing:
                        self._is_serial = False
            finally:
                self._alone.release()

    def stop_after(self, results: Iterable[SendResult]) -> Stop | None:
        """Count the results of one send; return why sends must stop, None if they need not.

        One refusal that concerns the queue or the caller stops the sends to the queue. 50 messages
        in a row to which SQS had no answer or was busy stop the run: going on would leave the rest
        unconfirmed, too.
        """
        with self._counting:
            return next(filter(None, map(self._stop, results)), None)

    def _stop(self, result: SendResult) -> Stop | None:
        match result:
            case NotSent():
                return None
            case Unconfirmed(cause):
                return self._not_answered(cause)
            case Refused(code, text) if is_transient(result):
                return self._not_answered(text or code)
            case Refused(code, text) if refusal_kind(code) is RefusalKind.GLOBAL:
                return Stop(StopCause.QUEUE, text or code)
        self._answers += 1
        self._unanswered_in_a_row = 0
        return None

    def _not_answered(self, cause: str) -> Stop | None:
        self._is_serial = True
        self._missing_answers += 1
        self._unanswered_in_a_row += 1
        if self._unanswered_in_a_row < UNANSWERED_MESSAGES:
            return None
        in_a_row = f"{self._unanswered_in_a_row} messages in a row were not taken: {cause}"
        return Stop(StopCause.NO_ANSWERS, in_a_row)


REPEATS = 5
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_DEDUPLICATION_SECONDS = 240.0
"""Of the five minutes for which a FIFO queue knows a deduplication id; the rest is for the call."""


@dataclass(frozen=True, slots=True)
class RateLimitedQueue:
    """Sends the messages of one chunk. Satisfies ``sending.WritableQueue``.

    Attributes:
        limiter: the task's own.
        errors: the task's own; where it finds a global error, all tasks of the queue stop.
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
            try:
                results = self._send_persistently(entries)
            except Exception as error:  # noqa: BLE001 - a bug in one call may be in every other, too
                results = [Unconfirmed(f"{type(error).__name__} in the call")] * len(entries)
            if stop := self.errors.stop_after(results):
                self.signals.stop(stop)
            return results

    def _send_persistently(self, entries: Sequence[SendEntry]) -> list[SendResult]:
        """Send, and send again what may be.

        On a FIFO queue no repeat begins when SQS may be about to forget the message: a rate can
        make each wait for minutes.
        """
        results: list[SendResult] = []
        sent_at: list[float] = []
        for part in self._parts(entries):
            sent_at += [self.now_seconds()] * len(part)
            results += self._send(part, self.until_seconds)

        for repeat in range(REPEATS):
            again: list[int] = []
            for place, result in enumerate(results):
                if is_transient(result) or (self.is_fifo and isinstance(result, Unconfirmed)):
                    again.append(place)
            if not again or self.signals.stopped_by or self.now_seconds() >= self.until_seconds:
                break

            pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**repeat)
            self.signals.wait(self.uniform(0, pause))

            until = self.until_seconds
            if self.is_fifo:
                first = min(sent_at[place] for place in again)
                until = min(until, first + _DEDUPLICATION_SECONDS)

            fresh: list[SendResult] = []
            for part in self._parts([entries[place] for place in again]):
                fresh += self._send(part, until)
            for place, result in zip(again, fresh, strict=True):
                results[place] = _both(results[place], result)
        return results

    def _parts(self, entries: Sequence[SendEntry]) -> Iterator[Sequence[SendEntry]]:
        size = self.limiter.call_messages
        for start in range(0, len(entries), size):
            yield entries[start : start + size]

    def _send(self, part: Sequence[SendEntry], until: float) -> Sequence[SendResult]:
        return send_each_if_rejected(lambda entries: self._call(entries, until), part)

    def _call(self, entries: Sequence[SendEntry], until: float) -> CallResult:
        # A wait may take all the time there is, and this machine may sleep.
        while self.signals.may_go_on() and self.now_seconds() < until:
            if (seconds := self.limiter.acquire(len(entries))) <= 0:
                try:
                    return self.queue.send_once(entries)
                finally:
                    self.limiter.release(len(entries))
            self.signals.wait(min(seconds, LOOK_SECONDS))
        return [NotSent()] * len(entries)


def _both(before: SendResult, now: SendResult) -> SendResult:
    """Return the result of two tries. An unconfirmed one stays until the message is confirmed."""
    if isinstance(now, NotSent) or (
        isinstance(before, Unconfirmed) and not isinstance(now, Confirmed)
    ):
        return before
    return now
