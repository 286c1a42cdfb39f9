"""Simulates an outage of the consumer: main queue, consumer, DLQ, replay function, and cost. Pure.

The function is the product's own ``Replayer``, circuit breaker included, so the simulation follows
its rules. Each of at most ``MAX_SAMPLES`` simulated messages is a sample: it stands for as many
messages as its weight. Delays are drawn from an evenly spread sequence instead of at random, so
the result is the same each time and close to the expected value.

Prices are in dollars for us-east-1, as of 2026-11, without free tiers; docs/growth.md, "Where the
prices come from", has the sources. Each request carries at most 64 KiB, which is billed as one.
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any

from dlq_replay.backoff import Backoff
from dlq_replay.replaying.breaker_worker import BreakerWorker
from dlq_replay.replaying.replay import Replayer
from dlq_replay.replaying.sending import Confirmed, SendResult
from dlq_replay.rules.breaker import BreakerRules, Update, apply
from dlq_replay.rules.decision import Hold, Park, Replay
from dlq_replay.rules.policy import QueueLimits, ReplayPolicy
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.message import Message, SendEntry

MAX_SAMPLES = 2000

MAX_IN_FLIGHT = 120_000
"""The quota of messages in flight in one queue. Above it, receives return nothing:
SQSDeveloperGuide, "Amazon SQS visibility timeout"."""

LOAD_SECONDS = 10
"""The load on the consumer is counted for each ten seconds."""

MINUTE_SECONDS = 60
"""All else is counted for each minute."""

PRICES_AS_OF = "2026-11"
PRICES_REGION = "us-east-1"

SQS_PER_REQUEST = 0.40e-6
LAMBDA_PER_INVOCATION = 0.20e-6
LAMBDA_ARM64_PER_GB_SECOND = 0.0000133334

SQS_BATCH_ENTRIES = 10
"""The most messages in one receive, send or delete."""

FUNCTION_GB = 0.25
EVENT_MESSAGES = 100
"""Of the template: memory of the function, and the most messages in one invocation."""

EVENT_SECONDS = 0.1
MESSAGE_SECONDS = 0.003
"""Duration of an invocation, and the part that each message adds: a conservative estimate.

``make bench`` measures 2 ms of CPU time for one message and about 25 ms for a hundred; a function
of 256 MB has a seventh of a CPU."""

MILLION = 1_000_000

STARTED_SECONDS = 1_700_000_040
"""When the outage begins, at the start of a minute. Any time works: rules use differences only."""

MAIN_QUEUE = QueueAddress("000000000000", "main")
_DLQ_RETENTION_SECONDS = 1_209_600
_MAIN_ARN = "arn:aws:sqs:eu-west-1:000000000000:main"
_SAMPLE = "sample"
_GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


def policy_of(
    max_attempts: int = 20,
    backoff_rate: float = 10,
    cap_seconds: int = 900,
    max_age_seconds: int | None = None,
) -> ReplayPolicy:
    """Return the policy of a stack with these parameters; the template's by default.

    Raises:
        ValueError: a number of the backoff is out of range.
    """
    limits = QueueLimits(dlq_retention_seconds=_DLQ_RETENTION_SECONDS)
    backoff = Backoff(backoff_rate, cap_seconds)
    return ReplayPolicy(MAIN_QUEUE, max_attempts, backoff, max_age_seconds, limits=limits)


@dataclass(frozen=True, slots=True)
class Scenario:
    """An outage: every try of the consumer fails from second 0 until its end, and none after it.

    Attributes:
        outage_seconds: its length, at least 1.
        arrivals_per_second: new messages during and after the outage, above 0.
        policy: of ``policy_of``; the template's by default, as the fields of the queue.
        visibility_timeout_seconds: of main: how long a copy stays hidden after a failed try.
        max_receive_count: of main: failed tries of one copy before it is a dead letter.
        capacity_per_second: tries that the consumer can make per second; None: no limit.
    """

    outage_seconds: int
    arrivals_per_second: float
    policy: ReplayPolicy = field(default_factory=policy_of)
    visibility_timeout_seconds: int = 30
    max_receive_count: int = 5
    capacity_per_second: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if a backlog would never shrink."""
        rate, capacity = self.arrivals_per_second, self.capacity_per_second
        if capacity is not None and capacity <= rate:
            raise ValueError(
                f"a capacity of {capacity:g} a second cannot reduce a backlog while {rate:g} a "
                "second arrive: it must be larger"
            )


