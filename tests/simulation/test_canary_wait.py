"""A canary's wait on a virtual clock, over counts that lag behind by up to a minute.

One canary is sent at 0. The consumer receives it some times, each time hides it for as long as it
may, and then handles it, fails for the last time, or is heard of no more.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spark_reprocess.canary.options import NONE, CanaryOptions, Redelivery, Share
from spark_reprocess.canary.watch import MOST_RESTARTS, ObservationWindow, Verdict, Watch, judge

from spark_reprocess.clients import QueueCounts

LAG_SECONDS = 60
NO_LAG, SOME_LAG, FULL_LAG = (0, 0), (0, LAG_SECONDS), (LAG_SECONDS, LAG_SECONDS)
LAGS = [(NO_LAG, NO_LAG), (SOME_LAG, SOME_LAG), (FULL_LAG, FULL_LAG), (NO_LAG, FULL_LAG)]
"""From the send, and from some moment on."""

MAX_RECEIVES = 3
VISIBILITY_SECONDS = 30
REDELIVERY = Redelivery(VISIBILITY_SECONDS, MAX_RECEIVES, "arn")
DELAYED = Redelivery(VISIBILITY_SECONDS, MAX_RECEIVES, "arn", delay_seconds=90)

LOOK_SECONDS = 0.01
"""What a call takes; the clock must move for a loop to end."""


@dataclass(frozen=True)
class Receive:
    """The consumer takes the canary *after_seconds* of its being visible, and hides it so long."""

    after_seconds: float
    hidden_seconds: float


@dataclass
class World:
    """Queues whose counts are those of some moment in the last minute.

    Attributes:
        receives: of the canary; after the last it is visible for good.
        is_handled: the last receive deletes it.
        is_stopped: after the last receive the consumer receives no more, and SQS moves nothing.
        traffic_waits: whether a message of the live traffic is visible at a time.
        parked_after_seconds: how long a canary that has failed takes over the DLQ.
    """

    receives: Sequence[Receive]
    is_handled: bool
    chance: random.Random
    redelivery: Redelivery = REDELIVERY
    is_stopped: bool = False
    parked_after_seconds: float = 0.0
    traffic_waits: Callable[[float], bool] = lambda _: False
    traffic_in_flight: int = 0
    now: float = 0.0
    is_archived: bool = False

    def __post_init__(self) -> None:
        self.lags = self.chance.choice(LAGS)
        self.lags_from = self.chance.uniform(0, 300)

    @property
    def has_failed(self) -> bool:
        is_left = self.is_handled or self.is_stopped
        return len(self.receives) == MAX_RECEIVES and not is_left

    def stay(self, now: float) -> str:
        """Where the canary is: delayed, visible, in_flight, gone, dead (in the DLQ), parked."""
        at: float = self.redelivery.delay_seconds
        if now < at:
            return "delayed"
        for number, receive in enumerate(self.receives):
            at += receive.after_seconds
            if now < at:
                return "visible"
            at += receive.hidden_seconds
            if now < at:
                return "in_flight"
            if self.is_handled and number == len(self.receives) - 1:
                return "gone"
        if not self.has_failed:
            return "visible"
        return "dead" if now < at + self.parked_after_seconds else "parked"

    def then(self) -> float:
        self.now += LOOK_SECONDS
        before, after = self.lags
        return self.now - self.chance.uniform(*(before if self.now < self.lags_from else after))

    def main(self) -> QueueCounts | None:
        then = self.then()
        there = [self.stay(then) == state for state in ("visible", "in_flight", "delayed")]
        visible, in_flight, delayed = there if then >= 0 else (0, 0, 0)
        traffic = self.traffic_waits(then)
        return QueueCounts(visible + traffic, in_flight + self.traffic_in_flight, delayed)

    def dead_letters_waiting(self) -> int | None:
        return int(self.stay(self.then()) == "dead")

    def parked(self) -> QueueCounts | None:
        is_parked = self.stay(self.then()) == "parked" and not self.is_archived
        return QueueCounts(int(is_parked), 0, 0)

    def fetch(self) -> str:
        self.is_archived |= self.stay(self.now) == "parked"
        return ""

    def returned(self) -> dict[str, str]:
        return {"first": "KeyError"} if self.is_archived else {}

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def verdict(
        self,
        consumer_max_seconds: int | None = None,
        make_window: type[ObservationWindow] = ObservationWindow,
    ) -> Verdict:
        options = CanaryOptions(Share.of("1"), "url", consumer_max_seconds=consumer_max_seconds)
        wait_seconds = options.wait(self.redelivery)
        stale_seconds = options.stale_seconds(self.redelivery)
        watch = Watch(
            {"first": "g"},
            {"g": 1},
            NONE,
            make_window(0.0, stale_seconds, wait_seconds),
            self,
            lambda: self.now,
            self.sleep,
            lambda: "",
            poll_seconds=options.reading_interval_seconds(wait_seconds),
        )
        watch.run()
        # Each time it waits for the backlog to be gone, then for failures; there is an end.
        assert self.now < stale_seconds + (MOST_RESTARTS + 2) * 2 * (wait_seconds + 60)
        (judged,) = judge({"g": 1}, watch.failures, NONE, watch.unknown)
        return judged.verdict


seeds = st.integers(0, 2**32)
delays = st.sampled_from([REDELIVERY, DELAYED])
backlogs = st.floats(0, 150)
"""How long the canary waits for its first receive; after that the consumer is prompt."""
prompt = st.floats(0, 1)


def receives_of(hidden: st.SearchStrategy[float], count: int) -> st.SearchStrategy[list[Receive]]:
    first = st.builds(Receive, backlogs, hidden)
    later = st.builds(Receive, prompt, hidden)
    return st.tuples(first, *[later] * (count - 1)).map(list)


in_time = st.sampled_from([0.0, VISIBILITY_SECONDS / 2, float(VISIBILITY_SECONDS)])
some_receives = st.integers(1, MAX_RECEIVES).flatmap(partial(receives_of, in_time))


@given(seeds, delays, st.just([]) | some_receives)
def test_canary_of_a_consumer_that_never_receives_it_or_stops_never_passes(
    seed: int, redelivery: Redelivery, receives: list[Receive]
) -> None:
    world = World(receives, is_handled=False, chance=random.Random(seed), redelivery=redelivery)
    world.is_stopped = True

    assert world.verdict() is Verdict.UNKNOWN


@given(seeds, delays, receives_of(in_time, MAX_RECEIVES), st.floats(0, 100))
def test_canary_that_fails_is_seen_however_late_the_counts(
    seed: int, redelivery: Redelivery, receives: list[Receive], parked_after: float
) -> None:
    world = World(receives, is_handled=False, chance=random.Random(seed), redelivery=redelivery)
    world.parked_after_seconds = parked_after

    assert world.verdict() is not Verdict.PASSED


long = st.sampled_from([VISIBILITY_SECONDS, 100, 300])


@given(
    seeds,
    st.integers(1, MAX_RECEIVES).flatmap(partial(receives_of, long.map(float))),
    st.booleans(),
)
def test_canary_that_a_heartbeat_hides_never_passes_before_it_is_done(
    seed: int, receives: list[Receive], is_stopped: bool
) -> None:
    world = World(receives, is_handled=False, chance=random.Random(seed))
    world.is_stopped = is_stopped

    assert world.verdict(consumer_max_seconds=300) is not Verdict.PASSED


def live_traffic(chance: random.Random, per_second: int) -> Callable[[float], bool]:
    """Messages at random, each received within 40 ms: one reading in five shows one."""
    taken: dict[int, list[tuple[float, float]]] = {}

    def is_waiting(now: float) -> bool:
        second = int(now)
        if second not in taken:
            starts = [second + chance.random() for _ in range(per_second)]
            taken[second] = [(start, start + chance.uniform(0, 0.04)) for start in starts]
        return any(start <= now < end for start, end in taken[second])

    return is_waiting


@given(seeds, delays, st.integers(0, 500))
def test_canary_that_is_handled_passes_among_ten_healthy_messages_a_second(
    seed: int, redelivery: Redelivery, in_flight: int
) -> None:
    chance = random.Random(seed)
    world = World([Receive(0.1, 1.0)], is_handled=True, chance=chance, redelivery=redelivery)
    world.traffic_waits = live_traffic(chance, 10)
    world.traffic_in_flight = in_flight

    assert world.verdict() is Verdict.PASSED


class BelievesEveryReading(ObservationWindow):
    """Starts the wait on counts that are older than the canary."""

    def record(self, now: float, main: QueueCounts | None) -> None:
        self.stale_seconds = 0.0
        super().record(now, main)


class ReadsNoMore(ObservationWindow):
    """Does not read the main queue again once the wait has begun."""

    def record(self, now: float, main: QueueCounts | None) -> None:
        if self.started_at is None:
            super().record(now, main)


class EndsOnABacklog(ObservationWindow):
    """Ends with the time, whatever the last reading shows."""

    def is_over(self, now: float) -> bool:
        return self.started_at is not None and self.seconds_left(now) == 0


class WaitsForOneReceive(ObservationWindow):
    """Waits as if the first failure had to show."""

    def seconds_left(self, now: float) -> float:
        return max(0.0, super().seconds_left(now) - VISIBILITY_SECONDS * (MAX_RECEIVES - 1))


class LooksOnce(BelievesEveryReading, ReadsNoMore):
    """Believes the first two readings."""


RECEIVE = Receive(1.0, 30.0)
LATE = Receive(100.0, 30.0)


@pytest.mark.parametrize(
    ("broken", "receives", "is_stopped"),
    [
        (LooksOnce, [], True),
        (ReadsNoMore, [LATE], True),
        (EndsOnABacklog, [LATE, RECEIVE, RECEIVE], True),
        (WaitsForOneReceive, [LATE, RECEIVE, RECEIVE], False),
    ],
)
def test_laws_catch_a_broken_wait(
    broken: type[ObservationWindow], receives: list[Receive], is_stopped: bool
) -> None:
    worlds = [
        World(
            receives,
            is_handled=False,
            chance=random.Random(seed),
            is_stopped=is_stopped,
            parked_after_seconds=50.0,
        )
        for seed in range(300)
    ]

    assert Verdict.PASSED in {world.verdict(make_window=broken) for world in worlds}
