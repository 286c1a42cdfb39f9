"""Keeps received messages invisible during the work. Needs a client like boto3's SQS client.

On a standard queue SQS answers an extension that comes too late with success, and does nothing
(https://github.com/localstack/localstack/pull/9632, recorded from AWS). So a success alone proves
nothing: an extension counts only if its answer came before the end of the last confirmed timeout.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict, Unpack

from dlq_replay.addresses import QueueAddress
from dlq_replay.consumer.errors import VisibilityLimitError, VisibilityLostError
from dlq_replay.consumer.identity import Received, message_id_of, receipt_handle_of
from dlq_replay.consumer.record_handlers import Handler, within
from dlq_replay.errors import MalformedMessageError, QueueError, SettingsError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

LIMIT_SECONDS = 43_200
"""SQS hides a message for at most 12 hours after its receive, extensions included.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
"""

_LIMIT_RESERVE_SECONDS = 5
"""Subtracted from the 12 hours, which start when SQS sends the message, not when it arrives."""

_LIMIT_NOTICE_SECONDS = 5
"""How much earlier the end of the 12 hours is reported, while the message is still hidden."""

_MAX_CHANGES = 10
"""The most entries in one call."""

_MAX_INTERVAL_SHARE = 0.5
_RETRY_SHARE_OF_TIME_LEFT = 0.25
_RETRIES_PER_INTERVAL = 60

_EARLY_SHARE_OF_INTERVAL = 0.1
"""Messages that are due this soon are extended too, so that a batch stays in one call."""

_TICKS_PER_INTERVAL = 4
"""Ticks between extensions detect that the machine was suspended. They send no request."""

_AFTER_BUG_SECONDS = 1.0

_LATE = "its visibility timeout may have ended before it was extended"
_REFUSED = "SQS refused to extend it: deleted, or received again by another consumer"
_LIMIT = "SQS does not hide it any longer: 12 hours since its receive have passed"

# With these codes the receipt handle is no longer valid for the message. After any other error
# (throttling, a denied call, a broken connection) the next try may succeed.
_GONE = frozenset({"InvalidParameterValue", "ReceiptHandleIsInvalid", "MessageNotInflight"})

_logger = logging.getLogger(__name__)

OnLost = Callable[[VisibilityLostError], None]
"""Called once for each lost message, in the heartbeat's thread. It must return quickly."""


@dataclass(frozen=True, slots=True)
class HeartbeatConfig:
    """The settings of a heartbeat.

    Attributes:
        timeout_seconds: the visibility timeout that each extension sets, 1 to 43,200. A message
            stays hidden for this time after its worker crashed.
        interval_seconds: between two extensions of a message, at most half of the timeout, so
            that the other half is left for retries.
        received_timeout_seconds: the visibility timeout of the receive, 0 to 43,200: the queue's,
            unless the receive requested another.

    Raises:
        SettingsError: numbers are out of range. It lists all of them.
    """

    timeout_seconds: int = 120
    interval_seconds: float = 60.0
    received_timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        faults = []
        if type(self.timeout_seconds) is not int or not 1 <= self.timeout_seconds <= LIMIT_SECONDS:
            rule = f"must be a whole number from 1 to {LIMIT_SECONDS}"
            faults.append(f"timeout_seconds: {self.timeout_seconds!r} {rule}")
        elif not 0 < self.interval_seconds <= self.timeout_seconds * _MAX_INTERVAL_SHARE:
            rule = "must be above 0 and at most half of timeout_seconds"
            faults.append(f"interval_seconds: {self.interval_seconds!r} {rule}")
        if not 0 <= self.received_timeout_seconds <= LIMIT_SECONDS:
            rule = f"must be from 0 to {LIMIT_SECONDS}"
            faults.append(f"received_timeout_seconds: {self.received_timeout_seconds!r} {rule}")
        if faults:
            raise SettingsError(faults)


