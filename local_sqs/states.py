"""The messages of a queue, their states, and the timers that change the states."""

from collections import Counter

from local_sqs.delivery import Delivery
from local_sqs.timers import Timers
from local_sqs.values import State, StoredMessage


class MessageStates:
    """The messages of one queue, with their states: delayed, ready, in flight, gone.

    Only this class writes ``state``, ``timer`` and ``expiry``. Call ``tick`` before every other
    method, so that everything due has happened.
    """

    def __init__(self, delivery: Delivery, retention_ms: int) -> None:
        self.messages: dict[str, StoredMessage] = {}
        self.delivery = delivery
        self._retention_ms = retention_ms
        self._counts: Counter[State] = Counter()
        self._timers: Timers[StoredMessage] = Timers()
        self._expiries: Timers[StoredMessage] = Timers()

    def count(self, state: State) -> int:
        return self._counts[state]

    def put(self, message: StoredMessage, visible_ms: int, now_ms: int) -> None:
        """Add a message, delayed if *visible_ms* is in the future."""
        self.messages[message.message_id] = message
        message.expiry = self._expiries.set(message.sent_ms + self._retention_ms, message)
        if visible_ms > now_ms:
            message.state = State.DELAYED
            message.timer = self._timers.set(visible_ms, message)
        else:
            message.state = State.READY
            self.delivery.became_ready(message)
        self._counts[message.state] += 1

    def hand_out(self, message: StoredMessage, until_ms: int) -> None:
        """Note that a message was received; it is in flight until *until_ms*."""
        self._enter(message, State.IN_FLIGHT)
        message.timer = self._timers.set(until_ms, message)
        self.delivery.was_handed_out(message)

    def set_timer(self, message: StoredMessage, due_ms: int) -> None:
        """Change when its visibility timeout or its delay ends."""
        self._timers.cancel(message.timer)
        message.timer = self._timers.set(due_ms, message)

    def make_ready(self, message: StoredMessage) -> None:
        """End its visibility timeout or its delay."""
        was_in_flight = message.state is State.IN_FLIGHT
        self._timers.cancel(message.timer)
        self._enter(message, State.READY)
        self.delivery.became_ready(message)
        if was_in_flight:
            self.delivery.came_back(message)

    def remove(self, message: StoredMessage) -> None:
        was_in_flight = message.state is State.IN_FLIGHT
        self._timers.cancel(message.timer)
        self._expiries.cancel(message.expiry)
        self._enter(message, State.GONE)
        del self.messages[message.message_id]
        if was_in_flight:
            self.delivery.came_back(message)

    def tick(self, now_ms: int) -> None:
        """Carry out everything that is due at *now_ms*, expiries first."""
        for message in self._expiries.fire(now_ms):
            self.remove(message)
        for message in self._timers.fire(now_ms):
            self.make_ready(message)

    def set_retention(self, retention_ms: int) -> None:
        """Set the retention of every message; O(n)."""
        self._retention_ms = retention_ms
        for message in self.messages.values():
            self._expiries.cancel(message.expiry)
            message.expiry = self._expiries.set(message.sent_ms + retention_ms, message)

    def next_due_ms(self) -> int | None:
        """Return when the next delay or visibility timeout ends; None if there is none."""
        return self._timers.next_due_ms()

    def next_expiry_ms(self) -> int | None:
        return self._expiries.next_due_ms()

    def _enter(self, message: StoredMessage, state: State) -> None:
        self._counts[message.state] -= 1
        self._counts[state] += 1
        message.state = state
