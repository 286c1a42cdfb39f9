"""Carries the decisions of the leases to SQS, one call at a time."""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dlq_replay.consumer.leases import Leases
from dlq_replay.consumer.visibility import (
    MAX_CHANGES,
    Change,
    Verdict,
    change_visibility,
    log_unconfirmed,
)

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


class Extender:
    """Extends and releases the messages of one queue; safe to share between threads.

    Calls follow one another, so that an extension on its way never hides what was released.

    Args:
        lock: guards *leases*; never held during a call.
        now: seconds on the clock of the leases.
    """

    def __init__(
        self,
        client: "SQSClient",
        queue_url: str,
        leases: Leases,
        lock: threading.Lock,
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._queue_url = queue_url
        self._leases = leases
        self._lock = lock
        self._now = now
        self._calling = threading.Lock()
        self._is_stopped = False

    def stop(self) -> None:
        """Extend no more; releases go on."""
        self._is_stopped = True

    def extend_due(self) -> None:
        """Extend what is due, ten messages to a call, and take in the answers."""
        with self._lock:
            due = self._leases.due(self._now())
        for start in range(0, len(due), MAX_CHANGES):
            if not self._is_stopped:
                self._extend(due[start : start + MAX_CHANGES])

    def release(self, message_ids: Sequence[str]) -> bool:
        """Watch these no longer, and make visible at once what is certainly still ours.

        Returns:
            Whether SQS confirmed it of all of them.
        """
        changes: list[Change] = []
        with self._calling:
            with self._lock:
                taken = [self._leases.remove(message_id) for message_id in message_ids]
                held = [one for one in taken if one and one.is_safe(self._now())]
            for start in range(0, len(held), MAX_CHANGES):
                part = held[start : start + MAX_CHANGES]
                changes += self._change([(one.receipt_handle, 0) for one in part])
        released = [(one.message_id, change) for one, change in zip(held, changes, strict=True)]
        log_unconfirmed("not released", released)
        return [one.verdict for one in changes] == [Verdict.CONFIRMED] * len(message_ids)

    def _extend(self, message_ids: Sequence[str]) -> None:
        with self._calling:
            with self._lock:
                extensions = self._leases.extensions(message_ids, self._now())
            changes = self._change([(one.receipt_handle, one.seconds) for one in extensions])
            with self._lock:
                answered_at = self._now()
                for extension, change in zip(extensions, changes, strict=True):
                    self._leases.settle(extension, change, answered_at)
                worth_telling = [
                    (extension.message_id, change)
                    for extension, change in zip(extensions, changes, strict=True)
                    if not self._is_deleted(extension.message_id, change)
                ]
        log_unconfirmed("not extended", worth_telling)

    def _is_deleted(self, message_id: str, change: Change) -> bool:
        """A refusal is how the extensions of a finished message end: its owner has deleted it."""
        return change.verdict is Verdict.REFUSED and self._leases.get(message_id) is None

    def _change(self, changes: Sequence[tuple[str, int]]) -> list[Change]:
        return change_visibility(self._client, self._queue_url, changes) if changes else []