@dataclass(slots=True)
class Recovery:
    """What became of the messages of an outage, which are those that arrived before its end.

    Attributes:
        arrived: messages of the outage.
        recovered, parked: of these, processed without a person, or in the parked queue.
        replays: copies that the function sent to main.
        failed_tries: of the consumer.
        held: how often the circuit breaker held a message.
        last_through_seconds: when the last message was processed, from the end of the outage.
        peak_in_flight: the most copies in main that were hidden at a time.
        load: tries, by ``LOAD_SECONDS`` from the start; later messages included.
        tries, through, receives: tries of messages of the outage, those that were processed, and
            dead letters that the function received, by minute from the start.
    """

    scenario: Scenario
    arrived: int
    recovered: int = 0
    parked: int = 0
    replays: int = 0
    failed_tries: int = 0
    held: int = 0
    last_through_seconds: float = 0.0
    peak_in_flight: int = 0
    load: Counter[int] = field(default_factory=Counter)
    tries: Counter[int] = field(default_factory=Counter)
    through: Counter[int] = field(default_factory=Counter)
    receives: Counter[int] = field(default_factory=Counter)

    @property
    def parked_share(self) -> float:
        """The share of the outage's messages that is parked, 0 to 1."""
        return self.parked / self.arrived

    @property
    def peak_load(self) -> float:
        """The most tries per second after the outage, as a mean of ``LOAD_SECONDS``."""
        first = self.scenario.outage_seconds / LOAD_SECONDS
        peak = max((tries for part, tries in self.load.items() if part >= first), default=0)
        # Samples come in lumps, which the mean does not always level out.
        return min(peak / LOAD_SECONDS, self.scenario.capacity_per_second or math.inf)

    @property
    def sqs_requests(self) -> float:
        """Receives, sends and deletes for the DLQ; receives and deletes of the consumer."""
        counts = (self.receives, self.receives, self.receives, self.tries, self.through)
        return sum(_shared(one, SQS_BATCH_ENTRIES) for one in counts)

    @property
    def invocations(self) -> float:
        """Invocations of the replay function."""
        return _shared(self.receives, EVENT_MESSAGES)

    @property
    def dollars(self) -> float:
        """Cost of the requests, the invocations and their duration, without the normal traffic."""
        of_lambda = lambda_dollars(self.invocations, self.receives.total())
        return self.sqs_requests * SQS_PER_REQUEST + of_lambda

    @property
    def dollars_per_million(self) -> float:
        """The same for a million messages of such an outage."""
        return self.dollars / self.arrived * MILLION


def lambda_dollars(invocations: float, messages: float) -> float:
    """Return the cost of *invocations* that have so many *messages* together."""
    seconds = invocations * EVENT_SECONDS + messages * MESSAGE_SECONDS
    time_dollars = seconds * FUNCTION_GB * LAMBDA_ARM64_PER_GB_SECOND
    return invocations * LAMBDA_PER_INVOCATION + time_dollars


def _shared(counts: Mapping[int, int], at_most: int) -> float:
    """Return the number of requests of up to *at_most* messages, for messages by minute.

    The messages of a second share them.
    """
    return sum(
        MINUTE_SECONDS * math.ceil(count / MINUTE_SECONDS / at_most)
        if count > MINUTE_SECONDS
        else count
        for count in counts.values()
    )


def simulate(scenario: Scenario, *, has_breaker: bool) -> Recovery:
    """Simulate an outage until its last message is processed or parked."""
    return _World(scenario, has_breaker=has_breaker).run()


@dataclass(slots=True)
class _Sample:
    """A simulated message.

    Attributes:
        weight: how many messages it stands for.
        is_late: whether it arrived after the outage.
    """

    weight: int
    is_late: bool


class _Queue:
    """A queue that confirms each entry, with the id that *take* gives to the new copy."""

    def __init__(self, url: str, take: Callable[[SendEntry], str]) -> None:
        self.url, self._take = url, take

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        return [Confirmed(self._take(entry)) for entry in entries]

    def change_visibility(self, changes: Sequence[tuple[Message, int]]) -> Sequence[Message]:
        """Confirm nothing: only FIFO queues need it, and they are not simulated."""
        return [message for message, _ in changes]


