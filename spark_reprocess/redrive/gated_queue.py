"""A queue behind the gate: every call asks first, and what SQS could not take now goes again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dlq_replay.message import SendEntry
from dlq_replay.sending import (
    CallResult,
    Confirmed,
    InDoubt,
    NotReached,
    SendResult,
    send_apart_if_spoiled,
)
from spark_reprocess.redrive.refusals import Outlook, is_passing

REPEATS = 5
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_REMEMBERED_SECONDS = 240.0
"""Of the five minutes for which a FIFO queue knows a deduplication id; the rest is for the call."""


class OneCallQueue(Protocol):
    """A queue whose every call can be counted. ``dlq_replay.sqs.SqsQueue`` is one."""

    @property
    def url(self) -> str:
        """Where it is."""

    def send_once(self, entries: Sequence[SendEntry]) -> CallResult:
        """Send with exactly one call; one result each, in order."""


class Gate(Protocol):
    """What a task asks before it sends. Safe to share between threads."""

    @property
    def call_messages(self) -> int:
        """The most messages for one call."""

    @property
    def stopped_by(self) -> str:
        """Why nothing more may be sent by anybody; empty while all is well."""

    def enter(self, messages: int, seconds: float) -> bool:
        """Wait until so many messages may go, *seconds* at most; return whether they may.

        After True the caller sends at once, and calls ``leave`` whatever comes of it.
        """

    def leave(self, messages: int) -> None:
        """Say that a call has ended."""

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than anybody may send."""

    def report(self, counts: Mapping[str, int]) -> None:
        """Say what became of a chunk's messages, by word."""

    def stop(self, why: str) -> None:
        """Stop all tasks: *why* concerns them all. The first reason is the one that counts."""


@dataclass(frozen=True, slots=True)
class GatedQueue:
    """Sends the messages of one chunk. Satisfies ``sending.Queue``.

    Attributes:
        outlook: the task's own; where it says so, the whole run stops.
        until_seconds: when no further call may begin, on the clock of *now_seconds*.
        uniform: draws the pauses: full jitter, at most 5 s.
        is_fifo: SQS removes a repeated send, so an answer that was lost can be asked for again.
    """

    queue: OneCallQueue
    gate: Gate
    outlook: Outlook
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
        with self.outlook.turn(self.until_seconds - self.now_seconds()) as may_go:
            if not may_go:
                return [NotReached()] * len(entries)
            return self._told(lambda: self._send_persistently(entries), len(entries))

    def _told(self, send: Callable[[], Sequence[SendResult]], count: int) -> Sequence[SendResult]:
        """Send, and let the outlook hear of it."""
        try:
            results = send()
        except Exception as error:  # noqa: BLE001 - a bug in one call may be in every other, too
            results = [InDoubt(f"{type(error).__name__} in the call")] * count
        if reason := self.outlook.reason_to_stop(results):
            self.gate.stop(reason)
        return results

    def _send_persistently(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        results: list[SendResult] = []
        asked_at: list[float] = []
        for part in self._parts(entries):
            asked_at += [self.now_seconds()] * len(part)
            results += self._send(part, self.until_seconds)
        return self._repeated(entries, results, asked_at)

    def _repeated(
        self, entries: Sequence[SendEntry], results: list[SendResult], asked_at: list[float]
    ) -> Sequence[SendResult]:
        """Send again what may be.

        On a FIFO queue no repeat begins when SQS may be about to forget the message: a rate can
        make each wait for minutes.
        """
        for repeat in range(REPEATS):
            again = [place for place, one in enumerate(results) if self._may_repeat(one)]
            if not again or self.gate.stopped_by or self.now_seconds() >= self.until_seconds:
                break
            pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**repeat)
            self.gate.pause(self.uniform(0, pause))
            until = self._repeats_until(min(asked_at[place] for place in again))
            parts = self._parts([entries[place] for place in again])
            fresh = [result for part in parts for result in self._send(part, until)]
            for place, result in zip(again, fresh, strict=True):
                results[place] = _later(results[place], result)
        return results

    def _parts(self, entries: Sequence[SendEntry]) -> Iterator[Sequence[SendEntry]]:
        for start in range(0, len(entries), self.gate.call_messages):
            yield entries[start : start + self.gate.call_messages]

    def _may_repeat(self, result: SendResult) -> bool:
        return is_passing(result) or (self.is_fifo and isinstance(result, InDoubt))

    def _repeats_until(self, asked_at: float) -> float:
        if not self.is_fifo:
            return self.until_seconds
        return min(self.until_seconds, asked_at + _REMEMBERED_SECONDS)

    def _send(self, part: Sequence[SendEntry], until: float) -> Sequence[SendResult]:
        return send_apart_if_spoiled(lambda entries: self._call(entries, until), part)

    def _call(self, entries: Sequence[SendEntry], until: float) -> CallResult:
        if not self.gate.enter(len(entries), until - self.now_seconds()):
            return [NotReached()] * len(entries)
        try:
            # The wait may have taken all the time there was, or this machine may have slept.
            if self.now_seconds() >= until:
                return [NotReached()] * len(entries)
            return self.queue.send_once(entries)
        finally:
            self.gate.leave(len(entries))


def _later(before: SendResult, now: SendResult) -> SendResult:
    """What two tries say together. A try in doubt stays so until the message is confirmed."""
    if isinstance(now, NotReached) or (
        isinstance(before, InDoubt) and not isinstance(now, Confirmed)
    ):
        return before
    return now
