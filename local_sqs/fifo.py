"""The 5-minute memory of a FIFO queue: deduplication ids and receive attempts."""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from local_sqs.values import StoredMessage

WINDOW_MS = 300_000
"""Of a deduplication id and of a ReceiveRequestAttemptId: SQSAPI, SendMessage, ReceiveMessage."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a send. A duplicate gets the answer of the first send."""

    message_id: str
    order: int


class DeduplicationWindow:
    """Remembers each deduplication id for 5 minutes after its first send.

    It remembers an id even after the message was received and
    deleted (SQSAPI, SendMessage, MessageDeduplicationId).
    """

    def __init__(self) -> None:
        self._accepted: dict[Hashable, Accepted] = {}
        self._by_time: deque[tuple[int, Hashable]] = deque()

    def find(self, key: Hashable, now_ms: int) -> Accepted | None:
        while self._by_time and self._by_time[0][0] + WINDOW_MS <= now_ms:
            del self._accepted[self._by_time.popleft()[1]]
        return self._accepted.get(key)

    def remember(self, key: Hashable, accepted: Accepted, now_ms: int) -> None:
        self._accepted[key] = accepted
        self._by_time.append((now_ms, key))


@dataclass(frozen=True, slots=True)
class _Attempt:
    at_ms: int
    handles: Sequence[tuple[StoredMessage, str, int]]


class ReceiveAttempts:
    """Repeats a receive with the same ReceiveRequestAttemptId for 5 minutes.

    It returns the same messages and handles, as long as all are still in flight and none was
    deleted or had its visibility changed (SQSAPI, ReceiveMessage).
    """

    def __init__(self) -> None:
        self._attempts: dict[str, _Attempt] = {}

    def repeat(self, attempt_id: str, now_ms: int) -> Sequence[StoredMessage]:
        """Return the messages of that attempt; none if it cannot be repeated."""
        attempt = self._attempts.get(attempt_id)
        if attempt is None or attempt.at_ms + WINDOW_MS <= now_ms:
            return []
        if not all(_is_untouched(*handed) for handed in attempt.handles):
            return []
        return [message for message, _, _ in attempt.handles]

    def remember(self, attempt_id: str, messages: Sequence[StoredMessage], now_ms: int) -> None:
        self._attempts = {
            known: attempt
            for known, attempt in self._attempts.items()
            if attempt.at_ms + WINDOW_MS > now_ms
        }
        handles = [(m, m.handle, m.timer.due_ms) for m in messages if m.timer]
        if handles:
            self._attempts[attempt_id] = _Attempt(now_ms, handles)


def _is_untouched(message: StoredMessage, handle: str, due_ms: int) -> bool:
    timer = message.timer
    is_running = timer is not None and timer.item is not None and timer.due_ms == due_ms
    return message.handle == handle and is_running
