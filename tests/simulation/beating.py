"""A queue, received messages and a heartbeat over them, on the model's virtual clock."""

from collections.abc import Callable
from typing import Any

from dlq_replay.consumer.heartbeat import Heartbeat
from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.faults import Effect, Fault
from local_sqs.front import Front
from local_sqs.model import SqsModel
from tests.support.sqs_driver import Driver, Received

EXTEND = "ChangeMessageVisibilityBatch"


class Work:
    """One queue, some received messages, and a heartbeat to be entered."""

    def __init__(self, count: int = 1, queue_name: str = "q", **queue: Any) -> None:
        self.clock = VirtualClock()
        self.front = Front.of(SqsModel(self.clock))
        self.client = client_for(self.front)
        self.queue = Driver(self.client).queue(queue_name, **queue)
        for index in range(count):
            body = str(index)
            self.queue.send_fifo(body) if self.queue.url.endswith(".fifo") else self.queue.send(
                body
            )
        self.received: list[Received] = []
        while len(self.received) < count:
            self.received += self.queue.receive()

    @property
    def ids(self) -> list[str]:
        return [received["MessageId"] for received in self.received]

    def beat(self, **options: Any) -> Heartbeat:
        return Heartbeat(
            self.client,
            self.queue.url,
            self.received,
            now=self.clock.time,
            has_thread=False,
            **options,
        )

    def pass_time(
        self, beat: Heartbeat, seconds: float, each: Callable[[], None] = lambda: None
    ) -> None:
        """Let *seconds* pass, with the ticks of *beat* at their times; after each call *each*."""
        until_ms = self.clock.now_ms() + round(seconds * 1000)
        while True:
            beat.tick()
            next_ms = self.clock.now_ms() + round(beat.tick_seconds * 1000)
            each()
            if next_ms > until_ms:
                break
            self.clock.advance_to(next_ms)
        self.clock.advance_to(max(until_ms, self.clock.now_ms()))
        each()

    def fail(self, effect: Effect, **rule: Any) -> None:
        self.front.faults.add(Fault(effect, EXTEND, **rule))
