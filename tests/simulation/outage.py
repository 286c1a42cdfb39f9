"""An outage, or a share of messages that can never succeed, message by message on a virtual clock.

Time passes in whole seconds: that is the batching window of the replay function's event source.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlq_replay.breaker import BreakerRules
from dlq_replay.breaker_worker import BreakerWorker
from dlq_replay.failures import Failure
from dlq_replay.message import Message, SendEntry
from dlq_replay.sending import MAX_BATCH_ENTRIES
from local_sqs.messages import State
from tests.breaker_tables import FakeBreakers
from tests.simulation.event_source import EventSource
from tests.simulation.stack import Stack

MAX_RECEIVE_COUNT = 5
HOUR = 3600


@dataclass(frozen=True)
class Scenario:
    """What happens.

    Attributes:
        rate: messages a second.
        outage_from: the second from which on the consumer fails on everything.
        outage_seconds: for how long.
        traffic_seconds: how long producers send.
        capacity: messages that the consumer handles in a second; None: all that there are.
        poison_share: of all messages, can never succeed.
        flaky_share: of all messages, fail before they are replayed, and then half of the times.
        records_errors: whether the consumer records why it failed.
        has_breaker: whether there is a circuit breaker.
        groups: message groups on FIFO.
    """

    rate: float = 10
    outage_from: int = 0
    outage_seconds: int = 0
    traffic_seconds: int = 2 * HOUR
    capacity: float | None = None
    poison_share: float = 0.0
    flaky_share: float = 0.0
    records_errors: bool = False
    has_breaker: bool = True
    is_fifo: bool = False
    groups: int = 7
    seed: int = 1

    @property
    def outage_ends(self) -> int:
        """The first second in which the consumer works again."""
        return self.outage_from + self.outage_seconds


@dataclass
class World:
    """A stack with its consumer, and what was seen of it.

    Attributes:
        tries: of the consumer that failed on a replayed copy.
        sent: when each message was first sent, in seconds from the start.
        done: when each message was handled, in seconds from the start.
        handled: how often each message was handled.
        replays: sent to the main queue, by second from the start.
        events: what workers said that they changed, with the second.
        held: how often a message was held for a breaker.
        delayed: what was handled, and had been held for a breaker.
    """

    scenario: Scenario
    tries: int = 0
    done: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    handled: Counter[str] = field(default_factory=Counter)
    replays: Counter[int] = field(default_factory=Counter)
    events: list[tuple[int, str]] = field(default_factory=list)
    held: int = 0
    delayed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        one = self.scenario
        self.stack = Stack(
            is_fifo=one.is_fifo,
            rate_seconds=10,
            cap_seconds=900,
            max_attempts=20,
            max_receive_count=MAX_RECEIVE_COUNT,
            seed=one.seed,
        )
        self.began = self.stack.now_seconds()
        self.deleted: Counter[int] = Counter()
        self.failures: dict[str, Failure] = {}
        self.table = FakeBreakers(self.stack.clock.time)
        self.randomness = random.Random(one.seed)
        self.kinds: dict[str, str] = {}
        if one.has_breaker:
            worker = self.worker()
            queue = self.stack.replayer.policy.main_queue
            self.stack.replayer = replace(self.stack.replayer, breakers={queue: worker})
        self.stack.replayer = replace(self.stack.replayer, find_failures=self._find)
        self.replay_source = self.stack.replay_source(batch_size=10 if one.is_fifo else 100)
        self.consumer = EventSource(self.stack.main, self.handle)

    def worker(self) -> BreakerWorker:
        return BreakerWorker(
            self.table,
            BreakerRules(),
            self.read_deletions,
            MAX_RECEIVE_COUNT if self.scenario.is_fifo else None,
            self.stack.clock.time,
        )

    @property
    def second(self) -> int:
        return self.stack.now_seconds() - self.began

    @property
    def is_down(self) -> bool:
        return self.scenario.outage_from <= self.second < self.scenario.outage_ends

    def read_deletions(self, start_seconds: int, end_seconds: int) -> Mapping[int, int]:
        """SQS publishes zeroes for a queue that is in use, as long as there is traffic."""
        return {slot: self.deleted[slot] for slot in range(start_seconds // 60, end_seconds // 60)}

    def _find(self, message_ids: Sequence[str]) -> Mapping[str, Failure]:
        return {i: self.failures[i] for i in message_ids if i in self.failures}

    def handle(self, batch: Sequence[Message]) -> set[str]:
        left = set()
        for message in batch:
            error = self._error(message)
            if error is None:
                self.handled[message.body] += 1
                self.done[message.body] = self.second
                if message.history.context.held_seconds is not None:
                    self.delayed.add(message.body)
                self.deleted[self.stack.now_seconds() // 60] += 1
                continue
            left.add(message.message_id)
            self.tries += (message.history.replay_count or 0) > 0
            if self.scenario.records_errors:
                failure = Failure(message.message_id, error, "", self.stack.now_seconds())
                self.failures[message.message_id] = failure
        return left

    def _error(self, message: Message) -> str | None:
        if self.is_down:
            return "orders.TimeoutError"
        kind = self.kinds[message.body]
        if kind == "poison":
            return "orders.SchemaError"
        count = message.history.replay_count or 0
        chance = random.Random(f"{self.scenario.seed}:{message.body}:{count}").random()
        return "orders.TimeoutError" if kind == "flaky" and (not count or chance < 0.5) else None

    def pass_second(self) -> None:
        one = self.scenario
        second = self.second
        if second < one.traffic_seconds:
            self._produce(second)
        budget = math.inf if one.capacity is None else _in_second(one.capacity, second)
        while handled := self._consumer(budget).poll() if budget else 0:
            budget -= handled
        before = len(self.stack.outcomes), len(self.stack.replayed)
        while self.replay_source.poll():
            pass
        self.replays[second] += len(self.stack.replayed) - before[1]
        for outcome in self.stack.outcomes[before[0] :]:
            for report in outcome.breakers.values():
                self.held += report.held
                self.events.extend((second, event) for event in report.events)
        self.stack.outcomes.clear()
        self.stack.replayed.clear()
        self.stack.front.log.clear()
        self.stack.clock.advance(1)

    def _consumer(self, budget: float) -> EventSource:
        return (
            self.consumer
            if budget >= MAX_BATCH_ENTRIES
            else replace(self.consumer, batch_size=int(budget))
        )

    def _produce(self, second: int) -> None:
        entries = []
        for index in range(_in_second(self.scenario.rate, second)):
            body = f"{second}-{index}"
            chance = self.randomness.random()
            one = self.scenario
            is_flaky = chance < one.poison_share + one.flaky_share
            kind = "flaky" if is_flaky else "healthy"
            self.kinds[body] = "poison" if chance < one.poison_share else kind
            self.sent[body] = second
            group = f"group-{len(self.sent) % one.groups}" if one.is_fifo else None
            entries.append(SendEntry(body, {}, group, body if one.is_fifo else None))
        for start in range(0, len(entries), MAX_BATCH_ENTRIES):
            self.stack.main.send(entries[start : start + MAX_BATCH_ENTRIES])

    def send_poison(self, body: str) -> None:
        """One message that can never succeed."""
        self.kinds[body] = "poison"
        self.sent[body] = self.second
        self.stack.main.send([SendEntry(body)])

    def run(self, until_second: int, *, until_done: str | None = None) -> None:
        """Let time pass until then, or until producers are done and nothing waits any more.

        With *until_done* what is left of other kinds may wait.
        """
        while self.second < until_second:
            self.pass_second()
            self._skip_idle_seconds(until_second)
            if self.second >= self.scenario.traffic_seconds and not self._is_waiting(until_done):
                return

    def _skip_idle_seconds(self, until_second: int) -> None:
        next_ms = self.stack.model.next_event_ms()
        can_be_received = self.consumer.queue.queue.count(State.READY)
        is_sending = self.scenario.rate > 0 and self.second < self.scenario.traffic_seconds
        if is_sending or next_ms is None or can_be_received:
            return
        seconds = -(-(next_ms - 1000 * self.began) // 1000)
        self.stack.clock.advance_to(1000 * (self.began + min(seconds, until_second)))

    def _is_waiting(self, kind: str | None) -> bool:
        if kind is None:
            return self.waiting > 0
        return any(self.kinds[body] == kind for body in self.sent.keys() - self.done.keys())

    @property
    def waiting(self) -> int:
        return sum(len(q.queue.messages()) for q in (self.stack.main, self.stack.dlq))

    @property
    def parked(self) -> list[str]:
        return [message.body for message in self.stack.parked.queue.messages()]

    def peak_replays(self, from_second: int, seconds: int) -> float:
        """The highest rate of replays over so many seconds, from a moment on."""
        last = max(self.replays, default=0)
        sums = (
            sum(self.replays[s] for s in range(start, start + seconds))
            for start in range(from_second, last + 1)
        )
        return max(sums, default=0) / seconds

    def waits(self, kind: str) -> list[int]:
        """How long messages of one kind took, in seconds, sorted."""
        return sorted(
            self.done[body] - self.sent[body] for body in self.done if self.kinds[body] == kind
        )


def _in_second(per_second: float, second: int) -> int:
    """How many of so many *per_second* come in one second: 0.5 are one in every other."""
    return int(per_second * (second + 1)) - int(per_second * second)
