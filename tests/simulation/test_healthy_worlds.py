"""Consumers that work, each in its way, and outages of which nothing is known: never a limit.

Without a limit each message fares exactly as without a breaker, which each test compares.
"""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.outage import HOUR, Outage, Scenario

DAY = 24 * HOUR
MINUTE = 60
BURSTS = random.Random(3).sample(range(10 * HOUR), 10)


def works(seconds: int, of_each: int) -> Callable[[int], float]:
    """A consumer that works so many seconds of each so many."""
    return lambda second: float(second % of_each < seconds)


def but(begins: int, ends: int) -> Callable[[int], float]:
    """A consumer that is off from one second to another."""
    return lambda second: float(not begins <= second < ends)


def within(*times: tuple[int, int]) -> Callable[[int], float]:
    """Traffic, or work, from one second to another."""
    return lambda second: float(any(begins <= second < ends for begins, ends in times))


def late(minutes: int) -> Callable[[int], int]:
    """A metric that is so late for an hour."""
    return lambda second: minutes * (HOUR <= second < 2 * HOUR)


def by_day(second: int) -> float:
    """The most traffic at six hours, none from twelve to twenty-four."""
    return max(0.0, math.sin(2 * math.pi * second / DAY))


def scale(second: int) -> float:
    """Workers that are started for four minutes of each ten, one after the other."""
    return min(1.0, second % 600 / MINUTE) if second % 600 < 4 * MINUTE else 0.0


def bursts(second: int) -> float:
    """Two minutes at the full rate, at random times, and a sixtieth of it between them."""
    return 1.0 if any(begin <= second < begin + 120 for begin in BURSTS) else 1 / 60


def deployment_of_a_minute(seed: int) -> Scenario:
    off = but(HOUR, HOUR + 60)
    return Scenario(1, 0, after_seconds=2 * HOUR, works=off, poison_share=0.005, seed=seed)


def healthy(rate: float, hours: float, **more: Any) -> Scenario:
    """Traffic of which 3 % can never succeed, and 3 % fail once; the queue is new."""
    fields = {"poison_share": 0.03, "transient_share": 0.03, "has_history": False, **more}
    return Scenario(rate, 0, after_seconds=int(hours * HOUR), **fields)


