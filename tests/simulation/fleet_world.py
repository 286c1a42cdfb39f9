"""A fleet on a virtual clock: DLQs that join by a tag, their consumers, and a sweep each minute."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from dlq_replay.aws.deadline import calls_until
from dlq_replay.aws.fleet_directory import FleetDirectory
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.backoff import Backoff
from dlq_replay.errors import QueueError
from dlq_replay.replaying.fleet import Fleet
from dlq_replay.replaying.replay import Replayer
from dlq_replay.replaying.sweep import VISIBILITY_SECONDS, Sweeper, SweepSummary, Turn
from dlq_replay.rules.policy import ReplayPolicy
from dlq_replay.settings import FleetSettings
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message
from local_sqs.clock import VirtualClock
from local_sqs.front import Front
from local_sqs.model import SqsModel
from local_sqs.model_queue import DirectClient, ModelQueue
from tests.support.builders import InlineExecutor
from tests.support.processes import Died
from tests.support.sqs_driver import name_of, redrive_policy

TAG = "all"
MAX_ATTEMPTS = 3
FOURTEEN_DAYS = "1209600"
SWEEP_SECONDS = 56.0


@dataclass
class Member:
    """A DLQ and its source queues; the main queue's consumer fails as often as each body says."""

    dlq: ModelQueue
    mains: list[ModelQueue]
    name: str

    @property
    def is_fifo(self) -> bool:
        return self.name.endswith(".fifo")

    @property
    def queues(self) -> list[ModelQueue]:
        return [self.dlq, *self.mains]


@dataclass
class Consumed:
    """What a consumer was given: the queue, and how often it has worked on each body."""

    queue: str
    tries: Counter[str] = field(default_factory=Counter)
    done: list[str] = field(default_factory=list)


