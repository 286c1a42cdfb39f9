"""moto's queues, made to keep what the demo leans on. Only the server's process uses it.

moto 5.2 numbers the messages of a FIFO queue at random, forgets a deduplication id together with
its message, may give a group out of order after a time-out, and lets a message move to a DLQ as if
it had been there all along. Its deletion replaces the list of messages that a send appends to, so
that calls are taken one at a time here, on any queue.

What SQS does stands in its developer guide, in "FIFO queue delivery logic in Amazon SQS", "Using
the message deduplication ID" and "Using dead-letter queues".
"""

import itertools
import math
import time
import uuid
from collections.abc import Iterable
from copy import deepcopy
from threading import RLock
from types import ModuleType
from typing import Any

from moto.sqs import models, urls

DEDUPLICATION_SECONDS = 300
_LOOK_EVERY_SECONDS = 0.05


class QueueServer(models.SQSBackend):
    """moto's SQS of one account and region, with FIFO queues that behave as SQS's do."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self._lock = RLock()
        self._sequence = itertools.count(1)
        self._known_ids: dict[tuple[str, str | None], float] = {}

    @property
    def _url_module(self) -> ModuleType:
        """Where moto finds SQS's addresses; it would look beside this class."""
        return urls

    def send_message(
        self,
        queue_name: str,
        *args: Any,  # noqa: ANN401 - moto's own to check
        **kwargs: Any,  # noqa: ANN401 - as above
    ) -> models.Message:
        """Send; on FIFO with a number that rises, and once in five minutes."""
        known_id = (queue_name, kwargs.get("deduplication_id"))
        with self._lock:
            now = time.monotonic()
            is_fifo = self.get_queue(queue_name).fifo_queue
            if is_fifo and now - self._known_ids.get(known_id, -math.inf) < DEDUPLICATION_SECONDS:
                return _unsent(*args)
            message = super().send_message(queue_name, *args, **kwargs)
            if is_fifo:
                message.sequence_number = self._next_number()
                self._known_ids[known_id] = now
            return message

    def receive_message(
        self,
        queue_name: str,
        count: int,
        wait_seconds_timeout: int,
        visibility_timeout: int,
        message_attribute_names: list[str] | None = None,
    ) -> list[models.Message]:
        """Receive, waiting for the first message without keeping others from their calls."""
        deadline = time.monotonic() + wait_seconds_timeout
        names = message_attribute_names or []
        while True:
            with self._lock:
                queue = self.get_queue(queue_name)
                received = (
                    self._receive_in_order(queue, count, visibility_timeout, names)
                    if queue.fifo_queue
                    else super().receive_message(queue_name, count, 0, visibility_timeout, names)
                )
            if received or time.monotonic() >= deadline:
                return received
            time.sleep(_LOOK_EVERY_SECONDS)

    def is_message_valid_based_on_retention_period(
        self,
        queue_name: str,  # noqa: ARG002 - moto's signature
        message: models.Message,  # noqa: ARG002 - as above
    ) -> bool:
        """No run lasts as long as a retention; moto counts the whole queue for each to find out."""
        return True

    def delete_message(self, queue_name: str, receipt_handle: str) -> None:
        """Delete, undisturbed."""
        with self._lock:
            super().delete_message(queue_name, receipt_handle)

    def change_message_visibility(
        self, queue_name: str, receipt_handle: str, visibility_timeout: int
    ) -> None:
        """Hide or show, undisturbed."""
        with self._lock:
            super().change_message_visibility(queue_name, receipt_handle, visibility_timeout)

    def get_queue_attributes(self, queue_name: str, attribute_names: list[str]) -> dict[str, Any]:
        """Count, undisturbed."""
        with self._lock:
            return super().get_queue_attributes(queue_name, attribute_names)

    def _receive_in_order(
        self, queue: models.Queue, count: int, visibility_timeout: int, names: list[str]
    ) -> list[models.Message]:
        """The first messages of the groups of which none is in flight, in their order."""
        locked = {m.group_id for m in queue._messages if not m.visible}  # noqa: SLF001 - as moto
        received: list[models.Message] = []
        for message in _free(queue.messages, locked):
            if len(received) == count:
                break
            if _is_exhausted(queue, message):
                self._bury(queue, message)
                continue
            message.mark_received(visibility_timeout=visibility_timeout)
            copy = deepcopy(message)
            models._filter_message_attributes(copy, names)  # noqa: SLF001 - as moto's own receive
            received.append(copy)
        return received

    def _bury(self, queue: models.Queue, message: models.Message) -> None:
        """Move it to the DLQ, where it arrives now, under its own id."""
        queue._messages.remove(message)  # noqa: SLF001 - as moto's own receive
        message.mark_sent()
        message.deduplication_id = message.id
        message.sequence_number = self._next_number()
        if queue.dead_letter_queue is not None:
            queue.dead_letter_queue.add_message(message)

    def _next_number(self) -> str:
        return f"{next(self._sequence):020}"


def install() -> None:
    """Serve these queues instead of moto's own. Call it before the first request."""
    models.sqs_backends.backend = QueueServer


def _free(messages: Iterable[models.Message], locked: set[str | None]) -> list[models.Message]:
    return [m for m in messages if m.group_id not in locked]


def _is_exhausted(queue: models.Queue, message: models.Message) -> bool:
    policy: Any = queue.redrive_policy
    has_target = queue.dead_letter_queue is not None and bool(policy)
    return has_target and message.approximate_receive_count >= policy["maxReceiveCount"]


def _unsent(body: str) -> models.Message:
    """What SQS confirms for a repeated send."""
    message = models.Message(str(uuid.uuid4()), body)
    message.mark_sent()
    return message
