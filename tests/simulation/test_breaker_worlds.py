"""The worlds of the circuit breaker: what outages and faulty messages do, with and without it.

Each row is small enough for every run. ``tests/soak/test_outages.py`` has outages at full size,
and ``tests/simulation/test_healthy_worlds.py`` what must never be limited.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import pytest

from dlq_replay.errors import TableError
from dlq_replay.replaying.breaker_worker import BreakerWorker
from dlq_replay.replaying.sending import forever
from dlq_replay.rules.breaker import rules_for
from dlq_replay.wire.message import Message, SendEntry
from local_sqs.clock import VirtualClock
from tests.simulation.event_source import EventSource, run
from tests.simulation.outage import HOUR, START, Outage, Scenario
from tests.simulation.stack import Stack
from tests.support.breaker_tables import FakeBreaker
from tests.support.builders import context, message, policy, queue_arn, replayer, three_queues

zeros = pytest.mark.parametrize("has_zeros", [True, False], ids=["zeros", "no zeros"])
"""AWS's pages disagree on whether a minute without a delete is published as 0 or not at all."""


def off(begins: int, ends: int) -> Callable[[int], float]:
    """A consumer that receives nothing from one second to another."""
    return lambda second: not begins <= second < ends


def low(world: Outage) -> list[float]:
    """When a limit of 1 came into force, in minutes of the outage."""
    return [round(second / 60, 1) for second, limit in world.limits if limit == 1]


OUTAGES = {
    # world: (scenario, failed tries at most, last message's minutes at most)
    "1 h": (Scenario(1), 2_500, 31),
    "1 h, a consumer of 3 times the load": (Scenario(1, capacity=3), 1_300, 31),
    "4 h": (Scenario(0.05, 4 * HOUR), 2_000, 95),
    "4 h, a consumer of 3 times the load": (Scenario(0.1, 4 * HOUR, capacity=0.3), 750, 107),
    "2 h, off from 15 to 75": (Scenario(0.25, 2 * HOUR, works=off(900, 4500)), 1_500, 40),
    "burst, 20 min": (Scenario(0, 1200, burst=1000, after_seconds=0), 9_500, 28),
    "grows ten times, 2 h": (Scenario(0.03, 2 * HOUR, rate_in_outage=0.3), 1_500, 60),
    "1 a minute, 4 h": (Scenario(1 / 60, 4 * HOUR), 2_500, 30),
    "1 in 5 minutes, 4 h": (Scenario(1 / 300, 4 * HOUR), 1_500, 30),
    "1 in 5 minutes, 11 h": (Scenario(1 / 300, 11 * HOUR), 4_000, 30),
    "burst, 8 h, off from 60 to 75": (
        Scenario(0, 8 * HOUR, burst=100, after_seconds=0, works=off(HOUR, HOUR + 900)),
        4_500,
        30,
    ),
    "90 % of the messages hit, 4 h": (Scenario(0.1, 4 * HOUR, tenant_share=0.9), 16_000, 100),
}


@zeros
@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_of_the_consumer(name: str, *, has_zeros: bool) -> None:
    """Promises 1, 2 and 3: few failed tries, nothing parked, no flood, done in time; one alarm."""
    scenario, most, last_minutes = OUTAGES[name]
    load = scenario.rate_in_outage or max(scenario.rate, scenario.burst / 600)
    # A backlog of a consumer that was off fails at once, and counts as load.
    most_loads = 5.6 if "off" in name else 3.2
    scenario = replace(scenario, has_zeros=has_zeros)
    world = check_outage(scenario, most, last_minutes, max(30, most_loads * 60 * load))

    assert world.alarms == 1


def check_outage(scenario: Scenario, most: int, last_minutes: float, peak: float) -> Outage:
    """Play it; assert its failed tries, the last message's minutes, and replays a minute then."""
    world = Outage(scenario).run()
    assert all(letter.done is not None for letter in world.letters)
    assert world.parked == 0
    assert world.failed_tries <= most
    assert world.last_minutes <= last_minutes
    assert world.peak_after <= peak
    return world


@zeros
def test_an_outage_of_a_consumer_of_twice_the_load_needs_no_limit(*, has_zeros: bool) -> None:
    """Replays wait behind the backlog, so that few come back: all is as without a breaker."""
    scenario = Scenario(1, capacity=2, has_zeros=has_zeros)
    world = check_outage(scenario, 650, 47, 30)

    assert world.limits == []


