"""Keeps received messages hidden during the work. Needs a client like boto3's SQS client.

On a standard queue SQS answers an extension that comes too late with success, and does nothing
(https://github.com/localstack/localstack/pull/9632, recorded from AWS). So an extension counts only
if its answer came before the end of the last confirmed timeout.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from dlq_replay.consumer.identity import Received, message_id_of, text_of
from dlq_replay.errors import MalformedMessageError, SettingsError, VisibilityLostError
from dlq_replay.retry import awake_seconds

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

Handler = TypeVar("Handler", bound=Callable[..., Any])

MAX_ENTRIES = 10

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Receive:
    """One receive of one message. Times are seconds on the heartbeat's clock.

    Attributes:
        hidden_until: until then no other consumer receives it.
        is_done: the work is finished. It is still extended, but its loss is not reported.
        is_lost: another consumer may have it. Never reset.
    """

    message_id: str
    receipt_handle: str
    hidden_until: float
    extend_at: float = 0.0
    is_done: bool = False
    is_lost: bool = False

    def is_lost_at(self, now: float) -> bool:
        if not self.is_lost and now >= self.hidden_until:
            self.is_lost = True
            if not self.is_done:
                _logger.warning("visibility lost: message %s", self.message_id)
        return self.is_lost


class Heartbeat:
    """A context manager that keeps messages hidden while its block runs.

    On entry the visibility timeout of every message is set to *timeout_seconds*, even if the
    queue's is longer, so that a message comes back soon after a crash. Then each is extended after
    half of the timeout, ten messages in a call; what SQS does not confirm is tried again every
    eighth of the timeout. If an exception leaves the block, ``give_up`` is called; else the caller
    deletes the messages. The exit waits for a call in progress, so give the client short timeouts
    (``dlq_replay.aws.sqs.client_config``).

    A message is *lost* when another consumer may have it: its timeout ended before an extension was
    confirmed. SQS refuses each extension after 12 hours. A loss is final. It raises nothing by
    itself: ``check`` raises, and each loss is logged.

    May be used by the thread that entered it and by the threads that it started; for one block.

    Args:
        client, queue_url: a boto3 SQS client and the queue.
        messages: core Messages, ReceiveMessage dicts or Lambda records; any number.
        timeout_seconds: the visibility timeout that each extension sets, 1 to 3,600.
        received_timeout_seconds: what is left of the visibility timeout of the receive.
        now: returns seconds, at least 0, on a clock that never goes back.
        has_thread: False where the caller calls ``tick`` itself, as tests do.

    Raises:
        SettingsError: *timeout_seconds* is out of range.
        MalformedMessageError: a message has no id or no receipt handle.
    """

    def __init__(
        self,
        client: "SQSClient",
        queue_url: str,
        messages: Sequence[Received],
        *,
        timeout_seconds: int = 120,
        received_timeout_seconds: float = 30.0,
        now: Callable[[], float] = awake_seconds,
        has_thread: bool = True,
    ) -> None:
        if not 1 <= timeout_seconds <= 3600:  # noqa: PLR2004 - an hour
            raise SettingsError([f"timeout_seconds={timeout_seconds}: must be from 1 to 3,600"])
        self._request = partial(client.change_message_visibility_batch, QueueUrl=queue_url)
        self._timeout_seconds = timeout_seconds
        self._now = now
        # More often than messages are due: after a suspension of the machine some may be late.
        self.tick_seconds = min(timeout_seconds / 8, max(1.0, received_timeout_seconds / 4))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True) if has_thread else None
        self._receives: dict[str, _Receive] = {}
        hidden_until = now() + received_timeout_seconds
        for received in messages:
            message_id = message_id_of(received)
            handle = text_of(received, "receiptHandle", "ReceiptHandle", "receipt_handle")
            if message_id is None or handle is None:
                raise MalformedMessageError("message id and receipt handle: must be text")
            self._receives[message_id] = _Receive(message_id, handle, hidden_until)

    def __enter__(self) -> Self:
        self.tick()
        if self._thread is not None:
            self._thread.start()
        return self

    def _beat(self) -> None:
        while not self._is_over.wait(self.tick_seconds):
            self.tick()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop()
        if kind is not None:
            self.give_up()

    def _stop(self) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def check(self, message_id: str | None = None) -> None:
        """Raise if the message is lost; without an id, if any message is. One that is done is not.

        Call this before each effect that must not happen twice.

        Raises:
            VisibilityLostError: stop the work on the message, and do not delete it.
            KeyError: the message is unknown.
        """
        receives = self._receives
        for receive in receives.values() if message_id is None else [receives[message_id]]:
            if not receive.is_done and receive.is_lost_at(self._now()):
                raise VisibilityLostError(receive.message_id)

    def done(self, message_id: str) -> None:
        """Note that the work is finished: the message stays hidden until the block ends."""
        self._receives[message_id].is_done = True

    def guarded(self, handler: Handler) -> Handler:
        """Wrap the handler of one record, synchronous or async, for a batch processor.

        Before the handler starts, ``check`` raises if the message is lost. When the handler
        returns, the message is ``done``.
        """

        @contextmanager
        def guarding(record: Any) -> Iterator[None]:  # noqa: ANN401 - any form of message
            message_id = message_id_of(record) or ""
            self.check(message_id)
            yield
            self.done(message_id)

        @wraps(handler)
        def handle(record: Any, **more: Any) -> Any:  # noqa: ANN401 - the handler's own
            with guarding(record):
                return handler(record, **more)

        @wraps(handler)
        async def handle_async(record: Any, **more: Any) -> Any:  # noqa: ANN401 - the handler's own
            with guarding(record):
                return await handler(record, **more)

        return cast("Handler", handle_async if iscoroutinefunction(handler) else handle)

    def give_up(self) -> None:
        """End the heartbeat, and make all messages that are not done visible at once.

        Waits for a call in progress, which would hide them again. Lost messages are not changed:
        another consumer may have them. A message that SQS does not confirm is named in a warning;
        it is visible again when its timeout ends.
        """
        self._stop()
        now = self._now()
        left: list[_Receive] = []
        for receive in self._receives.values():
            if not (receive.is_done or receive.is_lost_at(now)):
                receive.is_lost = True
                left.append(receive)

        for start in range(0, len(left), MAX_ENTRIES):
            self._change("released", left[start : start + MAX_ENTRIES], 0)

    def tick(self) -> None:
        """Extend the messages that are due, and log losses."""
        now = self._now()
        receives = self._receives.values()
        due = [receive for receive in receives if not receive.is_lost and receive.extend_at <= now]
        for start in range(0, len(due), MAX_ENTRIES):
            if self._is_over.is_set():
                return

            sent_at = self._now()
            part = due[start : start + MAX_ENTRIES]
            hidden = [receive for receive in part if not receive.is_lost_at(sent_at)]
            confirmed = self._change("extended", hidden, self._timeout_seconds)

            answered_at = self._now()
            hidden_until = sent_at + self._timeout_seconds
            for receive in hidden:
                if receive not in confirmed:
                    # SQS may have carried it out or not: the earlier of the two ends counts.
                    receive.hidden_until = min(receive.hidden_until, hidden_until)
                elif not receive.is_lost_at(answered_at):
                    receive.hidden_until = hidden_until
                    receive.extend_at = sent_at + self._timeout_seconds / 2

    def _change(self, done: str, receives: Sequence[_Receive], seconds: int) -> set[_Receive]:
        """Set the visibility timeouts of up to 10 messages; return those that SQS confirmed.

        Logs why for the others: a code, never an error's text, which quotes receipt handles. Never
        raises.
        """
        entries: list[Any] = []
        for index, receive in enumerate(receives):
            entry = {
                "Id": str(index),
                "ReceiptHandle": receive.receipt_handle,
                "VisibilityTimeout": seconds,
            }
            entries.append(entry)

        answer: Any = {}
        code = "NotInAnswer"
        try:
            answer = self._request(Entries=entries) if entries else {}
        except Exception as error:  # noqa: BLE001 - after any error a later try follows
            response = getattr(error, "response", None) or {}
            code = response.get("Error", {}).get("Code") or type(error).__name__

        confirmed = {receives[int(entry["Id"])] for entry in answer.get("Successful", [])}
        codes: dict[str, str] = {}
        for entry in answer.get("Failed", []):
            codes[entry["Id"]] = entry.get("Code", "Unknown")
        for index, receive in enumerate(receives):
            # A finished message is deleted, so SQS refuses its next extension: that is no news.
            if receive not in confirmed and not receive.is_done:
                reason = codes.get(str(index), code)
                _logger.warning("message %s was not %s: %s", receive.message_id, done, reason)
        return confirmed
