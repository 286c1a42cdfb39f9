"""The breaker's promises on the product's own code, message by message, at default settings.

The scenarios here are small, and keep every threshold. ``make outages`` runs them at full size, ten
messages a second, and prints the figures.
"""

import os
import sys

import pytest

from tests.simulation.outage import HOUR, Scenario, World

IS_FULL = os.environ.get("OUTAGES") == "full"
RATE = 10 if IS_FULL else 0.5
"""Messages a second. Any fewer, and the replays that a ramp always allows, one a second, would be
more than twice the rate: no longer would the rate limit them."""

SEEDS = range(1, 11) if IS_FULL else range(1, 4)
DAY = 24 * HOUR
HEALTHY = 1200
"""Seconds before an outage: what the metric says of them must not delay the breaker for long."""

pytestmark = pytest.mark.timeout(4 * HOUR if IS_FULL else 900)


def after(scenario: Scenario, until_second: int = DAY) -> World:
    world = World(scenario)
    world.run(until_second)
    return world


def show(name: str, **figures: object) -> None:
    if IS_FULL:
        text = ", ".join(f"{key} {value}" for key, value in figures.items())
        sys.stdout.write(f"\n{name}: {text}\n")


def assert_promises_of_an_outage(world: World) -> None:
    """All but the number of tries: they concern what comes after the outage, and what is lost."""
    scenario = world.scenario
    assert world.handled.keys() == world.sent.keys()
    assert set(world.handled.values()) == {1}
    assert world.parked == []
    ends, seconds = scenario.outage_ends, scenario.outage_seconds
    peak = world.peak_replays(ends, 60)
    assert peak <= max(3 * scenario.rate, 1.05)
    last = max(world.done[body] for body, sent in world.sent.items() if sent < ends) - ends
    spare = 3 * scenario.rate
    if scenario.capacity is not None:
        spare = min(spare, scenario.capacity - scenario.rate)
    shortest = scenario.rate * seconds / spare
    show(
        f"{seconds / HOUR:g} h at {scenario.rate}/s, capacity {scenario.capacity}",
        failed_tries=world.tries,
        peak_replays_a_second=round(peak, 1),
        last_message_minutes=round(last / 60, 1),
        shortest_minutes=round(shortest / 60, 1),
        events=world.events,
    )
    assert last <= 2 * shortest


@pytest.mark.parametrize(
    ("capacity", "records_errors", "traffic_after_seconds"),
    [(None, False, 1800), (3 * RATE, True, 1800), (None, False, 0)],
    ids=["unbounded", "three times normal, errors recorded", "producers stop"],
)
def test_an_hour_of_outage(
    capacity: float | None, traffic_after_seconds: int, *, records_errors: bool
) -> None:
    outage = Scenario(
        rate=RATE,
        outage_from=HEALTHY,
        outage_seconds=HOUR,
        traffic_seconds=HEALTHY + HOUR + traffic_after_seconds,
        capacity=capacity,
        records_errors=records_errors,
    )
    world = after(outage)

    assert_promises_of_an_outage(world)
    assert world.tries <= 0.05 * 97_100 * RATE


def test_how_many_tries_an_hour_of_outage_costs_without_a_breaker() -> None:
    """The figure that the one above is held against: 97,100 for each message a second."""
    world = after(
        Scenario(rate=RATE, outage_seconds=HOUR, traffic_seconds=HOUR, has_breaker=False), HOUR
    )

    show("without a breaker", failed_tries=world.tries)
    assert world.tries == pytest.approx(97_100 * RATE, rel=0.03)


def test_four_hours_of_outage() -> None:
    """What came in its first hour is held for longest; in the small version nothing comes later."""
    hours = 4 * HOUR
    outage = Scenario(
        rate=RATE,
        outage_from=HEALTHY,
        outage_seconds=hours,
        traffic_seconds=HEALTHY + (hours + 1800 if IS_FULL else HOUR),
    )
    world = after(outage)

    assert_promises_of_an_outage(world)
    assert world.tries <= 0.05 * 97_100 * RATE


@pytest.mark.parametrize(
    ("groups", "tries", "last_minutes"), [(7, 1500, 110), (70, 2000, 90), (500, 2500, 60)]
)
def test_fifo_outage_keeps_the_order_and_parks_nothing(
    groups: int, tries: int, last_minutes: int
) -> None:
    """A failing group blocks itself in the main queue; without a breaker 7 groups try 2,436 times.

    A probe waits there behind its group. So the longer it has not returned, the less that says.
    """
    outage = Scenario(
        rate=1, outage_seconds=HOUR, traffic_seconds=HOUR + 1200, is_fifo=True, groups=groups
    )
    world = after(outage)

    assert world.handled.keys() == world.sent.keys()
    assert set(world.handled.values()) == {1}
    assert world.parked == []
    (_, opened), (closed_at, closed) = world.events[:2]
    assert ("opened" in opened, "closed" in closed) == (True, True)
    assert closed_at > outage.outage_ends
    last = max(world.done.values()) - outage.outage_ends
    show(f"FIFO, {groups} groups", failed_tries=world.tries, last=last, events=world.events)
    assert world.tries <= tries
    assert last <= 60 * last_minutes


@pytest.mark.parametrize("records_errors", [False, True], ids=["no errors recorded", "recorded"])
def test_a_kind_that_never_succeeds_does_not_hold_up_the_others(*, records_errors: bool) -> None:
    """Nine of ten dead letters are poison while the main queue works.

    The waits without a breaker are a figure to compare with, which takes more than a few seeds.
    """
    waits: dict[str, list[int]] = {"without": [], "with": []} if IS_FULL else {"with": []}
    flaky = 0
    for seed in SEEDS:
        for breaker, found in waits.items():
            scenario = Scenario(
                rate=2 if IS_FULL else 1,
                traffic_seconds=HOUR if IS_FULL else 2400,
                poison_share=0.18,
                flaky_share=0.02,
                records_errors=records_errors,
                has_breaker=breaker == "with",
                seed=seed,
            )
            world = World(scenario)
            world.run(DAY, until_done="flaky")
            found.extend(world.waits("flaky"))
            flaky += list(world.kinds.values()).count("flaky")
            assert [body for body in world.delayed if world.kinds[body] != "poison"] == []
            assert bool(world.events) is (breaker == "with" and records_errors)

    slowest = {breaker: sorted(every)[95 * len(every) // 100] for breaker, every in waits.items()}
    show("poison: 95 % of healthy dead letters took seconds", **slowest)
    assert sum(map(len, waits.values())) == flaky > 100
    if IS_FULL:
        # Fewer seeds differ by chance alone: a hold changes what is drawn for all later messages.
        assert slowest["with"] <= 1.05 * slowest["without"]


def test_a_lasting_fault_still_ends_in_the_parked_queue() -> None:
    scenario = Scenario(
        rate=1, traffic_seconds=60, poison_share=1.0, outage_seconds=0, records_errors=True
    )
    world = after(scenario, 2 * DAY)

    assert any("opened" in event for _, event in world.events)
    assert sorted(world.parked) == sorted(world.sent)
    assert world.waiting == 0


def test_one_poison_message_an_hour_never_opens_it() -> None:
    world = World(Scenario(rate=0, traffic_seconds=DAY, records_errors=True))
    for hour in range(24):
        world.send_poison(f"poison-{hour}")
        world.run((hour + 1) * HOUR)

    assert world.events == []
    assert world.held == 0