@zeros
def test_a_consumer_with_a_backlog_of_hours_is_limited_to_the_end_of_the_outage(
    *, has_zeros: bool
) -> None:
    scenario = Scenario(0.03, 10 * HOUR, capacity=0.12, has_zeros=has_zeros)
    world = check_outage(scenario, 1_100, 185, 20)

    assert [limit for second, limit in world.limits if second < 10 * HOUR] == [1]


@zeros
@pytest.mark.parametrize(
    ("scenario", "most_parked"),
    [
        # One try of twenty succeeds.
        (Scenario(0.3, 2 * HOUR, failing_share=0.95), 0),
        # Less than two thirds of the traffic: the limit comes and goes.
        (Scenario(0.1, 4 * HOUR, tenant_share=0.6), 10),
        # Known after 15 minutes, and judged by an hour when half of the hour before it is known.
        (Scenario(0.05, 2 * HOUR, has_history=False, unpublished=(0, 900)), 0),
    ],
    ids=["one try in twenty succeeds", "60 % of the messages hit", "idle for 7 hours before"],
)
def test_an_outage_that_is_seen_late_or_in_part_is_never_worse_than_without(
    scenario: Scenario, most_parked: int, *, has_zeros: bool
) -> None:
    scenario = replace(scenario, has_zeros=has_zeros)
    world = Outage(scenario).run()
    without = Outage(replace(scenario, has_breaker=False)).run()

    assert world.failed_tries < without.failed_tries
    assert world.parked <= min(most_parked, without.parked)


@pytest.mark.parametrize(("hours", "least", "most"), [(2, 0.0, 0.0), (4, 0.25, 0.35)])
def test_without_a_breaker_the_defaults_park_nothing_of_two_hours(
    hours: int, least: float, most: float
) -> None:
    """These are figures of the README."""
    world = Outage(Scenario(0.1, hours * HOUR, after_seconds=0, has_breaker=False)).run()

    assert least <= world.parked / len(world.letters) <= most


@zeros
@pytest.mark.parametrize(
    ("hours", "per_minute", "last_minutes"), [(2, 15, 55), (4, 6, 95), (8, 4, 125)]
)
def test_on_fifo_a_backlog_is_replayed_at_three_times_the_load(
    hours: int, per_minute: int, last_minutes: float, *, has_zeros: bool
) -> None:
    """Many groups, held in place for hours: a hold leaves no mark in them."""
    scenario = Scenario(per_minute / 60, hours * HOUR, is_fifo=True, has_zeros=has_zeros)
    world = check_outage(scenario, 2_800, last_minutes, max(22, 3.2 * per_minute))

    assert world.alarms == 1


@zeros
@pytest.mark.parametrize("minutes", [6, 8])
def test_on_fifo_a_short_outage_costs_little(minutes: int, *, has_zeros: bool) -> None:
    """600 messages in 600 groups: a limit would cost more than it saves."""
    burst = Scenario(0, minutes * 60, burst=600, after_seconds=0, is_fifo=True)

    check_outage(replace(burst, has_zeros=has_zeros), 6_000, 5, 400)


@pytest.mark.parametrize(
    ("poison_share", "rate", "outage_seconds"),
    [(0.05, 0.2, 540), (0.1, 0.2, 1200), (0.25, 0.1, 840), (0.6, 0.05, 840), (0.9, 0.3, 1200)],
)
def test_faulty_messages_do_not_hold_up_healthy_ones(
    poison_share: float, rate: float, outage_seconds: int
) -> None:
    """Promise 4, with an outage in the middle: as soon as the queue works, and for poison too."""
    faulty, healthy = faulty_and_healthy(poison_share, rate, outage_seconds, hours_after=5)

    assert faulty[0] == pytest.approx(faulty[1], rel=0.07)
    assert healthy[0] <= 1.1 * healthy[1]


