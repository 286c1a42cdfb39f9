"""Receives messages to look at them, and gives each back. Deletes and sends nothing.

No I/O but through the arguments. Wherever this stops, each message is in its queue: at once if its
visibility was given back, else when its receive times out.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from dlq.archive.messages.dead_letter_schema import Row, to_row
from dlq.aws.receiving import Received, receive
from dlq_replay.aws.sqs import MAX_RECEIVE, SqsQueue
from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.replaying.trial_message import trial_id_of
from dlq_replay.wire.attributes import size_bytes
from dlq_replay.wire.message import Message

HIDDEN_SECONDS = 180
"""Visibility timeout of each receive. What is not given back reappears when it is over."""

RECEIVE_SECONDS = 120
"""No receive begins later. With ``CALL_SECONDS`` it leaves half a minute to give messages back."""

MOST_BYTES = 256 * 1024 * 1024
"""Bodies and attributes that a look holds in memory, about."""

CALL_SECONDS = 15
"""The longest time of a call: 3 s to connect and 10 s to read, once, and a margin.

A handle that is older when the call arrives may act on another reader's receive (SQS API,
ChangeMessageVisibility), so no call begins with less time left."""

WAIT_SECONDS = 1
"""Of a long poll. A short poll asks some of SQS's servers only, and misses small queues."""

EMPTY_POLLS = 3
"""This number of empty answers in a row ends a look. As many calls are in progress at once; on
a FIFO queue, and on one with a redrive policy, it is one."""

RECEIVES_LEFT = 2
"""The look ends at a message with this number of receives left, or fewer, before SQS moves it."""


class End(StrEnum):
    """The cause of the end of a look's receives."""

    EMPTY = "empty"
    LIMIT = "limit"
    SECONDS = "seconds"
    BYTES = "bytes"
    RECEIVE_COUNT = "receive_count"
    INTERRUPTED = "interrupted"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LookRules:
    """The limits of a look.

    Attributes:
        limit: messages to look at, at least 1.
        is_fifo: one receive at a time, each with an attempt id.
        max_receive_count: of the queue's redrive policy, None without one.
    """

    limit: int
    is_fifo: bool = False
    max_receive_count: int | None = None


class Handle(NamedTuple):
    """A receive that has not been given back.

    Attributes:
        hidden_until_seconds: the earliest time at which SQS shows the message by itself, on the
            clock of the look.
    """

    message_id: str
    receipt_handle: str
    hidden_until_seconds: float


