"""A queue through an outage, message by message, over the function's own code. No SQS: events.

The consumer's queue is a list of moments: a copy is tried when it is visible, a failed try makes it
visible again after the visibility timeout, and after the last one it goes to the DLQ, where the
replay function gets it some seconds later, with others. On FIFO every message is a group of its
own.
"""

import heapq
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from dlq_replay.aws.breaker_table import read_deletions
from dlq_replay.replaying.breaker_worker import BreakerWorker
from dlq_replay.replaying.measures import Metric, measure_batch, measure_dlq
from dlq_replay.replaying.replay import BatchOutcome, Replayer
from dlq_replay.replaying.sending import Refused, forever
from dlq_replay.rules.breaker import BreakerView, rules_for
from dlq_replay.rules.decision import Hold, Park, Replay
from dlq_replay.wire.attributes import Attributes
from dlq_replay.wire.message import Message, SendEntry
from tests.support.breaker_tables import FakeBreaker, denied
from tests.support.builders import context, counter, policy, queue_arn, replayer, three_queues

MINUTE = 60
HOUR = 3600
RETENTION_SECONDS = 14 * 24 * HOUR
START = 29_000_000 * 60
"""Second 0: the start of the outage, epoch seconds, at the start of a minute."""

BATCH = 100
BATCH_SECONDS = 7
"""The poller's time to gather a batch: no part of a minute, so that each second has its share."""

DLQ_VISIBILITY_SECONDS = 180


def always(_: int) -> float:
    return 1.0


@dataclass(frozen=True)
class Scenario:
    """The events of an outage. Seconds count from its start, rates are messages a second.

    Attributes:
        rate: of new messages.
        traffic: which share of *rate* comes in a second, 0 to 1.
        outage_seconds: for so long each try fails.
        rate_in_outage: from the tenth minute of the outage on; None: as before.
        failing_share: of the tries in the outage that fail.
        before_seconds: messages come so long before the outage. What was deleted before that is in
            the metric alone.
        after_seconds: and so long after it.
        burst: so many more in one minute, the first of the outage.
        capacity: tries a second; None: no bound.
        works: which share of its *capacity* the consumer has in a second; 0: it receives nothing.
        workers: messages that are in work at once; None: no bound.
        task_seconds: how long a try takes.
        poison_share: of all messages, can never succeed.
        faulty: so many of these more, in one minute, from second 0.
        transient_share: of all messages, fail until they are replayed.
        tenant_share: of all messages, fail throughout the outage; the others do not.
        refused: messages that can never succeed and that the parked queue refuses.
        is_forged: whether producers send every message with a counter and a context, with times.
        visibility_seconds: of the main queue.
        is_fifo: every message is a group of its own.
        is_metric_known: whether the worker can read it.
        has_zeros: whether SQS publishes minutes without a delete.
        has_history: whether there is a metric of the time before the first message.
        late_minutes: how late the metric is at a second, beyond the minutes that are allowed for.
        unpublished: seconds from and to which SQS publishes nothing of the queue.
        has_table: whether the table of the breaker is there.
        has_breaker: whether there is one.
    """

    rate: float = 1.0
    outage_seconds: int = HOUR
    traffic: Callable[[int], float] = always
    rate_in_outage: float | None = None
    failing_share: float = 1.0
    before_seconds: int = 0
    after_seconds: int = HOUR
    burst: int = 0
    capacity: float | None = None
    works: Callable[[int], float] = always
    workers: int | None = None
    task_seconds: int = 0
    poison_share: float = 0.0
    faulty: int = 0
    transient_share: float = 0.0
    tenant_share: float | None = None
    refused: int = 0
    is_forged: bool = False
    visibility_seconds: int = 30
    is_fifo: bool = False
    is_metric_known: bool = True
    has_zeros: bool = True
    has_history: bool = True
    late_minutes: Callable[[int], int] = lambda _: 0
    unpublished: tuple[int, int] = (0, 0)
    has_table: bool = True
    has_breaker: bool = True
    seed: int = 1


