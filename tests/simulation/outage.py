"""A queue through an outage, message by message, over the function's own code. No SQS: events.

The consumer's queue is a list of moments: a copy is tried when it is visible, a failed try makes it
visible again after the visibility timeout, and after the last one it goes to the DLQ, where the
replay function gets it a second later.
"""

import heapq
import random
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlq_replay.replaying.breaker_worker import BreakerWorker
from dlq_replay.replaying.replay import Replayer
from dlq_replay.replaying.sending import forever
from dlq_replay.rules.breaker import BreakerRules, BreakerView
from dlq_replay.rules.decision import Hold, Park, Replay
from dlq_replay.wire.message import Message, SendEntry
from tests.support.breaker_tables import FakeBreaker
from tests.support.builders import policy, queue_arn, replayer, three_queues

HOUR = 3600
START = 29_000_000 * 60
"""Second 0: the start of the outage, epoch seconds, at the start of a minute."""

MAIN_ARN = queue_arn("main")
BATCH = 100


@dataclass(frozen=True)
class Scenario:
    """What happens. Seconds count from the start of the outage, rates are messages a second.

    Attributes:
        rate: of new messages.
        outage_seconds: for so long each try fails.
        rate_in_outage: from the tenth minute of the outage on; None: as before.
        failing_share: of the tries in the outage that fail.
        before_seconds: messages come so long before the outage. The hour before that is in the
            metric alone.
        after_seconds: and so long after it.
        burst: so many more in one minute, the first of the outage.
        capacity: tries a second; None: no bound.
        off: the consumer is switched off from one moment to another.
        poison_share: of all messages, can never succeed.
        faulty: so many of these more, in one minute, from second 0.
        transient_share: of all messages, fail until they are replayed.
        tenant_share: of all messages, fail throughout the outage; the others do not.
        visibility_seconds: of the main queue.
        is_metric_known: whether the worker can read it.
        has_breaker: whether there is one.
    """

    rate: float = 1.0
    outage_seconds: int = HOUR
    rate_in_outage: float | None = None
    failing_share: float = 1.0
    before_seconds: int = 0
    after_seconds: int = HOUR
    burst: int = 0
    capacity: float | None = None
    off: tuple[int, int] | None = None
    poison_share: float = 0.0
    faulty: int = 0
    transient_share: float = 0.0
    tenant_share: float | None = None
    visibility_seconds: int = 30
    is_metric_known: bool = True
    has_breaker: bool = True
    seed: int = 1


@dataclass
class Letter:
    """One message on its way, and what became of it."""

    sent: int
    kind: str
    tries: int = 0
    was_replayed: bool = False
    is_held: bool = False
    entry: SendEntry | None = None
    done: int | None = None
    parked: int | None = None


