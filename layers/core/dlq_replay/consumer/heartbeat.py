"""Keeps received messages invisible while work goes on. Needs a client like boto3's SQS client."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from dlq_replay.consumer.clock import AwakeClock
from dlq_replay.consumer.errors import VisibilityLostError
from dlq_replay.consumer.extender import Extender
from dlq_replay.consumer.lease import Lease
from dlq_replay.consumer.leases import Leases
from dlq_replay.consumer.pacer import Pacer, ThreadPacer
from dlq_replay.consumer.receipts import Received, message_id_of, queue_url_of, receipt_of
from dlq_replay.consumer.record_handlers import Handler, within
from dlq_replay.consumer.rhythm import Rhythm

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_logger = logging.getLogger(__name__)

OnLost = Callable[[VisibilityLostError], None]
"""Told once of each message that is lost, in the heartbeat's thread; it should not take long."""


class HeartbeatOptions(TypedDict, total=False):
    """The keyword arguments of a Heartbeat, documented there."""

    rhythm: Rhythm | None
    received_seconds_ago: float
    on_lost: OnLost | None
    now: Callable[[], float] | None
    pacer: Pacer | None


class Heartbeat:
    """While its block runs, messages stay hidden; each for as long as nobody says otherwise.

    On entry every message's visibility timeout is set anew, even where the queue's own is longer:
    that is how soon it comes back after a crash. Then it is extended again and again, ten
    messages to a call. When the block ends well the messages are left as they are, for the
    caller to delete; when an exception leaves it, those that are not ``done`` are visible again
    at once. Either way nothing is extended after the block. Leaving waits for a call in
    progress, so give the client short timeouts (``dlq_replay.sqs.client_config``).

    A message is *lost* once it is not certain that no other consumer has it: no extension was
    confirmed in time, SQS refused one (the message was deleted, or received again), or its 12
    hours are over. A loss is final for that receive, concerns that message alone, raises nothing
    by itself, and is told by ``check``, ``is_safe`` and *on_lost*.

    A redrive's canary has to know how long a message may stay hidden: ``--consumer-max-seconds``.

    Safe to use from several threads, by the thread that entered it and by those it started.

    Args:
        client: a boto3 SQS client.
        queue_url: where the messages came from.
        messages: core Messages, ReceiveMessage dicts or Lambda records; any number.
        rhythm: timeout and interval; tell it the queue's visibility timeout.
        received_seconds_ago: how long before this call the messages were received.
        on_lost: told once of each lost message.
        now: seconds on a clock that never goes back.
        pacer: what calls the heartbeat when it is time; for one block only.

    Raises:
        MalformedMessageError: a message has no id or no receipt handle.
    """

    def __init__(  # noqa: PLR0913 - the last two are for tests
        self,
        client: "SQSClient",
        queue_url: str,
        messages: Sequence[Received],
        *,
        rhythm: Rhythm | None = None,
        received_seconds_ago: float = 0.0,
        on_lost: OnLost | None = None,
        now: Callable[[], float] | None = None,
        pacer: Pacer | None = None,
    ) -> None:
        self._on_lost = on_lost
        self._now = now or AwakeClock()
        self._pacer = pacer or ThreadPacer()
        self._lock = threading.Lock()
        self._is_over = False
        self._leases = Leases(rhythm or Rhythm())
        self._extender = Extender(client, queue_url, self._leases, self._lock, self._now)
        received_at = self._now() - received_seconds_ago
        for received in messages:
            self._leases.add(*receipt_of(received), received_at)

    @classmethod
    def for_messages(
        cls,
        client: "SQSClient",
        queue_url: str,
        messages: Sequence[Received],
        **options: Unpack[HeartbeatOptions],
    ) -> Self:
        """For a poller: messages as ``receive_message`` or ``SqsQueue.receive`` gave them."""
        return cls(client, queue_url, messages, **options)

    @classmethod
    def for_records(
        cls,
        client: "SQSClient",
        records: Sequence[Mapping[str, Any]],
        queue_url: str | None = None,
        **options: Unpack[HeartbeatOptions],
    ) -> Self:
        """For a Lambda handler: records of an event, plain or Powertools'.

        Without *queue_url* SQS is asked for it by the records' ``eventSourceARN``, once per
        heartbeat; that needs ``sqs:GetQueueUrl``.

        Raises:
            MalformedMessageError, QueueError: see ``receipts.queue_url_of``.
        """
        if queue_url is None:
            queue_url = queue_url_of(client, records) if records else ""
        return cls(client, queue_url, records, **options)

    def __enter__(self) -> Self:
        if self._is_over:
            raise RuntimeError("a heartbeat serves one block; make another for the next")
        if len(self._leases):
            self._step()
            self._pacer.start(self._step)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over = True
        self._extender.stop()
        self._pacer.stop()
        if error is not None:
            self._extender.release(self._watched_ids())

    def is_safe(self, message_id: str) -> bool:
        """Whether the message is certainly still hidden.

        False too for one that is not watched: unknown, done or given up.
        """
        return self.seconds_left(message_id) > 0

    def seconds_left(self, message_id: str) -> float:
        """For how long the message would certainly stay hidden without another extension.

        0 if it is lost or not watched. Shrinks below the interval only while extensions fail.
        """
        with self._lock:
            lease = self._leases.get(message_id)
            return lease.seconds_left(self._now()) if lease else 0.0

    def check(self, message_id: str | None = None) -> None:
        """Raise if the message is lost; without an id, if any watched message is.

        To be called before each effect that must not happen twice.

        Raises:
            VisibilityLostError: stop working on the message, and do not delete it.
            VisibilityLimitError: the same; its 12 hours are over.
            KeyError: that message is not watched: unknown, done or given up.
        """
        with self._lock:
            now = self._now()
            found = self._leases.all() if message_id is None else [self._leases.get(message_id)]
        for lease in found:
            if lease is None:
                raise KeyError(message_id)
            if (aged := lease.aged(now)).loss:
                raise aged.error()

    def done(self, message_id: str) -> None:
        """The work on this message is finished; the caller, or Lambda, deletes it.

        Until then, or until the block ends, it stays hidden, and nothing shows it early.
        """
        with self._lock:
            self._leases.finish(message_id)

    def guarded(self, handler: Handler) -> Handler:
        """Wrap the handler of one record, plain or async, for a processor of batches.

        It begins only while its message is certainly hidden, else ``check`` raises in its place,
        and when it returns the message is ``done``. What it raises goes on; the message stays
        hidden until ``give_up``.
        """
        return within(handler, self._guarding)

    @contextmanager
    def _guarding(self, record: object) -> Iterator[None]:
        message_id = message_id_of(record) or ""
        self.check(message_id)
        yield
        self.done(message_id)

    def give_up(self, *message_ids: str) -> bool:
        """Make these messages visible at once, ten to a call, and hide them no more.

        Without an id: all that are not done. Waits for a call in progress, which would hide them
        again.

        Returns:
            Whether SQS confirmed it of all. What it did not comes back when its timeout ends; a
            lost message is left alone.
        """
        return self._extender.release(message_ids or self._watched_ids())

    def replace_receipt(
        self, message_id: str, receipt_handle: str, received_seconds_ago: float = 0.0
    ) -> bool:
        """Go on with a later receive of the same message: only the latest handle counts.

        What was lost is watched again, with 12 hours of its own, and extended at once.

        Returns:
            Whether the message is watched. If not (done or given up by now), the receive is a
            new message to the caller.
        """
        with self._lock:
            if self._leases.get(message_id) is None:
                return False
            self._leases.add(message_id, receipt_handle, self._now() - received_seconds_ago)
        self._pacer.wake()
        return True

    def _watched_ids(self) -> list[str]:
        with self._lock:
            return [lease.message_id for lease in self._leases.all()]

    def _step(self) -> float:
        self._extender.extend_due()
        with self._lock:
            now = self._now()
            self._leases.expire(now)
            lost = self._leases.take_unreported()
            pause_seconds = self._leases.seconds_to_next_look(now)
        for lease in lost:
            self._report(lease)
        return pause_seconds

    def _report(self, lease: Lease) -> None:
        error = lease.error()
        _logger.warning("visibility lost: %s", error)
        if self._on_lost is None:
            return
        try:
            self._on_lost(error)
        except Exception:
            _logger.exception("on_lost failed for message %s", lease.message_id)