class FleetWorld:
    """Members of a fleet, parked queues, and the sweep of one execution environment.

    Attributes:
        consumed: by the name of the main queue.
        turns: of all sweeps, in which messages came.
        others: calls of producers and consumers; those of the sweep go through ``front``.
    """

    def __init__(self, shapes: Sequence[tuple[bool, int]], seed: int = 1) -> None:
        """Make a DLQ for each shape: whether it is FIFO, and its number of sources."""
        self.front = Front(SqsModel(VirtualClock(), seed=seed))
        self.model = self.front.model
        self.clock = cast("VirtualClock", self.model.clock)
        self.randomness = random.Random(seed)
        self.others = Front(self.model)
        self.parked = ModelQueue(self.others, "parked", MessageRetentionPeriod=FOURTEEN_DAYS)
        self.fifo_parked = ModelQueue(
            self.others, "parked.fifo", FifoQueue="true", MessageRetentionPeriod=FOURTEEN_DAYS
        )

        self.members = [self._member(*place) for place in enumerate(shapes)]
        self.consumed: dict[str, Consumed] = {}
        for member in self.members:
            for main in member.mains:
                self.consumed[name_of(main)] = Consumed(name_of(main))

        self.turns: list[Turn] = []
        self.sweeps: list[SweepSummary] = []
        self.failed_sweeps = 0
        self.deaths = 0
        self.directory = self._directory()
        self.paused_until: dict[QueueAddress, float] = {}

    def _member(self, number: int, shape: tuple[bool, int]) -> Member:
        is_fifo, sources = shape
        suffix = ".fifo" if is_fifo else ""
        fields = {"FifoQueue": "true"} if is_fifo else {}
        dlq = ModelQueue(
            self.others, f"q{number}-dlq{suffix}", MessageRetentionPeriod=FOURTEEN_DAYS, **fields
        )
        mains: list[ModelQueue] = []
        for source in range(sources):
            main = ModelQueue(
                self.others,
                f"q{number}-{source}{suffix}",
                RedrivePolicy=redrive_policy(dlq, 1),
                **fields,
            )
            mains.append(main)
        member = Member(dlq, mains, name_of(dlq))
        for queue in member.queues:
            self.tag(queue)
        return member

    def exists(self, queue: ModelQueue) -> bool:
        return name_of(queue) in self.model.queues

    def tag(self, queue: ModelQueue) -> None:
        queue.queue.tags["dlq-replay"] = TAG

    def untag(self, queue: ModelQueue) -> None:
        queue.queue.tags.clear()

    def _directory(self) -> FleetDirectory:
        client = DirectClient(self.front)
        return FleetDirectory(
            TAG,
            lambda service: client if service == "resourcegroupstaggingapi" else _NoMappings(),
            self.queue_of,
            InlineExecutor(),
            frozenset(
                {QueueAddress.from_url(queue.url) for queue in (self.parked, self.fifo_parked)}
            ),
            self.clock.time,
        )

    def restart(self) -> None:
        """Let the next sweep begin in a new execution environment."""
        self.directory = self._directory()
        self.paused_until = {}

    def queue_of(self, address: QueueAddress) -> SqsQueue:
        client: Any = DirectClient(self.front)
        return SqsQueue(client, address.url_beside(self.parked.url))

    def sweep(self) -> SweepSummary | None:
        """Sweep as the function does; None if it died, or could not say what to sweep."""
        ends_at = self.clock.time() + SWEEP_SECONDS

        def seconds_left() -> float:
            return ends_at - self.clock.time()

        sweeper = Sweeper(
            self._fleet(),
            self.queue_of,
            InlineExecutor(),
            self.turns.append,
            self.clock.time,
            self.paused_until,
        )
        try:
            with calls_until(seconds_left):
                queues = self.directory.swept_queues()
                dlqs = self.randomness.sample(queues.dlqs, len(queues.dlqs))
                summary = sweeper.sweep(dlqs, seconds_left)
        except QueueError:
            self.failed_sweeps += 1
            return None
        except Died:
            self.deaths += 1
            self.restart()
            return None
        self.sweeps.append(summary)
        return summary

    def sweep_again(self) -> None:
        """Sweep in an execution environment of its own, in the middle of another sweep."""
        own = self.directory
        self.restart()
        self.sweep()
        self.directory = own

    def _fleet(self) -> Fleet:
        settings = FleetSettings(
            queue_tag=TAG,
            parked_queue_url=self.parked.url,
            fifo_parked_queue_url=self.fifo_parked.url,
            policy=ReplayPolicy(QueueAddress("", ""), MAX_ATTEMPTS, Backoff(10, 1200)),
        )
        return Fleet(settings, self.directory, self._replayer, VISIBILITY_SECONDS)

    def _replayer(self, dlq: QueueAddress, parked_url: str, policy: ReplayPolicy) -> Replayer:
        client: Any = DirectClient(self.front)
        return Replayer(
            policy=policy,
            main_queues={source: self.queue_of(source) for source in policy.other_main_queues},
            dlq=self.queue_of(dlq),
            parked_queue=SqsQueue(client, parked_url),
            now_seconds=lambda: int(self.clock.time()),
            draw_up_to=lambda top: self.randomness.randint(0, top),
            executor=InlineExecutor(),
        )

    def consume(self) -> None:
        """Let each consumer work on what is visible.

        A body says how often it fails before it succeeds: ``3 …``. What fails is visible again at
        once, and SQS moves it to the DLQ at its next receive.
        """
        for member in self.members:
            for main in member.mains:
                if self.exists(main):
                    self._consume_queue(main)

    def _consume_queue(self, main: ModelQueue) -> None:
        consumed = self.consumed[name_of(main)]
        while received := main.receive():
            for message in received:
                assert isinstance(message, Message)
                consumed.tries[message.body] += 1
                if consumed.tries[message.body] > int(message.body.split()[0]):
                    consumed.done.append(message.body)
                    main.delete([message])
                else:
                    main.change_visibility([(message, 0)])

    def run(self, minutes: int, each_minute: Callable[[int], object] = lambda _: None) -> None:
        """Let minutes pass: consumers work, *each_minute* acts, and a sweep comes."""
        for minute in range(minutes):
            begins_at = self.clock.time()
            each_minute(minute)
            self.consume()
            self.sweep()
            self.clock.advance(max(0.0, begins_at + 60 - self.clock.time()))

    def parked_bodies(self) -> Counter[str]:
        """The bodies in both parked queues, each as often as it is there."""
        return self.bodies(self.parked) + self.bodies(self.fifo_parked)

    def bodies(self, queue: ModelQueue) -> Counter[str]:
        if not self.exists(queue):
            return Counter()
        return Counter(message.body for message in queue.queue.messages())

    def lost_answers(self) -> int:
        """Entries of sends whose answer was lost."""
        records = self.front.log.records("SendMessageBatch")
        return sum(r.entry_count for r in records if {"lose", "hang"} & set(r.effects))


class _NoMappings:
    def get_paginator(self, _: str) -> "_NoMappings":
        return self

    def paginate(self) -> list[dict[str, Any]]:
        return [{"EventSourceMappings": []}]
