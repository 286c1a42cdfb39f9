"""A heartbeat's ticker on a virtual clock, and work that takes time on it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from dlq_replay.consumer.heartbeat import Ticker
from local_sqs.clock import VirtualClock


@dataclass
class VirtualTicker(Ticker):
    """Calls the function when the clock reaches its time: where a test lets time pass, not before.

    Attributes:
        is_frozen: whether the thread gets no turn, as in a suspended machine.
    """

    clock: VirtualClock
    is_frozen: bool = False
    is_stopped: bool = False
    _tick: Callable[[], float] | None = field(default=None, repr=False)
    _next_ms: int = 0

    def start(self, tick: Callable[[], float]) -> None:
        self._tick = tick
        self._call()

    def wake(self) -> None:
        self._call()

    def stop(self) -> None:
        self._tick = None
        self.is_stopped = True

    def pass_time(self, seconds: float, each: Callable[[], None] = lambda: None) -> None:
        """Let *seconds* pass, the ticks in between at their times; after each look call *each*."""
        until_ms = self.clock.now_ms() + round(seconds * 1000)
        while self._tick and not self.is_frozen and self._next_ms <= until_ms:
            self.clock.advance_to(self._next_ms)
            self._call()
            each()
        self.clock.advance_to(until_ms)
        each()

    def suspend(self, seconds: float) -> None:
        """Let *seconds* pass in which nothing runs; then everything that was due does."""
        self.clock.advance(seconds)
        self.pass_time(0)

    def _call(self) -> None:
        if self._tick is not None:
            pause_seconds = self._tick()
            self._next_ms = self.clock.now_ms() + max(1, round(pause_seconds * 1000))
