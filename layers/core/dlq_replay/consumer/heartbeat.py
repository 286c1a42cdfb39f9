"""Keeps received messages hidden during the work. Needs a client like boto3's SQS client.

On a standard queue SQS answers an extension that comes too late with success, and does nothing
(https://github.com/localstack/localstack/pull/9632, recorded from AWS). So an extension counts only
if its answer came before the end of the last confirmed timeout.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction
from math import inf
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from dlq_replay.consumer.identity import Received, message_id_of, text_of
from dlq_replay.errors import (
    MalformedMessageError,
    SettingsError,
    VisibilityLimitError,
    VisibilityLostError,
)
from dlq_replay.retry import awake_seconds

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

Handler = TypeVar("Handler", bound=Callable[..., Any])

LIMIT_SECONDS = 43_200
"""SQS hides a message for at most 12 hours after its receive, extensions included.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
"""

_RESERVE_SECONDS = 5
"""Subtracted from the 12 hours, which start when SQS sends the message, not when it arrives; and
once more, so that their end is reported while the message is still hidden."""

_LATE = "its visibility timeout may have ended before it was extended"
_REFUSED = "SQS refused to extend it: deleted, or received again by another consumer"
_LIMIT = "SQS does not hide it any longer: 12 hours since its receive have passed"

# With these codes the receipt handle is no longer valid for the message. After any other error
# (throttling, a denied call, a broken connection) the next try may succeed.
_GONE = frozenset({"InvalidParameterValue", "ReceiptHandleIsInvalid", "MessageNotInflight"})

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Receive:
    """One receive of one message. Times are seconds on the heartbeat's clock.

    Attributes:
        limit_at: when SQS stops hiding it.
        hidden_until: until then no other consumer receives it.
        extend_at: when to extend it next; infinite after the last extension.
        is_done: the work is finished. It is still extended, but its loss is not reported.
        loss: why the message is lost; empty if it is not. Never reset.
        code: the last error code; empty if the last extension was confirmed.
    """

    message_id: str
    receipt_handle: str
    limit_at: float
    hidden_until: float
    extend_at: float
    is_done: bool = False
    loss: str = ""
    code: str = ""

    def is_lost_at(self, now: float) -> bool:
        """Return whether the message may be visible again. If so, keep why."""
        if not self.loss and now >= self.hidden_until:
            self.loss = _LATE if self.extend_at < inf else _LIMIT
        return bool(self.loss)

    def error(self) -> VisibilityLostError:
        kind = VisibilityLimitError if self.loss == _LIMIT else VisibilityLostError
        return kind(self.message_id, f"{self.loss} ({self.code})" if self.code else self.loss)

    def note(self, sent_at: float, asked_seconds: int, answered_at: float, code: str) -> None:
        """Note the answer to an extension; *code* is empty if SQS confirmed it.

        Without a confirmation SQS may have carried it out or not, so the earlier of the two
        possible ends counts.
        """
        self.code = code
        end = min(sent_at + asked_seconds, self.limit_at - _RESERVE_SECONDS)
        if code in _GONE:
            self.loss = _REFUSED
        elif code:
            self.hidden_until = min(self.hidden_until, end)
        elif not self.is_lost_at(answered_at):
            self.hidden_until = end
            is_last = end < sent_at + asked_seconds
            self.extend_at = inf if is_last else sent_at + asked_seconds / 2


class Heartbeat:
    """A context manager that keeps messages hidden while its block runs.

    On entry the visibility timeout of every message is set to *timeout_seconds*, even if the
    queue's is longer, so that a message comes back soon after a crash. Then each is extended after
    half of the timeout, ten messages in a call; what SQS does not confirm is tried again every
    eighth of the timeout. If an exception leaves the block, ``give_up`` is called; else the caller
    deletes the messages. The exit waits for a call in progress, so give the client short timeouts
    (``dlq_replay.aws.sqs.client_config``).

    A message is *lost* when another consumer may have it: no extension was confirmed in time, SQS
    refused one (the message was deleted, or received again), or its 12 hours have passed. A loss is
    final for that receive. It raises nothing by itself: ``check`` raises, and each loss is logged.

    May be used by the thread that entered it and by the threads that it started; for one block.

    Args:
        client, queue_url: a boto3 SQS client and the queue.
        messages: core Messages, ReceiveMessage dicts or Lambda records; any number.
        timeout_seconds: the visibility timeout that each extension sets, 1 to 43,200.
        received_timeout_seconds: the visibility timeout of the receive, 0 to 43,200: the queue's,
            unless the receive requested another.
        received_seconds_ago: how long before this call the messages were received.
        now: returns seconds on a clock that never goes back.
        has_thread: False where the caller calls ``tick`` itself, as tests do.

    Raises:
        SettingsError: a number is out of range.
        MalformedMessageError: a message has no id or no receipt handle.
    """

    def __init__(  # noqa: PLR0913 - the last two are for tests
        self,
        client: "SQSClient",
        queue_url: str,
        messages: Sequence[Received],
        *,
        timeout_seconds: int = 120,
        received_timeout_seconds: float = 30.0,
        received_seconds_ago: float = 0.0,
        now: Callable[[], float] = awake_seconds,
        has_thread: bool = True,
    ) -> None:
        is_in_range = 1 <= timeout_seconds <= LIMIT_SECONDS
        if not (is_in_range and 0 <= received_timeout_seconds <= LIMIT_SECONDS):
            rule = f"timeout_seconds from 1, received_timeout_seconds from 0, to {LIMIT_SECONDS}"
            raise SettingsError([f"{rule}: not {timeout_seconds}, {received_timeout_seconds}"])
        self._client, self._queue_url = client, queue_url
        self._timeout_seconds = timeout_seconds
        self._received_timeout_seconds = received_timeout_seconds
        # More often than messages are due: after a suspension of the machine some may be late.
        self.tick_seconds = min(timeout_seconds / 8, max(1.0, received_timeout_seconds / 4))
        self._now, self._has_thread = now, has_thread
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()
        self._receives: dict[str, _Receive] = {}  # by message id: only the latest receive counts
        # One call at a time, so that an extension in progress cannot hide a message again that was
        # given up. The work never waits for this lock to ask whether a message is lost.
        self._calling = threading.Lock()
        for received in messages:
            message_id = message_id_of(received)
            handle = text_of(received, "receiptHandle", "ReceiptHandle", "receipt_handle")
            if message_id is None or handle is None:
                rule = "must be text, as SQS gave it"
                raise MalformedMessageError(f"message id and receipt handle: {rule}")
            self._add(message_id, handle, received_seconds_ago)

    def __enter__(self) -> Self:
        if self._is_over.is_set():
            raise RuntimeError("a heartbeat is for one block; make another for the next block")
        if self._receives:
            self.tick()
            if self._has_thread:
                owner = threading.current_thread()
                self._thread = threading.Thread(
                    target=self._beat, args=(owner,), name="sqs-heartbeat", daemon=True
                )
                self._thread.start()
        return self

    def _beat(self, owner: threading.Thread) -> None:
        """Call ``tick`` until the block ends, or the thread that entered it."""
        while not self._is_over.wait(self.tick_seconds) and owner.is_alive():
            self.tick()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        if kind is not None:
            self.give_up()

    def check(self, message_id: str | None = None) -> None:
        """Raise if the message is lost; without an id, if any message is lost that is not done.

        Call this before each effect that must not happen twice.

        Raises:
            VisibilityLostError: stop the work on the message, and do not delete it.
            KeyError: the message is unknown, done or given up.
        """
        now = self._now()
        watched = {key: one for key, one in list(self._receives.items()) if not one.is_done}
        for receive in watched.values() if message_id is None else [watched[message_id]]:
            if receive.is_lost_at(now):
                raise receive.error()

    def done(self, message_id: str) -> None:
        """Note that the work is finished: the message stays hidden until the block ends."""
        if receive := self._receives.get(message_id):
            receive.is_done = True

    def guarded(self, handler: Handler) -> Handler:
        """Wrap the handler of one record, synchronous or async, for a batch processor.

        The record is the argument named ``record``, as Powertools passes it, or else the first.
        Before the handler starts, ``check`` raises if the message is lost. When the handler
        returns, the message is ``done``.
        """

        @contextmanager
        def guarding(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[None]:
            record = kwargs["record"] if "record" in kwargs else next(iter(args), None)
            message_id = message_id_of(record) or ""
            self.check(message_id)
            yield
            self.done(message_id)

        @wraps(handler)
        def handle(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the handler's own
            with guarding(args, kwargs):
                return handler(*args, **kwargs)

        @wraps(handler)
        async def handle_async(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the handler's own
            with guarding(args, kwargs):
                return await handler(*args, **kwargs)

        return cast("Handler", handle_async if iscoroutinefunction(handler) else handle)

    def give_up(self) -> None:
        """Make all messages that are not done visible at once, and stop extending them.

        Waits for a call in progress, which would hide them again. Lost messages are not changed:
        another consumer may have them. A message that SQS does not confirm is named in a warning;
        it is visible again when its timeout ends.
        """
        with self._calling:
            now = self._now()
            left = [receive for receive in self._receives.values() if not receive.is_done]
            for receive in left:
                del self._receives[receive.message_id]
            for part in _parts([receive for receive in left if not receive.is_lost_at(now)]):
                self._change("released", dict.fromkeys(part, 0))

    def replace_receipt(
        self, message_id: str, receipt_handle: str, received_seconds_ago: float = 0.0
    ) -> bool:
        """Continue with a later receive of the same message: only the latest handle is valid.

        The message is extended at once and has a new limit of 12 hours, even if it was lost before.

        Returns:
            Whether the message is watched. If not (it is done or given up), the caller has to treat
            the receive as a new message.
        """
        with self._calling:
            receive = self._receives.get(message_id)
            if receive is None or receive.is_done:
                return False
            self._extend([self._add(message_id, receipt_handle, received_seconds_ago)])
        return True

    def _add(self, message_id: str, receipt_handle: str, received_seconds_ago: float) -> _Receive:
        received_at = self._now() - received_seconds_ago
        limit_at = received_at + LIMIT_SECONDS - _RESERVE_SECONDS
        hidden_until = min(received_at + self._received_timeout_seconds, limit_at)
        receive = _Receive(message_id, receipt_handle, limit_at, hidden_until, received_at)
        self._receives[message_id] = receive
        return receive

    def tick(self) -> None:
        """Extend what is due, and log losses."""
        now = self._now()
        receives = [receive for receive in list(self._receives.values()) if not receive.loss]
        due = [receive for receive in receives if receive.extend_at <= now]
        for part in _parts(due):
            with self._calling:
                if not self._is_over.is_set():
                    self._extend(part)
        now = self._now()
        for receive in receives:
            if receive.is_lost_at(now) and self._is_current(receive) and not receive.is_done:
                _logger.warning("visibility lost: %s", receive.error())

    def _extend(self, due: Sequence[_Receive]) -> None:
        sent_at = self._now()
        asked = {
            receive: int(min(self._timeout_seconds, receive.limit_at - sent_at))
            for receive in due
            if self._is_current(receive)
            and not receive.is_lost_at(sent_at)
            and receive.limit_at >= sent_at + 1
        }
        codes = self._change("extended", asked)
        answered_at = self._now()
        for receive, code in codes.items():
            receive.note(sent_at, asked[receive], answered_at, code)

    def _change(self, done: str, timeouts: Mapping[_Receive, int]) -> Mapping[_Receive, str]:
        """Set the visibility timeouts of up to 10 messages; log what SQS did not confirm.

        Returns a code for each: empty if SQS confirmed; else SQS's error code, or the name of the
        exception. Never the text of an error, which quotes receipt handles. Never raises.
        """
        entries: list[Any] = [
            {"Id": str(n), "ReceiptHandle": receive.receipt_handle, "VisibilityTimeout": seconds}
            for n, (receive, seconds) in enumerate(timeouts.items())
        ]
        answer: Any = {}
        code = "NotInAnswer"
        try:
            if entries:
                answer = self._client.change_message_visibility_batch(
                    QueueUrl=self._queue_url, Entries=entries
                )
        except Exception as error:  # noqa: BLE001 - after any error a later try follows
            response = getattr(error, "response", None) or {}
            # Whatever its code, the call may be repeated: it says nothing of a single message.
            code = f"call: {response.get('Error', {}).get('Code') or type(error).__name__}"
        failed, confirmed = answer.get("Failed", []), answer.get("Successful", [])
        by_id = {one["Id"]: one.get("Code", "Unknown").rpartition(".")[2] for one in failed}
        by_id |= {one["Id"]: "" for one in confirmed}
        codes = {receive: by_id.get(str(n), code) for n, receive in enumerate(timeouts)}
        for receive, code in codes.items():
            # A finished message is deleted, so SQS refuses its next extension: that is no news.
            if code and not receive.is_done:
                _logger.warning("message %s was not %s: %s", receive.message_id, done, code)
        return codes

    def _is_current(self, receive: _Receive) -> bool:
        """Return whether it was neither given up nor replaced by a later receive."""
        return self._receives.get(receive.message_id) is receive


def _parts(receives: Sequence[_Receive]) -> Iterator[Sequence[_Receive]]:
    return (receives[start : start + 10] for start in range(0, len(receives), 10))
