"""The worlds of the circuit breaker: what outages and faulty messages do, with and without it.

Each row is small enough for every run. ``tests/soak/test_outages.py`` has the same at full size.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

import pytest

from dlq_replay.replaying.breaker_worker import BreakerWorker
from dlq_replay.rules.breaker import rules_for
from dlq_replay.wire.message import Message, SendEntry
from tests.simulation.event_source import EventSource, run
from tests.simulation.outage import HOUR, Outage, Scenario
from tests.simulation.stack import Stack
from tests.support.breaker_tables import FakeBreaker


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


@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_of_the_consumer(name: str) -> None:
    """Promises 1, 2 and 3: few failed tries, nothing parked, no flood, done in time; one alarm."""
    scenario, most, last_minutes = OUTAGES[name]
    load = scenario.rate_in_outage or max(scenario.rate, scenario.burst / 600)
    # A backlog of a consumer that was off fails at once, and counts as load.
    most_loads = 5.6 if "off" in name else 3.2
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


NEVER = {
    "one tenant of 2 % is down for 8 h": Scenario(
        0.3, 8 * HOUR, tenant_share=0.02, transient_share=0.005
    ),
    "25 % of the messages hit, 2 h": Scenario(0.5, 2 * HOUR, tenant_share=0.25),
    "60 faulty beside 1 a second": Scenario(1, 0, faulty=60, after_seconds=4 * HOUR),
    "60 faulty beside 1 a minute": Scenario(1 / 60, 0, faulty=60, after_seconds=8 * HOUR),
    "90 % poison": Scenario(0.05, 0, poison_share=0.9, after_seconds=4 * HOUR),
    "the metric cannot be read": Scenario(0.2, is_metric_known=False),
}


@pytest.mark.parametrize("name", NEVER)
def test_no_limit_where_the_consumer_works_or_nothing_says_that_it_does_not(name: str) -> None:
    """Promises 4, 5 and 7; without a limit each message fares exactly as without a breaker."""
    scenario = NEVER[name]
    until = scenario.outage_seconds + scenario.after_seconds
    world = Outage(scenario).run(until)
    without = Outage(replace(scenario, has_breaker=False)).run(until)

    assert world.limits == []
    fates = [[(one.done, one.parked) for one in each.letters] for each in (world, without)]
    assert fates[0] == fates[1]


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
        transient_share=min(0.1, 1 - share),
    )
    until = scenario.outage_seconds + scenario.after_seconds
    parked, waits = [], []
    for has_breaker in (True, False):
        world = Outage(replace(scenario, has_breaker=has_breaker)).run(until)
        assert len(low(world)) == 1 or not (scenario.outage_seconds and has_breaker)
        early = [one for one in world.of("poison") if one.sent < until - int(3.5 * HOUR)]
        parked.append(middle([one.parked - one.sent for one in early if one.parked is not None]))
        outside = [
            one.done - one.sent
            for one in world.of("transient")
            if one.done is not None and not -300 <= one.sent < scenario.outage_seconds + 300
        ]
        waits.append(sorted(outside)[95 * len(outside) // 100])
    return parked, waits


def middle(waits: list[int]) -> int:
    return sorted(waits)[len(waits) // 2]


def test_nothing_but_faulty_messages_is_parked_half_a_day_later() -> None:
    """A queue without other traffic: nothing tells its faulty messages from an outage."""
    world = Outage(Scenario(0, 0, faulty=20, after_seconds=0)).run()

    assert world.parked == 20
    waits = [one.parked - one.sent for one in world.letters if one.parked is not None]
    assert 11 * HOUR <= middle(waits) <= 16 * HOUR


def test_what_was_held_for_hours_does_not_come_all_at_once() -> None:
    """An outage of 13 h, longer than limits apply: 11 to 12 h on, messages go on by themselves."""
    world = Outage(Scenario(0, 13 * HOUR, burst=300, after_seconds=0)).run()
    first = world.rules.minute(world.now - world.second)
    at_the_limit = [n for minute, n in world.replays.items() if minute - first >= 10 * 60]

    assert max(at_the_limit) <= 300 / 4


def test_a_slow_return_is_noticed_too() -> None:
    """Five tries of 12 minutes: a message comes back after an hour."""
    world = Outage(Scenario(0.02, 6 * HOUR, visibility_seconds=720)).run()

    assert len(low(world)) == 1
    assert world.parked == 0


def test_on_fifo_with_three_groups_one_outage_is_one_alarm() -> None:
    """A failing group blocks itself in the main queue, so that few messages come back."""
    stack = Stack(is_fifo=True, max_receive_count=5)
    deleted: Counter[int] = Counter()
    began = stack.now_seconds()

    def handle(batch: Sequence[Message]) -> set[str]:
        if stack.now_seconds() - began < 3 * HOUR:
            return {one.message_id for one in batch}
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

    low = [report.is_low for one in stack.outcomes for report in one.breakers.values()]
    assert [on for on, _ in groupby(low)] == [False, True, False]
    assert sum(deleted.values()) == 3 * HOUR / 120
    assert stack.parked.queue.messages() == []
