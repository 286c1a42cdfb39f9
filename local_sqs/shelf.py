"""Messages and their states: delayed, ready, in flight, gone; and the timers that move them."""

from collections import Counter

from local_sqs.lines import Line
from local_sqs.timers import Timers
from local_sqs.values import State, StoredMessage


class Shelf:
    """Holds the messages of one queue and moves each through its states.

    Only the shelf writes ``state``, ``timer`` and ``expiry``. ``tick`` must come before every
    other call, so that what fell due has happened.
    """

    def __init__(self, line: Line, retention_ms: int) -> None:
        self.messages: dict[str, StoredMessage] = {}
        self.line = line
        self._retention_ms = retention_ms
        self._counts: Counter[State] = Counter()
        self._timers: Timers[StoredMessage] = Timers()
        self._expiries: Timers[StoredMessage] = Timers()

    def count(self, state: State) -> int:
        return self._counts[state]

    def put(self, message: StoredMessage, visible_ms: int, now_ms: int) -> None:
        """Take a message in, delayed if *visible_ms* is still to come."""
        self.messages[message.message_id] = message
        message.expiry = self._expiries.set(message.sent_ms + self._retention_ms, message)
        if visible_ms > now_ms:
            message.state = State.DELAYED
            message.timer = self._timers.set(visible_ms, message)
        else:
            message.state = State.READY
            self.line.became_ready(message)
        self._counts[message.state] += 1

    def hand_out(self, message: StoredMessage, until_ms: int) -> None:
        """A message that the line offered is in flight now."""
        self._enter(message, State.IN_FLIGHT)
        message.timer = self._timers.set(until_ms, message)
        self.line.was_handed_out(message)

    def set_timer(self, message: StoredMessage, due_ms: int) -> None:
        """Move the end of its invisibility or of its delay."""
        self._timers.cancel(message.timer)
        message.timer = self._timers.set(due_ms, message)

    def make_ready(self, message: StoredMessage) -> None:
        """End its invisibility or its delay."""
        was_in_flight = message.state is State.IN_FLIGHT
        self._timers.cancel(message.timer)
        self._enter(message, State.READY)
        self.line.became_ready(message)
        if was_in_flight:
            self.line.came_back(message)

    def remove(self, message: StoredMessage) -> None:
        was_in_flight = message.state is State.IN_FLIGHT
        self._timers.cancel(message.timer)
        self._expiries.cancel(message.expiry)
        self._enter(message, State.GONE)
        del self.messages[message.message_id]
        if was_in_flight:
            self.line.came_back(message)

    def tick(self, now_ms: int) -> None:
        """Let everything happen that is due at *now_ms*; what has expired goes first."""
        for message in self._expiries.fire(now_ms):
            self.remove(message)
        for message in self._timers.fire(now_ms):
            self.make_ready(message)

    def set_retention(self, retention_ms: int) -> None:
        """Count the retention of every message anew; O(n)."""
        self._retention_ms = retention_ms
        for message in self.messages.values():
            self._expiries.cancel(message.expiry)
            message.expiry = self._expiries.set(message.sent_ms + retention_ms, message)

    def next_due_ms(self) -> int | None:
        """When the next delay or invisibility ends."""
        return self._timers.next_due_ms()

    def next_expiry_ms(self) -> int | None:
        return self._expiries.next_due_ms()

    def _enter(self, message: StoredMessage, state: State) -> None:
        self._counts[message.state] -= 1
        self._counts[state] += 1
        message.state = state