class _InlineExecutor(Executor):
    """Runs each call at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401 - as Executor
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


_DLQ, _ARRIVAL, _MAIN = range(3)
"""Kinds of events, in their order at one moment."""


class _World:
    """The queues, with the copies in them, as a heap of events.

    An event is a copy that becomes visible: when, its kind, a number that keeps the order, the
    copy, and how often it was tried. Its attribute ``sample`` is the number of its sample.
    """

    def __init__(self, scenario: Scenario, *, has_breaker: bool) -> None:
        total = max(1, round(scenario.arrivals_per_second * scenario.outage_seconds))
        self._weight = math.ceil(total / MAX_SAMPLES)
        count = round(total / self._weight)
        self._scenario = scenario
        self._recovery = Recovery(scenario, arrived=count * self._weight)
        self._spacing = scenario.outage_seconds / count
        self._samples: list[_Sample] = []
        self._left = count
        self._arrived = self._order = self._now = 0
        self._events: list[tuple[float, int, int, Message, int]] = []
        self._positions: defaultdict[int, float] = defaultdict(float)
        self._free_at = 0.0
        # The ends of the hidden samples. Their number is whole, so each counts for a little less
        # than the visibility timeout, or for longer where one weighs more than the quota.
        self._hidden: deque[float] = deque(maxlen=max(1, MAX_IN_FLIGHT // self._weight))
        self._quota_samples = MAX_IN_FLIGHT / self._weight
        self._breaker = SimulatedBreaker(self._weight, 1 / self._spacing) if has_breaker else None
        self._replayer = Replayer(
            scenario.policy,
            main_queues={MAIN_QUEUE: _Queue("main", lambda entry: self._send(_MAIN, entry))},
            dlq=_Queue("dlq", lambda entry: self._send(_DLQ, entry)),
            parked_queue=_Queue("parked", lambda _: "parked"),
            now_seconds=lambda: STARTED_SECONDS + self._now,
            draw_up_to=self._draw,
            executor=_InlineExecutor(),
            breakers={MAIN_QUEUE: self._breaker.worker} if self._breaker else {},
        )

    def run(self) -> Recovery:
        self._arrive()
        while self._left:
            at, kind, _, message, tries = heappop(self._events)
            if kind == _DLQ:
                batch = [message]
                while self._events and self._events[0][:2] == (at, _DLQ):
                    batch.append(heappop(self._events)[3])
                self._replay(at, batch)
                continue
            if kind == _ARRIVAL:
                self._arrive()
            self._try(at, message, tries)
        return self._recovery

    def _arrive(self) -> None:
        """Let the next message arrive; they go on after the outage."""
        at = self._spacing * (self._arrived + 0.5)
        self._arrived += 1
        sample = _Sample(self._weight, at >= self._scenario.outage_seconds)
        self._push(at, _ARRIVAL, self._add("first", sample, Message("", "x")))

    def _add(self, kind: str, sample: _Sample, like: Message) -> Message:
        """Add a sample; return its message, which has all of *like* but the id."""
        number = str(len(self._samples))
        self._samples.append(sample)
        attributes = {**like.attributes, _SAMPLE: MessageAttribute("Number", number)}
        return replace(like, message_id=f"{kind}-{number}", attributes=attributes)

    def _sample(self, message: Message) -> _Sample:
        return self._samples[int(message.attributes[_SAMPLE].value)]

    def _push(self, at: float, kind: int, message: Message, tries: int = 0) -> None:
        self._order += 1
        heappush(self._events, (at, kind, self._order, message, tries))

    def _try(self, visible_at: float, message: Message, tries: int) -> None:
        """Let the consumer try a copy, as soon as it has the capacity and SQS hands it out."""
        sample, recovery = self._sample(message), self._recovery
        at, hidden = max(visible_at, self._free_at), self._hidden
        while hidden and hidden[0] <= at:
            hidden.popleft()
        if len(hidden) == hidden.maxlen:
            at = hidden.popleft()
        capacity = self._scenario.capacity_per_second
        self._free_at = at + (sample.weight / capacity if capacity else 0)
        recovery.load[int(at // LOAD_SECONDS)] += sample.weight
        if not sample.is_late:
            recovery.tries[int(at // MINUTE_SECONDS)] += sample.weight
        if at < self._scenario.outage_seconds:
            self._fail(at, message, tries + 1, sample.weight)
            return
        if self._breaker:
            self._breaker.count_deleted(int(at))
        if not sample.is_late:
            self._left -= 1
            recovery.recovered += sample.weight
            recovery.through[int(at // MINUTE_SECONDS)] += sample.weight
            recovery.last_through_seconds = at - self._scenario.outage_seconds

    def _fail(self, at: float, message: Message, tries: int, weight: int) -> None:
        """Hide a copy after its failed try; then it is in main again, or in the DLQ."""
        recovery, timeout = self._recovery, self._scenario.visibility_timeout_seconds
        recovery.failed_tries += weight
        if timeout:
            samples = self._hidden.maxlen or 1
            self._hidden.append(at + timeout * samples / self._quota_samples)
            in_flight = len(self._hidden) * MAX_IN_FLIGHT // samples
            recovery.peak_in_flight = max(recovery.peak_in_flight, in_flight)
        if tries < self._scenario.max_receive_count:
            self._push(at + timeout, _MAIN, message, tries)
        else:
            system = {"DeadLetterQueueSourceArn": _MAIN_ARN}
            dead = Message(message.message_id, message.body, message.attributes, system)
            self._push(math.ceil(at + timeout), _DLQ, dead)

    def _replay(self, at: float, messages: Sequence[Message]) -> None:
        self._now = int(at)
        if self._breaker:
            self._breaker.now_seconds = self._now
        outcome = self._replayer.replay(messages, lambda: math.inf)
        recovery, copies = self._recovery, {message.message_id: message for message in messages}
        for step in outcome.outcomes:
            message = copies[step.message_id]
            sample = self._sample(message)
            # A replay under a limit of 1 is no attempt, and is one message of its sample.
            if isinstance(step.fate, Replay) and not step.fate.is_counted and sample.weight > 1:
                self._split(message, sample)
            recovery.receives[self._now // MINUTE_SECONDS] += sample.weight
            if isinstance(step.fate, Hold) and step.fate.by_breaker:
                recovery.held += sample.weight
            elif isinstance(step.fate, Park):
                self._left -= not sample.is_late
                recovery.parked += sample.weight
            elif isinstance(step.fate, Replay):
                recovery.replays += sample.weight

    def _split(self, message: Message, sample: _Sample) -> None:
        """Let *sample* be one message, and the others that it stood for wait in the DLQ."""
        others = _Sample(sample.weight - 1, sample.is_late)
        self._left += not sample.is_late
        sample.weight = 1
        # Not moved by SQS once more: the breaker has counted them.
        left = replace(message, system={})
        self._push(self._now + 1, _DLQ, self._add("others", others, left))

    def _send(self, kind: int, entry: SendEntry) -> str:
        message = Message(f"copy-{self._order}", entry.body, entry.attributes)
        self._push(self._now + (entry.delay_seconds or 0), kind, message)
        return message.message_id

    def _draw(self, ceiling: int) -> int:
        """Draw from 0 to *ceiling*. The golden ratio spreads any number of draws evenly."""
        self._positions[ceiling] = (self._positions[ceiling] + _GOLDEN_RATIO) % 1
        return int(self._positions[ceiling] * (ceiling + 1))


class SimulatedBreaker:
    """The breaker of main: the product's own worker on a table in memory, which is this object.

    The worker counts samples, each of which stands for many messages. So the thresholds that are
    numbers of messages are divided by the weight of a sample.

    Args:
        weight: how many messages a sample stands for.
        samples_before: that main deleted per second before the outage.

    Attributes:
        worker: for the ``Replayer``.
        now_seconds: the clock, in seconds from the start of the outage; the caller sets it.
    """

    def __init__(self, weight: int, samples_before: float) -> None:
        rules = BreakerRules()
        self._rules = replace(
            rules,
            judged_deletes=math.ceil(rules.judged_deletes / weight),
            least_returns=math.ceil(rules.least_returns / weight),
            # More than 1, which is the limit while the consumer does not work.
            full_least=max(2, math.ceil(rules.full_least / weight)),
        )
        self._deleted: Counter[int] = Counter()
        self._per_minute_before = samples_before * rules.minute_seconds
        self._numbers: Mapping[str, int] = {}
        self.now_seconds = 0
        self.worker = BreakerWorker(
            self, self._rules, self._read_deletions, clock_seconds=lambda: self.now_seconds
        )

    def count_deleted(self, at_seconds: int) -> None:
        """Count a sample that main deleted, in seconds from the start of the outage."""
        self._deleted[self._rules.minute(STARTED_SECONDS + at_seconds)] += 1

    def read(self) -> Mapping[str, int]:
        """Return the numbers."""
        return self._numbers

    def update(self, update: Update) -> tuple[bool, Mapping[str, int]]:
        """Change the numbers if they are as expected."""
        changed = apply(self._numbers, update)
        self._numbers = self._numbers if changed is None else changed
        return changed is not None, self._numbers

    def _read_deletions(self, start_seconds: int, end_seconds: int) -> Mapping[int, int]:
        first, minute = self._rules.minute(STARTED_SECONDS), self._rules.minute
        minutes = range(minute(start_seconds), minute(end_seconds))
        # Rounded as a whole: fewer than one a minute are not none in an hour.
        before = {
            m: int(self._per_minute_before * (m + 1)) - int(self._per_minute_before * m)
            for m in minutes
        }
        return {m: self._deleted[m] if m >= first else before[m] for m in minutes}