class Outage:
    """A stack with its consumer through *scenario*, and what was seen of it.

    Attributes:
        failed_tries: of the consumer, on replayed copies.
        replays: sent to the main queue, by minute.
        held: how often a message was held by the breaker.
        limits: each limit that came into force, with its second.
        alarms: how many stretches of time had a limit of 1.
    """

    MAX_RECEIVES = 5

    def __init__(self, scenario: Scenario, rules: BreakerRules | None = None) -> None:
        self.scenario, self.rules = scenario, rules or BreakerRules()
        self.random = random.Random(scenario.seed)
        self.second = -scenario.before_seconds
        self.letters: list[Letter] = []
        self.failed_tries = self.held = self.alarms = 0
        self.replays: Counter[int] = Counter()
        self.limits: list[tuple[int, int | None]] = []
        self.deleted: Counter[int] = Counter()
        self.table = FakeBreaker()
        self._main: defaultdict[int, list[int]] = defaultdict(list)
        self._dlq: defaultdict[int, list[int]] = defaultdict(list)
        self._seconds: list[int] = []
        self._ready: deque[int] = deque()
        self._replayer = self._make_replayer()
        self._produce()

    @property
    def now(self) -> int:
        return START + self.second

    def run(self, until: int = 40 * HOUR) -> "Outage":
        while (self._seconds or self._ready) and self.second < until:
            following = self.second + 1
            coming = self._seconds[0] if self._seconds else following
            is_off = self.scenario.off and self.scenario.off[0] <= following < self.scenario.off[1]
            self.second = following if self._ready and not is_off else max(following, coming)
            if is_off and self._ready and not self._seconds:
                self.second = self.scenario.off[1] if self.scenario.off else following
            while self._seconds and self._seconds[0] <= self.second:
                second = heapq.heappop(self._seconds)
                self._ready.extend(self._main.pop(second, ()))
                for start in range(0, len(letters := self._dlq.pop(second, [])), BATCH):
                    self._replay(letters[start : start + BATCH])
            self._consume()
        return self

    def of(self, kind: str) -> list[Letter]:
        return [one for one in self.letters if one.kind == kind]

    @property
    def parked(self) -> int:
        return sum(one.parked is not None for one in self.letters)

    @property
    def last_minutes(self) -> float:
        """When the last message of before the outage's end was through, in minutes after it."""
        ends = self.scenario.outage_seconds
        last = max((one.done for one in self.letters if one.done and one.sent < ends), default=ends)
        return round((last - ends) / 60, 1)

    @property
    def peak_after(self) -> int:
        """The most replays in one minute after the outage."""
        ends = self.rules.minute(START + self.scenario.outage_seconds)
        return max((n for minute, n in self.replays.items() if minute >= ends), default=0)

    def _make_replayer(self) -> Replayer:
        worker = BreakerWorker(
            self.table, self.rules, self._read_metric, clock_seconds=lambda: self.second
        )
        ours = policy(max_attempts=20, rate_seconds=10, dlq_retention_seconds=14 * 24 * HOUR)
        self._queues = three_queues()
        made = replayer(
            ours,
            *self._queues,
            now_seconds=lambda: self.now,
            breakers={ours.main_queue: worker} if self.scenario.has_breaker else {},
        )
        return replace(made, draw_up_to=lambda top: self.random.randint(0, top))

    def _read_metric(self, start_seconds: int, end_seconds: int) -> Mapping[int, int]:
        if not self.scenario.is_metric_known:
            return {}
        minutes = range(self.rules.minute(start_seconds), self.rules.minute(end_seconds))
        healthy = 1 - self.scenario.poison_share
        usual = round(60 * self.scenario.rate * healthy)
        first = self.rules.minute(START - self.scenario.before_seconds)
        return {m: self.deleted[m] if m >= first else usual for m in minutes}

    def _produce(self) -> None:
        one = self.scenario
        second = float(self.second)
        while one.rate and second < one.outage_seconds + one.after_seconds:
            rate = one.rate if second <= 600 else one.rate_in_outage or one.rate
            second += self.random.expovariate(rate)
            chance = self.random.random()
            kind = "healthy"
            if chance < one.poison_share:
                kind = "poison"
            elif chance < one.poison_share + one.transient_share:
                kind = "transient"
            elif one.tenant_share and chance > 1 - one.tenant_share:
                kind = "tenant"
            self._send(int(second), kind)
        for _ in range(one.burst):
            self._send(self.random.randint(0, 59), "healthy")
        for _ in range(one.faulty):
            self._send(self.random.randint(0, 59), "faulty")

    def _send(self, second: int, kind: str) -> None:
        self.letters.append(Letter(second, kind))
        self._put(self._main, second, len(self.letters) - 1)

    def _put(self, queue: defaultdict[int, list[int]], second: int, index: int) -> None:
        if second not in self._main and second not in self._dlq:
            heapq.heappush(self._seconds, second)
        queue[second].append(index)

    def _consume(self) -> None:
        one = self.scenario
        if one.off and one.off[0] <= self.second < one.off[1]:
            return
        room = len(self._ready)
        if one.capacity is not None:
            room = min(
                room, int(one.capacity * (self.second + 1)) - int(one.capacity * self.second)
            )
        for _ in range(room):
            index = self._ready.popleft()
            letter = self.letters[index]
            if letter.tries == self.MAX_RECEIVES:
                letter.tries = 0
                self._put(self._dlq, self.second + 1, index)
            elif self._succeeds(letter):
                letter.done = self.second
                self.deleted[self.rules.minute(self.now)] += 1
            else:
                letter.tries += 1
                self.failed_tries += letter.was_replayed
                self._put(self._main, self.second + one.visibility_seconds, index)

    def _succeeds(self, letter: Letter) -> bool:
        one = self.scenario
        if letter.kind in {"poison", "faulty"}:
            return False
        if letter.kind == "transient" and not letter.was_replayed:
            return False
        is_down = 0 <= self.second < one.outage_seconds
        if one.tenant_share is not None:
            return not (is_down and letter.kind == "tenant")
        return not is_down or self.random.random() >= one.failing_share

    def _replay(self, indexes: Sequence[int]) -> None:
        outcome = self._replayer.replay([self._received(index) for index in indexes], forever)
        for step in outcome.outcomes:
            letter = self.letters[int(step.message_id.rpartition("-")[2])]
            if isinstance(step.fate, Park):
                letter.parked = self.second
            elif isinstance(step.fate, Replay):
                letter.was_replayed = True
                self.replays[self.rules.minute(self.now)] += 1
            elif isinstance(step.fate, Hold):
                self.held += step.fate.by_breaker
        main, dlq, _ = self._queues
        for queue, sent in ((self._main, main.sent), (self._dlq, dlq.sent)):
            for entry in sent:
                index = int(entry.body)
                self.letters[index].entry = entry
                self._put(queue, self.second + max(1, entry.delay_seconds or 0), index)
                self.letters[index].is_held = queue is self._dlq
        for one in self._queues:
            one.sent.clear()
            one.calls.clear()
        self._note_limit()

    def _received(self, index: int) -> Message:
        letter = self.letters[index]
        moved = {} if letter.is_held else {"DeadLetterQueueSourceArn": MAIN_ARN}
        attributes = letter.entry.attributes if letter.entry else {}
        return Message(f"m-{index}", str(index), attributes, moved)

    def _note_limit(self) -> None:
        limit = BreakerView(self.table.numbers, self.now, self.rules).limit
        if limit != (self.limits[-1][1] if self.limits else None):
            self.alarms += limit == 1
            self.limits.append((self.second, limit))