@dataclass(slots=True)
class Seen:
    """Result of the receives, and of giving back.

    Attributes:
        rows: a row for each message, by its id.
        handles: the last receive of each, by id; those of test messages of ``dlq doctor``, too.
        size_bytes: bodies and attributes of the rows.
        tests: test messages of ``dlq doctor``, which are not in *rows*.
        faults: why messages could not be read; each reappears by itself.
        end: why the look ended.
        error: SQS's refusal, with ``End.ERROR``; empty otherwise.
        hidden: receives that were not given back; each message reappears by itself.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    handles: dict[str, Handle] = field(default_factory=dict)
    size_bytes: int = 0
    tests: int = 0
    faults: list[str] = field(default_factory=list)
    end: End | None = None
    error: str = ""
    hidden: list[Handle] = field(default_factory=list)


@dataclass(slots=True)
class Receiver:
    """Receives messages, and gives them back.

    Attributes:
        queue: its client tries each call once: a repeated change of visibility might act on another
            reader's receive.
        executor: runs calls of SQS.
        clock_seconds: a clock that never goes back, in seconds.
        now_seconds: the time of day, epoch seconds.
        sleep: waits a number of seconds, before a failed receive is repeated.
        is_stopped: returns whether to receive nothing more.
    """

    queue: SqsQueue
    rules: LookRules
    executor: Executor
    clock_seconds: Callable[[], float]
    now_seconds: Callable[[], float]
    sleep: Callable[[float], object]
    is_stopped: Callable[[], bool] = lambda: False
    seen: Seen = field(default_factory=Seen)
    _empty_polls: int = 0
    _reserved: int = 0
    _until_seconds: float = math.inf

    def run(self) -> Seen:
        """Receive, then give everything back, whatever ended the receives.

        An error of SQS ends them; ``Seen.error`` has it.
        """
        self._until_seconds = self.clock_seconds() + RECEIVE_SECONDS
        try:
            self._receive_all()
        finally:
            self._give_back()
        return self.seen

    def _receive_all(self) -> None:
        # With a redrive policy one by one: the first message near a move must be the last.
        is_one_by_one = self.rules.is_fifo or self.rules.max_receive_count is not None
        calls_at_once = 1 if is_one_by_one else EMPTY_POLLS
        calls: dict[Future[tuple[float, Received | QueueError]], int] = {}
        try:
            while True:
                while len(calls) < calls_at_once and self._wants_more(len(calls)):
                    room = self._room()
                    self._reserved += room
                    calls[self.executor.submit(self._receive, room)] = room
                if not calls:
                    return

                for call in wait(calls, return_when=FIRST_COMPLETED).done:
                    self._reserved -= calls.pop(call)
                    self._take(*call.result())
        finally:
            # After an error or a second Ctrl-C: what these bring must be given back, too.
            for call in calls:
                self._take(*call.result())

    def _wants_more(self, calls: int) -> bool:
        """Return whether to begin a call, beside this number of others; set why not, for good."""
        if self.seen.end is None:
            self.seen.end = self._end()
        # Calls in progress are enough for the last empty answers, and for the last messages.
        is_needed = calls < EMPTY_POLLS - self._empty_polls and self._room() > 0
        return self.seen.end is None and is_needed

    def _end(self) -> End | None:
        """Return why nothing more is to be received; None if more is."""
        if self.is_stopped():
            return End.INTERRUPTED
        if len(self.seen.rows) >= self.rules.limit:
            return End.LIMIT
        if self._empty_polls >= EMPTY_POLLS:
            return End.EMPTY
        if self.seen.size_bytes >= MOST_BYTES:
            return End.BYTES
        if self._seconds_left() <= 0:
            return End.SECONDS
        return None

    def _room(self) -> int:
        """Return how many messages the next call may receive."""
        return min(MAX_RECEIVE, self.rules.limit - len(self.seen.rows) - self._reserved)

    def _seconds_left(self) -> float:
        return self._until_seconds - self.clock_seconds()

    def _receive(self, room: int) -> tuple[float, Received | QueueError]:
        """Return the earliest time at which SQS shows the messages again, and the messages."""
        hidden_until_seconds = self.clock_seconds() + HIDDEN_SECONDS
        received = receive(
            self.queue,
            max_messages=room,
            wait_seconds=WAIT_SECONDS,
            visibility_timeout_seconds=HIDDEN_SECONDS,
            is_fifo=self.rules.is_fifo,
            sleep=self.sleep,
            seconds_left=self._seconds_left,
        )
        return hidden_until_seconds, received

    def _take(self, hidden_until_seconds: float, received: Received | QueueError) -> None:
        if isinstance(received, QueueError):
            self.seen.end = End.ERROR
            self.seen.error = str(received)
            return

        self._empty_polls = 0 if received else self._empty_polls + 1
        for message in received:
            if isinstance(message, MalformedMessageError):
                self.seen.faults.append(str(message))
            else:
                self._add(message, hidden_until_seconds)

    def _add(self, message: Message, hidden_until_seconds: float) -> None:
        message_id = message.message_id
        is_new = message_id not in self.seen.handles
        self.seen.handles[message_id] = Handle(
            message_id, message.receipt_handle, hidden_until_seconds
        )
        if self._is_near_move(message) and self.seen.end is None:
            self.seen.end = End.RECEIVE_COUNT
        if not is_new:
            return

        if trial_id_of(message) is not None:
            self.seen.tests += 1
            return
        try:
            row = to_row(message, self.queue.url, datetime.fromtimestamp(self.now_seconds(), UTC))
        except MalformedMessageError as error:
            self.seen.faults.append(str(error))
            return
        self.seen.rows[message_id] = row
        self.seen.size_bytes += size_bytes(message.body, message.attributes)

    def _is_near_move(self, message: Message) -> bool:
        """Return whether SQS may move the message after few more receives."""
        most = self.rules.max_receive_count
        if most is None:
            return False
        return (message.receive_count or 1) >= most - RECEIVES_LEFT

    def _give_back(self) -> None:
        """Make each message visible again at once, those first that were received first.

        No change is repeated: where its answer was lost, the message may be visible and received by
        another reader already.
        """
        handles = sorted(self.seen.handles.values(), key=lambda handle: handle.hidden_until_seconds)
        starts = range(0, len(handles), MAX_RECEIVE)
        batches = [handles[start : start + MAX_RECEIVE] for start in starts]
        for hidden in self.executor.map(self._show, batches):
            self.seen.hidden += hidden

    def _show(self, handles: Sequence[Handle]) -> Sequence[Handle]:
        """Make up to ten messages visible; return those that SQS did not confirm."""
        late = []
        changes = []
        for handle in handles:
            if handle.hidden_until_seconds - self.clock_seconds() > CALL_SECONDS:
                changes.append((handle, 0))
            else:
                late.append(handle)
        return [*late, *self.queue.change_visibility(changes)]