class AwakeClock:
    """A monotonic clock that includes the time in which the machine was suspended.

    ``time.monotonic`` stops while a Linux machine is suspended; SQS's timeouts do not stop. This
    clock follows ``time.monotonic`` and advances whenever the time of day advanced further. If the
    time of day is set forward, that counts as passed time: at worst a message is reported as lost
    that was not. If it is set back, nothing changes.

    Args:
        monotonic: returns seconds since any origin; never decreases.
        time_of_day: returns seconds since the epoch.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], float] = time.time,
    ) -> None:
        self._monotonic = monotonic
        self._time_of_day = time_of_day
        self._offset = time_of_day() - monotonic()
        self._ahead = 0.0

    def __call__(self) -> float:
        """Return seconds since any origin. Thread-safe."""
        monotonic = self._monotonic()
        self._ahead = max(self._ahead, self._time_of_day() - monotonic - self._offset)
        return monotonic + self._ahead


class Ticker:
    """Calls a function repeatedly in a daemon thread. The function returns the next pause.

    The thread ends at ``stop``, or when the thread that called ``start`` ends.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_woken = False
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def start(self, tick: Callable[[], float]) -> None:
        """Start the thread. The first call follows at once."""
        arguments = (tick, threading.current_thread())
        thread = threading.Thread(
            target=self._run, args=arguments, name="sqs-heartbeat", daemon=True
        )
        thread.start()
        self._thread = thread

    def wake(self) -> None:
        """End the current pause, so that the function is called now."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Stop. Wait for a call in progress, unless this is the thread of that call."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self, tick: Callable[[], float], owner: threading.Thread) -> None:
        while not self._is_stopped and owner.is_alive():
            try:
                pause_seconds = tick()
            except Exception:
                # If the thread ended, every timeout would end too, without any notice.
                _logger.exception("the heartbeat failed; it continues")
                pause_seconds = _AFTER_BUG_SECONDS
            with self._changed:
                self._changed.wait_for(lambda: self._is_woken or self._is_stopped, pause_seconds)
                self._is_woken = False


@dataclass(slots=True, eq=False)
class _Receive:
    """One receive of one message. Times are seconds on the heartbeat's clock. No I/O.

    Attributes:
        hidden_until: until then no other consumer receives the message. Counted from the moment
            when the last confirmed extension was sent; at the 12-hour limit a little less.
        extend_at: when to extend it next; infinite when the limit is reached.
        limit_at: SQS's 12 hours, less a reserve.
        is_done: the work is finished. The message is still extended, but its loss is not reported.
        loss: why the message is lost; empty if it is not lost. Never reset.
        code: SQS's last error code; may be empty.
    """

    message_id: str
    receipt_handle: str
    config: HeartbeatConfig
    hidden_until: float
    extend_at: float
    limit_at: float
    is_done: bool = False
    loss: str = ""
    code: str = ""

    def loss_at(self, now: float) -> str:
        """Return why the message may be visible again; empty while it is certainly hidden."""
        if self.loss or now < self.hidden_until:
            return self.loss
        return _LIMIT if self.extend_at == inf else _LATE

    def error_at(self, now: float) -> VisibilityLostError | None:
        """Return the error that ``check`` raises; None while the message is certainly hidden."""
        loss = self.loss_at(now)
        if not loss:
            return None
        kind = VisibilityLimitError if loss == _LIMIT else VisibilityLostError
        return kind(self.message_id, f"{loss} ({self.code})" if self.code else loss)

    def timeout_to_ask(self, now: float) -> int:
        """Return the timeout to request, in seconds; 0 if it is too late or would not help."""
        seconds = min(self.config.timeout_seconds, int(self.limit_at - now))
        return 0 if self.loss_at(now) else max(seconds, 0)

    def confirm(self, sent_at: float, timeout_seconds: int, answered_at: float) -> None:
        """Note that SQS confirmed an extension. An answer that came too late does not count."""
        self.loss = self.loss_at(answered_at)
        if self.loss:
            return
        self.code = ""
        self.hidden_until = sent_at + timeout_seconds
        self.extend_at = sent_at + self.config.interval_seconds
        if self.hidden_until > self.limit_at - 1:
            self.hidden_until -= _LIMIT_NOTICE_SECONDS
            self.extend_at = inf

    def fail(self, sent_at: float, timeout_seconds: int, answered_at: float, code: str) -> None:
        """Note an extension without confirmation: SQS may have carried it out or not.

        The earlier of the two possible ends counts: if the timeout of the receive is longer than
        that of an extension, the extension may have moved the end forward. The next try follows
        after a quarter of the time left. With the defaults that is after 15 s, then after shorter
        and shorter waits of at least 1 s, about 14 tries in all.
        """
        self.code = code
        self.hidden_until = min(self.hidden_until, sent_at + timeout_seconds)
        left_seconds = self.hidden_until - answered_at
        shortest = self.config.interval_seconds / _RETRIES_PER_INTERVAL
        self.extend_at = answered_at + max(left_seconds * _RETRY_SHARE_OF_TIME_LEFT, shortest)
        self.loss = self.loss_at(answered_at)

    def refuse(self, code: str) -> None:
        """Note that SQS rejected the receipt handle."""
        self.loss, self.code = _REFUSED, code


class _Answer(NamedTuple):
    """The result of an extension for one message.

    Attributes:
        code: SQS's error code, or the name of the exception; empty if SQS confirmed. Never the
            text of the error, which quotes receipt handles.
        is_refused: the receipt handle is no longer valid; a retry cannot succeed.
    """

    code: str = ""
    is_refused: bool = False


class HeartbeatOptions(TypedDict, total=False):
    """The keyword arguments of ``Heartbeat``; see there."""

    config: HeartbeatConfig | None
    received_seconds_ago: float
    on_lost: OnLost | None
    now: Callable[[], float] | None
    ticker: Ticker | None


class Heartbeat:
    """A context manager that keeps messages hidden while its block runs.

    On entry the visibility timeout of every message is set to ``timeout_seconds``, even if the
    queue's is longer, so that a message comes back soon after a crash. Then the timeouts are
    extended regularly, ten messages in a call. After the block nothing is extended. If the block
    ends without an exception, the messages are left as they are, for the caller to delete. If an
    exception leaves the block, those that are not ``done`` become visible at once. The exit waits
    for a call in progress, so give the client short timeouts (``dlq_replay.sqs.client_config``).

    A message is *lost* when another consumer may have it: no extension was confirmed in time, SQS
    refused one (the message was deleted, or received again), or its 12 hours have passed. A loss is
    final for that receive and does not affect other messages. It raises nothing by itself;
    ``check``, ``is_safe`` and *on_lost* report it.

    Give a redrive's canary the longest time that a message may stay hidden:
    ``--consumer-max-seconds``.

    May be used by the thread that entered it and by the threads that it started.

    Args:
        client: a boto3 SQS client.
        queue_url: the queue of the messages.
        messages: core Messages, ReceiveMessage dicts or Lambda records; any number.
        config: timeout and interval, and the queue's visibility timeout.
        received_seconds_ago: how long before this call the messages were received.
        on_lost: called once for each lost message.
        now: returns seconds on a clock that never goes back.
        ticker: calls the heartbeat at the right times; for one block only.

    Raises:
        MalformedMessageError: a message has no id or no receipt handle.
    """

    def __init__(  # noqa: PLR0913 - the last two are for tests
        self,
        client: "SQSClient",
        queue_url: str,
        messages: Sequence[Received],
        *,
        config: HeartbeatConfig | None = None,
        received_seconds_ago: float = 0.0,
        on_lost: OnLost | None = None,
        now: Callable[[], float] | None = None,
        ticker: Ticker | None = None,
    ) -> None:
        self._client = client
        self._queue_url = queue_url
        self._config = config or HeartbeatConfig()
        self._on_lost = on_lost
        self._now = now or AwakeClock()
        self._ticker = ticker or Ticker()
        self._is_over = False
        self._lock = threading.Lock()  # guards the next two; not held during a call
        self._receives: dict[str, _Receive] = {}  # by message id: only the latest receive counts
        self._unreported: list[VisibilityLostError] = []
        # One call at a time, so that an extension in progress cannot hide a message again that was
        # given up.
        self._calling = threading.Lock()
        received_at = self._now() - received_seconds_ago
        for received in messages:
            message_id, handle = message_id_of(received), receipt_handle_of(received)
            if message_id is None or handle is None:
                rule = "must be text, as SQS gave it"
                raise MalformedMessageError(f"message id and receipt handle: {rule}")
            self._add(message_id, handle, received_at)

    @classmethod
    def for_messages(
        cls,
        client: "SQSClient",
        queue_url: str,
        messages: Sequence[Received],
        **options: Unpack[HeartbeatOptions],
    ) -> Self:
        """For a poller: the messages that ``receive_message`` or ``SqsQueue.receive`` returned."""
        return cls(client, queue_url, messages, **options)

    @classmethod
    def for_records(
        cls,
        client: "SQSClient",
        records: Sequence[Mapping[str, Any]],
        queue_url: str | None = None,
        **options: Unpack[HeartbeatOptions],
    ) -> Self:
        """For a Lambda handler: the records of an event, plain or Powertools'.

        Without *queue_url*, one GetQueueUrl call per heartbeat finds it by the records'
        ``eventSourceARN``; that needs ``sqs:GetQueueUrl``.

        Raises:
            MalformedMessageError: the records name no queue, or several.
            QueueError: GetQueueUrl failed.
        """
        if queue_url is None:
            queue_url = _queue_url_of(client, records) if records else ""
        return cls(client, queue_url, records, **options)

    def __enter__(self) -> Self:
        if self._is_over:
            raise RuntimeError("a heartbeat is for one block; make another for the next block")
        if self._receives:
            self._tick()
            self._ticker.start(self._tick)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over = True
        self._ticker.stop()
        if error is not None:
            self.give_up()

    def is_safe(self, message_id: str) -> bool:
        """Return whether the message is certainly still hidden.

        Also False for one that is not watched: unknown, done or given up.
        """
        return self.seconds_left(message_id) > 0

    def seconds_left(self, message_id: str) -> float:
        """Return how long the message would certainly stay hidden without another extension.

        0 if it is lost or not watched. Less than the interval only while extensions fail.
        """
        with self._lock:
            now = self._now()
            receive = self._watched(message_id)
            if receive is None or receive.loss_at(now):
                return 0.0
            return receive.hidden_until - now

    def check(self, message_id: str | None = None) -> None:
        """Raise if the message is lost; without an id, if any watched message is lost.

        Call this before each effect that must not happen twice.

        Raises:
            VisibilityLostError: stop the work on the message, and do not delete it.
            VisibilityLimitError: the same; its 12 hours have passed.
            KeyError: the message is not watched: unknown, done or given up.
        """
        with self._lock:
            now = self._now()
            for one in [message_id] if message_id is not None else self._watched_ids():
                receive = self._watched(one)
                if receive is None:
                    raise KeyError(message_id)
                if error := receive.error_at(now):
                    raise error

    def done(self, message_id: str) -> None:
        """Note that the work on this message is finished; the caller, or Lambda, deletes it.

        The message stays hidden until it is deleted or the block ends.
        """
        with self._lock:
            if receive := self._watched(message_id):
                receive.is_done = True

    def guarded(self, handler: Handler) -> Handler:
        """Wrap the handler of one record, synchronous or async, for a batch processor.

        Before the handler starts, ``check`` raises if the message is lost. When the handler
        returns, the message is ``done``. An exception of the handler passes through; the message
        stays hidden until ``give_up``.
        """
        return within(handler, self._guarding)

    @contextmanager
    def _guarding(self, record: object) -> Iterator[None]:
        message_id = message_id_of(record) or ""
        self.check(message_id)
        yield
        self.done(message_id)

    def give_up(self, *message_ids: str) -> bool:
        """Make messages visible at once, ten in a call, and stop extending them.

        Waits for a call in progress, which would hide them again. Lost messages are not changed.

        Args:
            message_ids: none means all that are not done.

        Returns:
            Whether SQS confirmed it for all of them; False also if one is lost or not watched. A
            message that SQS did not confirm is visible again when its timeout ends.
        """
        with self._calling:
            with self._lock:
                asked = message_ids or self._watched_ids()
                watched = [self._receives.pop(one) for one in asked if self._watched(one)]
                now = self._now()
                held = [one for one in watched if not one.loss_at(now)]
            unconfirmed = []
            for part in _parts(held):
                answers = self._change([(one.receipt_handle, 0) for one in part])
                unconfirmed += [
                    (one.message_id, answer.code)
                    for one, answer in zip(part, answers, strict=True)
                    if answer.code
                ]
        _log_unconfirmed("not released", unconfirmed)
        return len(held) == len(asked) and not unconfirmed

    def replace_receipt(
        self, message_id: str, receipt_handle: str, received_seconds_ago: float = 0.0
    ) -> bool:
        """Continue with a later receive of the same message: only the latest handle is valid.

        The message is extended at once and has a new limit of 12 hours, even if it was lost before.

        Returns:
            Whether the message is watched. If not (it is done or given up), the caller has to treat
            the receive as a new message.
        """
        with self._lock:
            if self._watched(message_id) is None:
                return False
            self._add(message_id, receipt_handle, self._now() - received_seconds_ago)
        self._ticker.wake()
        return True

    def _tick(self) -> float:
        """Extend what is due and report losses; return the seconds until the next call."""
        with self._lock:
            horizon = self._now() + self._config.interval_seconds * _EARLY_SHARE_OF_INTERVAL
            due = [one for one in self._hidden() if one.extend_at <= horizon]
        for part in _parts(sorted(due, key=lambda one: one.hidden_until)):
            if not self._is_over:
                self._extend(part)
        with self._lock:
            now = self._now()
            for receive in self._hidden():
                receive.loss = receive.loss_at(now)
                self._note_loss(receive, now)
            lost, self._unreported = self._unreported, []
            pause_seconds = self._seconds_to_next_tick(now)
        for error in lost:
            self._report(error)
        return pause_seconds

    def _extend(self, due: Sequence[_Receive]) -> None:
        with self._calling:
            with self._lock:
                sent_at = self._now()
                asked = [
                    (one, seconds)
                    for one in due
                    if self._is_current(one) and (seconds := one.timeout_to_ask(sent_at))
                ]
            if not asked:
                return
            answers = self._change([(one.receipt_handle, seconds) for one, seconds in asked])
            unconfirmed = []
            with self._lock:
                answered_at = self._now()
                for (receive, seconds), answer in zip(asked, answers, strict=True):
                    if answer.is_refused:
                        receive.refuse(answer.code)
                    elif answer.code:
                        receive.fail(sent_at, seconds, answered_at, answer.code)
                    else:
                        receive.confirm(sent_at, seconds, answered_at)
                    self._note_loss(receive, answered_at)
                    # Not logged: a finished message is deleted, so SQS refuses its next extension.
                    is_watched = self._watched(receive.message_id) is not None
                    if answer.code and (is_watched or not answer.is_refused):
                        unconfirmed.append((receive.message_id, answer.code))
        _log_unconfirmed("not extended", unconfirmed)

    def _change(self, changes: Sequence[tuple[str, int]]) -> list[_Answer]:
        """Change the visibility timeouts of up to 10 messages: pairs of receipt handle and seconds.

        Returns one answer each, in order. Never raises an ``Exception`` of the client.
        """
        entries: list[Any] = [
            {"Id": str(index), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
            for index, (handle, seconds) in enumerate(changes)
        ]
        try:
            answer: Mapping[str, Any] = self._client.change_message_visibility_batch(
                QueueUrl=self._queue_url, Entries=entries
            )
        except Exception as error:  # noqa: BLE001 - after any error a later try follows
            return [_Answer(_error_code(error))] * len(entries)
        answers = {entry["Id"]: _Answer() for entry in answer.get("Successful", [])}
        for entry in answer.get("Failed", []):
            code = _plain(str(entry.get("Code", "Unknown")))
            answers.setdefault(entry["Id"], _Answer(code, is_refused=code in _GONE))
        return [answers.get(entry["Id"], _Answer("NotInAnswer")) for entry in entries]

    def _add(self, message_id: str, receipt_handle: str, received_at: float) -> None:
        limit_at = received_at + LIMIT_SECONDS - _LIMIT_RESERVE_SECONDS
        hidden_until = received_at + self._config.received_timeout_seconds
        self._receives[message_id] = _Receive(
            message_id,
            receipt_handle,
            self._config,
            hidden_until=min(hidden_until, limit_at),
            extend_at=received_at,
            limit_at=limit_at,
        )

    def _watched(self, message_id: str) -> _Receive | None:
        receive = self._receives.get(message_id)
        return receive if receive and not receive.is_done else None

    def _watched_ids(self) -> list[str]:
        return [one.message_id for one in self._receives.values() if not one.is_done]

    def _is_current(self, receive: _Receive) -> bool:
        """Return whether it was neither given up nor replaced by a later receive."""
        return self._receives.get(receive.message_id) is receive

    def _hidden(self) -> list[_Receive]:
        """Return all receives that are not lost, done or not."""
        return [one for one in self._receives.values() if not one.loss]

    def _note_loss(self, receive: _Receive, now: float) -> None:
        """Keep a loss for the report, unless the message was done or received again."""
        error = receive.error_at(now)
        if error and not receive.is_done and self._is_current(receive):
            self._unreported.append(error)

    def _seconds_to_next_tick(self, now: float) -> float:
        longest = self._config.interval_seconds / _TICKS_PER_INTERVAL
        moments = (min(one.extend_at, one.hidden_until) for one in self._hidden())
        next_at = min(moments, default=inf)
        return max(0.0, min(next_at - now, longest))

    def _report(self, error: VisibilityLostError) -> None:
        _logger.warning("visibility lost: %s", error)
        if self._on_lost is None:
            return
        try:
            self._on_lost(error)
        except Exception:
            _logger.exception("on_lost failed for message %s", error.message_id)


def _parts(receives: Sequence[_Receive]) -> Iterator[Sequence[_Receive]]:
    for start in range(0, len(receives), _MAX_CHANGES):
        yield receives[start : start + _MAX_CHANGES]


def _log_unconfirmed(text: str, codes: Sequence[tuple[str, str]]) -> None:
    """Log the ids of messages that SQS did not confirm: one warning per error code."""
    by_code: dict[str, list[str]] = {}
    for message_id, code in codes:
        by_code.setdefault(code, []).append(message_id)
    for code, ids in by_code.items():
        _logger.warning("%s: %s: %s", text, code, ", ".join(ids))


def _error_code(error: Exception) -> str:
    """Return the error code of a ClientError, or the name of any other exception."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        return _plain(str(response.get("Error", {}).get("Code", "Unknown")))
    return type(error).__name__


def _plain(code: str) -> str:
    """Return the code without the prefix ``AWS.SimpleQueueService.``."""
    return code.rpartition(".")[2]


def _queue_url_of(client: "SQSClient", records: Sequence[Mapping[str, Any]]) -> str:
    """Return the URL of the queue that a Lambda event's records came from."""
    arns = {str(record.get("eventSourceARN")) for record in records}
    try:
        (address,) = {QueueAddress.from_arn(arn) for arn in arns}
    except ValueError as error:
        raise MalformedMessageError(
            "eventSourceARN: must be one queue's, on every record"
        ) from error
    try:
        answer = client.get_queue_url(
            QueueName=address.name, QueueOwnerAWSAccountId=address.account_id
        )
    except Exception as error:
        raise QueueError(f"asking for the URL of {address.name}: {_error_code(error)}") from error
    return answer["QueueUrl"]
