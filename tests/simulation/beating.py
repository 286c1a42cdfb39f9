"""A queue, received messages and a heartbeat over them, on the model's virtual clock."""

from typing import TYPE_CHECKING, Any

from dlq_replay.consumer.heartbeat import Heartbeat
from local_sqs.client import client_for
from local_sqs.clock import VirtualClock
from local_sqs.driver import Driver, Received
from local_sqs.faults import Effect, Fault
from local_sqs.front import Front
from local_sqs.model import SqsModel
from tests.simulation.ticking import VirtualTicker

if TYPE_CHECKING:
    from dlq_replay.consumer.errors import VisibilityLostError

EXTEND = "ChangeMessageVisibilityBatch"


class Work:
    """One queue, some received messages, and a heartbeat to be entered."""

    def __init__(self, count: int = 1, **queue: Any) -> None:
        self.clock = VirtualClock()
        self.front = Front.of(SqsModel(self.clock))
        self.client = client_for(self.front)
        self.ticker = VirtualTicker(self.clock)
        self.queue = Driver(self.client).queue("q", **queue)
        for index in range(count):
            self.queue.send(str(index))
        self.received: list[Received] = []
        while len(self.received) < count:
            self.received += self.queue.receive()
        self.lost: list[VisibilityLostError] = []

    @property
    def ids(self) -> list[str]:
        return [one["MessageId"] for one in self.received]

    def beat(self, **options: Any) -> Heartbeat:
        return Heartbeat.for_messages(
            self.client,
            self.queue.url,
            self.received,
            on_lost=self.lost.append,
            now=self.clock.time,
            ticker=self.ticker,
            **options,
        )

    def fail(self, effect: Effect, **rule: Any) -> None:
        self.front.faults.add(Fault(effect, EXTEND, **rule))

    def extensions(self) -> int:
        return self.front.log.count(EXTEND)