PAUSES = {
    "works 40 s of each 3 minutes": healthy(1, 3, works=works(40, 180)),
    "works 4 of each 15 minutes": healthy(0.5, 5, works=works(240, 900)),
    "works 10 minutes of each hour": healthy(0.2, 8, works=works(600, HOUR)),
    "works 2 s of each 300: a batching window": healthy(1, 4, works=works(2, 300)),
    "works 5 of each 40 minutes": healthy(0.1, 12, works=works(300, 2400)),
    "a cron job, half an hour of each 6 hours": healthy(
        1 / 60, 30, works=works(1800, 6 * HOUR), capacity=5
    ),
    "a partner that is open 3 hours a day": healthy(
        0.02, 40, works=within((0, 3 * HOUR), (DAY, DAY + 3 * HOUR)), capacity=1
    ),
    "workers that are started by the queue's length": healthy(0.5, 5, works=scale, capacity=4),
    "a worker that restarts, for 20 s of each 5 minutes": healthy(1, 3, works=works(280, 300)),
    "a deployment of 10 minutes": healthy(0.5, 5, works=but(3 * HOUR, 3 * HOUR + 600)),
    "off for 2 hours, for maintenance": healthy(0.2, 7, works=but(3 * HOUR, 5 * HOUR)),
    **{f"a deployment of 60 s, {seed}": deployment_of_a_minute(seed) for seed in range(5)},
}
TRAFFIC = {
    "office hours, then nothing": Scenario(
        1, 0, after_seconds=9 * HOUR, traffic=within((0, 3 * HOUR)), poison_share=0.01
    ),
    "a batch of 20 minutes, then nothing": Scenario(
        1,
        0,
        before_seconds=2 * HOUR,
        after_seconds=6 * HOUR,
        traffic=within((0, 1200)),
        poison_share=0.01,
        has_history=False,
    ),
    "by the time of day": healthy(0.1, 24, traffic=by_day),
    "bursts": healthy(1, 12, traffic=bursts),
    "100 messages at each full hour, 15 % poison": healthy(
        100 / 60, 6, poison_share=0.15, traffic=works(60, HOUR)
    ),
    "a weekend without traffic or metrics": healthy(
        0.2,
        40,
        traffic=within((0, 5 * HOUR), (36 * HOUR, DAY * 2)),
        unpublished=(11 * HOUR, 36 * HOUR + 900),
    ),
    "tasks of 15 minutes, 4 workers": healthy(
        0.0035, 48, workers=4, task_seconds=900, visibility_seconds=1800
    ),
    "a backfill of 3,000 by a consumer with little to spare": healthy(
        0.02, 3, burst=3000, capacity=1.2, poison_share=0.05
    ),
    "a consumer with a tenth more than the load": healthy(0.5, 5, capacity=0.55),
    "1 in 5 minutes, 10 % poison": healthy(1 / 300, 60, poison_share=0.1),
    "300 faulty of a producer's bad hour": healthy(0.5, 5, faulty=300),
    "many groups on FIFO": healthy(0.3, 5, is_fifo=True),
    "on FIFO, works 4 of each 15 minutes": healthy(0.3, 5, is_fifo=True, works=works(240, 900)),
}
POISON = {
    "one tenant of 2 % is down for 8 h": Scenario(
        0.3, 8 * HOUR, tenant_share=0.02, transient_share=0.005
    ),
    "25 % of the messages hit, 2 h": Scenario(0.5, 2 * HOUR, tenant_share=0.25),
    "60 faulty beside 1 a second": Scenario(1, 0, faulty=60, after_seconds=4 * HOUR),
    "60 faulty beside 1 a minute": Scenario(1 / 60, 0, faulty=60, after_seconds=8 * HOUR),
    "90 % poison": Scenario(0.05, 0, poison_share=0.9, after_seconds=4 * HOUR),
    "one that no queue takes, in a quiet queue": Scenario(
        1 / 600, 0, refused=1, after_seconds=8 * HOUR
    ),
    # As a message move task brings held copies to the main queue, or a producer writes them.
    "every message with a counter and a context": healthy(0.5, 3, is_forged=True),
}
UNKNOWN = {
    "the metric cannot be read": Scenario(0.2, is_metric_known=False),
    "the table is gone": Scenario(0.2, has_table=False),
    "idle, and nothing published for 15 minutes, then traffic": healthy(
        0.3, 3, unpublished=(0, 900)
    ),
    "an outage of an hour of which nothing is published": Scenario(0.2, unpublished=(-DAY, DAY)),
    "the metric is late by 5 minutes for an hour": healthy(
        1, 3, late_minutes=late(5), has_history=True
    ),
    "the metric is late by 8 minutes for an hour": healthy(
        1, 3, late_minutes=late(8), has_history=True
    ),
    "the metric is late by 15 minutes for an hour": healthy(
        1, 3, late_minutes=late(15), has_history=True
    ),
}
WORLDS = {**PAUSES, **TRAFFIC, **POISON, **UNKNOWN}
NEVER = {
    # Without zeros: what is missing must not count as one.
    **{f"{name}, no zeros": replace(world, has_zeros=False) for name, world in WORLDS.items()},
    **{f"{name}, zeros": world for name, world in UNKNOWN.items()},
}


@pytest.mark.parametrize("name", NEVER)
def test_no_limit_where_the_consumer_works_or_nothing_says_that_it_does_not(name: str) -> None:
    """Promises 4, 5 and 7."""
    scenario = NEVER[name]
    until = scenario.outage_seconds + scenario.after_seconds
    world = Outage(scenario).run(until)
    without = Outage(replace(scenario, has_breaker=False)).run(until)

    assert world.limits == []
    fates = [[(letter.done, letter.parked) for letter in each.letters] for each in (world, without)]
    assert fates[0] == fates[1]
    assert any(letter.was_replayed for letter in world.letters)