@dataclass
class Letter:
    """One message on its way, and what became of it.

    Attributes:
        sent: by its producer, seconds.
        tries: of this copy, by the consumer.
        moved: when SQS moved it to the DLQ, seconds.
        looks: how often the function got it there, on FIFO.
        is_held: whether it is in the DLQ as a copy that the function sent.
        done, parked: when, seconds.
    """

    sent: int
    kind: str
    tries: int = 0
    moved: int = 0
    looks: int = 0
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
        open: CircuitBreakersOpen, as the function published it, by second.
        waiting: messages in the DLQ, by the second of a change.
    """

    MAX_RECEIVES = 5

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.policy = policy(
            "main.fifo" if scenario.is_fifo else "main",
            max_attempts=20,
            rate_seconds=10,
            dlq_retention_seconds=RETENTION_SECONDS,
        )
        self.rules = rules_for(self.policy.main_queue, self.MAX_RECEIVES)
        self.random = random.Random(scenario.seed)
        self.second = -scenario.before_seconds

        self.letters: list[Letter] = []
        self.failed_tries = 0
        self.held = 0
        self.alarms = 0
        self.replays: Counter[int] = Counter()

        self.limits: list[tuple[int, int | None]] = []
        self.open: dict[int, int] = {}
        self.waiting: dict[int, int] = {}
        self.deleted: Counter[int] = Counter()

        self.table = FakeBreaker() if scenario.has_table else FakeBreaker(faults=denied)

        self._main: defaultdict[int, list[int]] = defaultdict(list)
        self._dlq: defaultdict[int, list[int]] = defaultdict(list)
        self._working: defaultdict[int, list[int]] = defaultdict(list)
        self._in_work = 0
        self._in_dlq = 0

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
            self.second = following if self._ready else max(following, coming)
            while self._seconds and self._seconds[0] <= self.second:
                second = heapq.heappop(self._seconds)
                self._ready.extend(self._main.pop(second, ()))
                for index in self._working.pop(second, ()):
                    self._in_work -= 1
                    self._finish_try(index)
                dead_letters = self._dlq.pop(second, [])
                for start in range(0, len(dead_letters), BATCH):
                    self._replay(dead_letters[start : start + BATCH])
            self._consume()
        return self

    def of(self, kind: str) -> list[Letter]:
        return [letter for letter in self.letters if letter.kind == kind]

    @property
    def parked(self) -> int:
        return sum(letter.parked is not None for letter in self.letters)

    @property
    def last_minutes(self) -> float:
        """When the last message of before the outage's end was through, in minutes after it."""
        ends = self.scenario.outage_seconds
        done = [letter.done for letter in self.letters if letter.done and letter.sent < ends]
        return round((max(done, default=ends) - ends) / 60, 1)

    @property
    def peak_after(self) -> int:
        """The most replays in one minute after the outage."""
        ends = self.rules.minute(START + self.scenario.outage_seconds)
        return max((n for minute, n in self.replays.items() if minute >= ends), default=0)

    def _make_replayer(self) -> Replayer:
        worker = BreakerWorker(
            self.table,
            self.rules,
            partial(read_deletions, lambda: self, self.policy.main_queue.name),
            clock_seconds=lambda: self.second,
        )
        self._queues = three_queues()
        made = replayer(
            self.policy,
            *self._queues,
            now_seconds=lambda: self.now,
            breakers={self.policy.main_queue: worker} if self.scenario.has_breaker else {},
        )
        return replace(made, draw_up_to=lambda top: self.random.randint(0, top))

    def get_metric_data(self, **request: Any) -> Mapping[str, Any]:
        """CloudWatch's answer: what the main queue deleted, and that it is used."""
        first_minute = self.rules.minute(int(request["StartTime"].timestamp()))
        minutes = range(first_minute, self._newest_minute(request["EndTime"]))
        published = [minute for minute in minutes if self._is_published(minute)]

        first = self.rules.minute(START - self.scenario.before_seconds)
        usual = 60 * self.scenario.rate * (1 - self.scenario.poison_share)
        # Rounded as a whole: fewer than one a minute are not none in an hour.
        before = {m: int(usual * (m + 1)) - int(usual * m) for m in published}
        deleted = {m: self.deleted[m] if m >= first else before[m] for m in published}
        if not self.scenario.has_zeros:
            deleted = {minute: count for minute, count in deleted.items() if count}

        active = dict.fromkeys(published, 0)
        return {"MetricDataResults": [_series("deleted", deleted), _series("active", active)]}

    def _newest_minute(self, end: datetime) -> int:
        on_time = self.rules.minute(int(end.timestamp()))
        late = self.rules.minute(self.now) - self.scenario.late_minutes(self.second)
        return min(on_time, late)

    def _is_published(self, minute: int) -> bool:
        scenario = self.scenario
        second = minute * 60 - START
        begins, ends = scenario.unpublished
        is_within = scenario.has_history or second >= -scenario.before_seconds
        return scenario.is_metric_known and is_within and not begins <= second < ends

    def _produce(self) -> None:
        scenario = self.scenario
        second = float(self.second)
        while scenario.rate and second < scenario.outage_seconds + scenario.after_seconds:
            rate = scenario.rate if second <= 600 else scenario.rate_in_outage or scenario.rate
            second += self.random.expovariate(rate)

            chance = self.random.random()
            kind = "healthy"
            if chance < scenario.poison_share:
                kind = "poison"
            elif chance < scenario.poison_share + scenario.transient_share:
                kind = "transient"
            elif scenario.tenant_share and chance > 1 - scenario.tenant_share:
                kind = "tenant"

            share = scenario.traffic(int(second))
            if share >= 1 or self.random.random() < share:
                self._send(int(second), kind)

        for _ in range(scenario.burst):
            self._send(self.random.randint(0, 59), "healthy")
        for _ in range(scenario.faulty):
            self._send(self.random.randint(0, 59), "faulty")
        for _ in range(scenario.refused):
            self._send(0, "refused")

        _, _, parked = self._queues
        refused = [index for index, letter in enumerate(self.letters) if letter.kind == "refused"]
        parked.refuses = dict.fromkeys(map(str, refused), Refused("denied"))

    def _send(self, second: int, kind: str) -> None:
        self.letters.append(Letter(second, kind))
        self._put(self._main, second, len(self.letters) - 1)

    def _put(self, queue: defaultdict[int, list[int]], second: int, index: int) -> None:
        if queue is self._dlq:
            second = -(-second // BATCH_SECONDS) * BATCH_SECONDS
        if not any(second in counts for counts in (self._main, self._dlq, self._working)):
            heapq.heappush(self._seconds, second)
        queue[second].append(index)

    def _consume(self) -> None:
        scenario = self.scenario
        if not self._ready or not (works := scenario.works(self.second)):
            return

        room = len(self._ready)
        if scenario.capacity is not None:
            capacity = scenario.capacity * works
            room = min(room, int(capacity * (self.second + 1)) - int(capacity * self.second))
        if scenario.workers is not None:
            room = min(room, int(scenario.workers * works) - self._in_work)

        for _ in range(room):
            index = self._ready.popleft()
            letter = self.letters[index]
            if letter.tries == self.MAX_RECEIVES:
                letter.tries = 0
                letter.moved = self.second
                self._count_in_dlq(1)
                self._put(self._dlq, self.second + 1, index)
            elif scenario.task_seconds:
                self._in_work += 1
                self._put(self._working, self.second + scenario.task_seconds, index)
            else:
                self._finish_try(index)

    def _finish_try(self, index: int) -> None:
        scenario = self.scenario
        letter = self.letters[index]
        if self._succeeds(letter):
            letter.done = self.second
            self.deleted[self.rules.minute(self.now)] += 1
            return
        letter.tries += 1
        self.failed_tries += letter.was_replayed
        hidden = max(1, scenario.visibility_seconds - scenario.task_seconds)
        self._put(self._main, self.second + hidden, index)

    def _succeeds(self, letter: Letter) -> bool:
        scenario = self.scenario
        if letter.kind in {"poison", "faulty", "refused"}:
            return False
        if letter.kind == "transient" and not letter.was_replayed:
            return False
        is_down = 0 <= self.second < scenario.outage_seconds
        if scenario.tenant_share is not None:
            return not (is_down and letter.kind == "tenant")
        return not is_down or self.random.random() >= scenario.failing_share

    def _replay(self, indexes: Sequence[int]) -> None:
        outcome = self._replayer.replay([self._received(index) for index in indexes], forever)
        for planned in outcome.outcomes:
            index = int(planned.message_id.rpartition("-")[2])
            letter = self.letters[index]
            if isinstance(planned.decision, Park):
                letter.parked = self.second
                self._count_in_dlq(-1)
            elif isinstance(planned.decision, Replay):
                letter.was_replayed = True
                letter.looks = 0
                self._count_in_dlq(-1)
                self.replays[self.rules.minute(self.now)] += 1
            elif isinstance(planned.decision, Hold):
                self.held += planned.decision.by_breaker
                if planned.is_left:
                    letter.looks += 1
                    self._put(self._dlq, self.second + planned.decision.wait_seconds, index)
            else:
                letter.looks += 1
                self._put(self._dlq, self.second + DLQ_VISIBILITY_SECONDS, index)

        main, dlq, _ = self._queues
        for queue, sent in ((self._main, main.sent), (self._dlq, dlq.sent)):
            for entry in sent:
                index = int(entry.body)
                self.letters[index].entry = entry
                self._put(queue, self.second + max(1, entry.delay_seconds or 0), index)
                self.letters[index].is_held = queue is self._dlq

        for each in self._queues:
            each.sent.clear()
            each.calls.clear()
            each.visibility.clear()

        self._note(outcome)

    def _received(self, index: int) -> Message:
        letter = self.letters[index]
        system = {}
        if not letter.is_held:
            system["DeadLetterQueueSourceArn"] = queue_arn(self.policy.main_queue.name)
        if self.scenario.is_fifo:
            system["MessageGroupId"] = f"group-{index}"
            system["SentTimestamp"] = str((START + letter.moved) * 1000)
            system["ApproximateReceiveCount"] = str(self.MAX_RECEIVES + 1 + letter.looks)
        attributes = letter.entry.attributes if letter.entry else self._given_attributes(index)
        return Message(f"m-{index}", str(index), attributes, system)

    def _given_attributes(self, index: int) -> Attributes:
        if not self.scenario.is_forged:
            return {}
        times = {"held_seconds": self.now - HOUR, "due_seconds": self.now + HOUR}
        return {**counter("7"), **context(of_body=str(index), first_id="x", **times)}

    def _count_in_dlq(self, change: int) -> None:
        self._in_dlq += change
        self.waiting[self.second] = self._in_dlq

    def _note(self, outcome: BatchOutcome) -> None:
        limit = BreakerView(self.table.numbers, self.now, self.rules).limit
        if limit != (self.limits[-1][1] if self.limits else None):
            self.alarms += limit == 1
            self.limits.append((self.second, limit))
        measured = measure_dlq(outcome, [measure_batch(outcome)], self.now, RETENTION_SECONDS)
        for is_open in measured[Metric.CIRCUIT_BREAKERS_OPEN]:
            self.open[self.second] = is_open


def _series(query: str, values: Mapping[int, int]) -> dict[str, Any]:
    """One result of CloudWatch: its values, by minute."""
    return {
        "Id": query,
        "StatusCode": "Complete",
        "Timestamps": [datetime.fromtimestamp(minute * 60, UTC) for minute in values],
        "Values": list(values.values()),
    }