def faulty_and_healthy(
    share: float, rate: float, outage_seconds: int, hours_after: int
) -> tuple[list[int], list[int]]:
    """With the breaker and without it: when poison is parked, and the waits of what is healthy.

    An outage amid messages of which a *share* can never succeed, and some fail once. Of the median
    of the poison that had time enough to be parked, 3 h and a half; and of the 95th
    percentile of messages that fail once, sent while the consumer worked, and not within five
    minutes of the outage. There is one limit of 1, if there is an outage.
    """
    scenario = Scenario(
        rate,
        outage_seconds,
        before_seconds=HOUR,
        after_seconds=hours_after * HOUR,
        poison_share=share,
        transient_share=min(0.1, (1 - share) / 2),
    )

    until = scenario.outage_seconds + scenario.after_seconds
    parked = []
    waits = []
    for has_breaker in (True, False):
        world = Outage(replace(scenario, has_breaker=has_breaker)).run(until)
        assert len(low(world)) == 1 or not (scenario.outage_seconds and has_breaker)

        early = [letter for letter in world.of("poison") if letter.sent < until - int(3.5 * HOUR)]
        parked.append(
            middle([letter.parked - letter.sent for letter in early if letter.parked is not None])
        )

        outside = []
        for letter in world.of("transient"):
            is_near_outage = -300 <= letter.sent < scenario.outage_seconds + 300
            if letter.done is not None and not is_near_outage:
                outside.append(letter.done - letter.sent)
        waits.append(sorted(outside)[95 * len(outside) // 100])

    return parked, waits


def middle(waits: list[int]) -> int:
    return sorted(waits)[len(waits) // 2]


def test_a_slow_queue_of_which_a_quarter_is_faulty_is_limited_for_minutes_alone() -> None:
    """Nothing tells such messages from an outage, at times: 1 in 5 minutes, for 60 hours."""
    scenario = Scenario(1 / 300, 0, after_seconds=60 * HOUR, poison_share=0.25, transient_share=0.1)
    world = Outage(replace(scenario, has_breaker=True)).run(60 * HOUR)
    without = Outage(replace(scenario, has_breaker=False)).run(60 * HOUR)

    def waits(world: Outage, kind: str) -> list[int]:
        ends = [(letter.sent, letter.done or letter.parked) for letter in world.of(kind)]
        return sorted(end - sent for sent, end in ends if end is not None)

    assert world.alarms <= 4
    assert middle(waits(world, "poison")) <= 1.05 * middle(waits(without, "poison"))
    with_breaker = waits(world, "transient")
    alone = waits(without, "transient")
    assert with_breaker[95 * len(with_breaker) // 100] <= 1.1 * alone[95 * len(alone) // 100]


def test_nothing_but_faulty_messages_is_parked_half_a_day_later() -> None:
    """A queue without other traffic: nothing tells its faulty messages from an outage."""
    world = Outage(Scenario(0, 0, faulty=20, after_seconds=0)).run()

    assert world.parked == 20
    waits = [letter.parked - letter.sent for letter in world.letters if letter.parked is not None]
    assert 11 * HOUR <= middle(waits) <= 16 * HOUR


def test_what_was_held_for_hours_does_not_come_all_at_once() -> None:
    """An outage of 13 h, longer than limits apply: 11 to 12 h on, messages go on by themselves."""
    burst = 300
    world = Outage(Scenario(0, 13 * HOUR, burst=burst, after_seconds=0)).run()
    began = world.rules.minute(START)
    by_hour = Counter[int]()
    for minute, count in world.replays.items():
        by_hour[(minute - began) // 60] += count
    last_hours = [n for minute, n in world.replays.items() if minute - began >= 10 * 60]

    # Until then one a minute, and then each message goes by itself, and fails.
    assert all(by_hour[hour] <= 61 for hour in range(1, 10))
    assert by_hour[11] > burst / 2
    assert max(last_hours) <= burst / 4


def test_a_slow_return_is_noticed_too() -> None:
    """Five tries of 12 minutes: a message comes back after an hour."""
    world = Outage(Scenario(0.02, 6 * HOUR, visibility_seconds=720)).run()

    assert len(low(world)) == 1
    assert world.parked == 0


def alarm_ends(world: Outage) -> int | None:
    """The second in which CircuitBreakerAlarm ends for good, as its expression has it."""
    is_on = False
    ended: int | None = None
    waiting = 0
    for begin in range(0, world.second + HOUR, 300):
        within = range(begin, begin + 300)
        published = [world.open[second] for second in within if second in world.open]
        counts = [waiting, *(world.waiting[s] for s in within if s in world.waiting)]
        waiting = counts[-1]
        was_on = is_on
        if published:
            is_on = max(published) >= 1
        elif max(counts) == 0:
            is_on = False
        if was_on and not is_on:
            ended = begin + 300
    return None if is_on else ended


@pytest.mark.parametrize("seed", [3, 10, 11])
def test_the_alarm_ends_though_the_last_messages_go_before_the_metric_says_so(seed: int) -> None:
    """A slow queue whose traffic ends: then no batch comes any more that could say so."""
    world = Outage(Scenario(1 / 300, 52 * 60, after_seconds=0, seed=seed)).run()
    assert world.open[max(world.open)] == 1, "a world of another kind: choose other seeds"

    left_dlq = max(world.waiting)
    ends = alarm_ends(world)
    assert ends is not None
    assert left_dlq < ends <= left_dlq + 900


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_minutes_of_an_outage_set_no_second_limit_after_it(seed: int) -> None:
    """A slow queue is judged by an hour, and the outage is in it for as long."""
    world = Outage(Scenario(1 / 300, HOUR, after_seconds=3 * HOUR, seed=seed)).run()

    assert world.alarms == 1


def test_on_fifo_with_three_groups_one_outage_is_one_alarm() -> None:
    """A failing group blocks itself in the main queue, so that few messages come back."""
    stack = Stack(is_fifo=True, max_receive_count=5)
    deleted: Counter[int] = Counter()
    began = stack.now_seconds()

    def handle(batch: Sequence[Message]) -> set[str]:
        if stack.now_seconds() - began < 3 * HOUR:
            return {message.message_id for message in batch}
        deleted[stack.now_seconds() // 60] += len(batch)
        return set()

    def read(start_seconds: int, end_seconds: int) -> dict[int, int]:
        return {m: deleted[m] for m in range(start_seconds // 60, end_seconds // 60)}

    main_queue = stack.replayer.policy.main_queue
    worker = BreakerWorker(FakeBreaker(), rules_for(main_queue, 5), read, stack.clock.time)
    breakers = {main_queue: worker}
    stack.replayer = replace(stack.replayer, breakers=breakers)
    sources = [EventSource(stack.main, handle), stack.replay_source()]
    for second in range(0, 3 * HOUR, 120):
        stack.main.send([SendEntry(f"{second}", {}, f"group-{second % 3}", f"{second}")])
        run(stack.model, sources, until_ms=stack.clock.now_ms() + 120_000)
    run(stack.model, sources)

    low = [report.is_low for outcome in stack.outcomes for report in outcome.breakers.values()]
    assert [on for on, _ in groupby(low)] == [False, True, False]
    assert sum(deleted.values()) == 3 * HOUR / 120
    assert stack.parked.queue.messages() == []


def throttled_table(drawn: random.Random, minute: int) -> FakeBreaker:
    """A table with a limit of 1 since an hour, which answers half of all calls."""
    limited = {"limit": 1, "since": START - HOUR, "full": 20, "usual": 3600}
    silent_since = {"silent_since": START - HOUR, f"x{minute}": 1, f"n{minute - 5}": 60}

    def throttle(_: str) -> None:
        if drawn.random() < 0.5:
            raise TableError("throttled")

    table = FakeBreaker(numbers=limited | silent_since)
    table.faults = throttle
    return table


def test_a_thousand_environments_with_a_throttled_table_keep_to_one_limit() -> None:
    """Half of all calls fail, and all write one item: one replay a minute, and no memory grows."""
    drawn = random.Random(1)
    main = policy().main_queue
    rules = rules_for(main)
    table = throttled_table(drawn, rules.minute(START))

    def silent(start_seconds: int, end_seconds: int) -> Mapping[int, int]:
        return dict.fromkeys(range(rules.minute(start_seconds), rules.minute(end_seconds)), 0)

    clock = VirtualClock(START * 1000)
    workers = [BreakerWorker(table, rules, silent, clock.time) for _ in range(1000)]
    queues = three_queues()
    granted: Counter[int] = Counter()
    letter = message(
        attributes=context(held_seconds=START - 60), DeadLetterQueueSourceArn=queue_arn("main")
    )
    for number in range(6000):
        clock.advance_to((START + number // 20) * 1000)
        worker = drawn.choice(workers)
        made = replayer(
            policy(), *queues, now_seconds=lambda: int(clock.time()), breakers={main: worker}
        )
        outcome = made.replay([letter], forever)
        [report] = outcome.breakers.values()
        # Without a breaker, where the table says nothing, each replay goes.
        granted[int(clock.time()) // 60] += report.is_low is not None and bool(queues[0].sent)
        for queue in queues:
            queue.sent.clear()

    assert max(granted.values()) == 1
    assert table.numbers["limit"] == 1
    assert len(table.numbers) < 40
    assert all(len(worker._counts) <= 8 for worker in workers)  # noqa: SLF001 - what it keeps
