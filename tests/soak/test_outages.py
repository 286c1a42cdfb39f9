"""The worlds of the circuit breaker at full size: hours of ten messages a second. ``make outages``.

``tests/simulation/test_breaker_worlds.py`` has them small. The figures are printed; the bounds are
the promises of ``docs/breaker.md``.
"""

import sys
from dataclasses import replace

import pytest

from tests.simulation.outage import HOUR, Outage, Scenario
from tests.simulation.test_breaker_worlds import check_outage, faulty_and_healthy, off

pytestmark = pytest.mark.timeout(4 * HOUR)


def burst(messages: int, outage_seconds: int) -> Scenario:
    return Scenario(0, outage_seconds, burst=messages, after_seconds=0)


OUTAGES = {
    # world: (scenario, failed tries of replays, last message's minutes, replays a minute after it)
    "1 h at 10/s": (Scenario(10), 20_000, 31, 1_900),
    "1 h at 10/s, consumer of twice the load": (Scenario(10, capacity=20), 12_000, 60, 1_900),
    "1 h at 10/s, of 3 times": (Scenario(10, capacity=30), 12_000, 40, 1_900),
    "4 h at 10/s": (Scenario(10, 4 * HOUR), 20_000, 95, 1_900),
    "4 h at 2/s, of 3 times": (Scenario(2, 4 * HOUR, capacity=6), 20_000, 140, 400),
    "10 h at 2/s, of 4 times": (Scenario(2, 10 * HOUR, capacity=8), 10_000, 240, 400),
    "8 h, 300 messages, off from 60 to 75": (
        Scenario(0, 8 * HOUR, burst=300, after_seconds=0, works=off(HOUR, HOUR + 900)),
        10_000,
        160,
        100,
    ),
    "2 h at 2/s, off from 15 to 75": (Scenario(2, 2 * HOUR, works=off(900, 4500)), 5_000, 40, 670),
    # Ten tries a message; without a breaker 23, whatever their number.
    "3,000 in a minute, 20 min": (burst(3_000, 1200), 30_000, 28, 960),
    "50,000 in a minute, 20 min": (burst(50_000, 1200), 500_000, 28, 16_000),
    "1/s that becomes 10/s, 2 h": (Scenario(1, 2 * HOUR, rate_in_outage=10), 20_000, 60, 1_900),
    "1 a minute, 11.5 h": (Scenario(1 / 60, int(11.5 * HOUR)), 6_000, 60, 30),
    "90 % of the messages hit, 4 h": (Scenario(2, 4 * HOUR, tenant_share=0.9), 200_000, 100, 400),
    # Full grows by what fails again, as it does for faulty messages. Without a breaker 382,670, and
    # 41 messages are parked.
    "5 % of tries succeed, 4 h": (Scenario(2, 4 * HOUR, failing_share=0.95), 210_000, 140, 420),
    # 18,000 messages at 98 a minute; beside them, first replays of what failed an hour before.
    "back after an hour, 10 h": (
        Scenario(0.5, 10 * HOUR, visibility_seconds=720),
        20_000,
        190,
        140,
    ),
}


@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_of_the_consumer(name: str) -> None:
    world = check_outage(*OUTAGES[name])
    limits = [(round(second / 60, 1), limit) for second, limit in world.limits]
    sys.stdout.write(
        f"\n{name}: failed tries {world.failed_tries:,}, last {world.last_minutes} min, peak "
        f"{world.peak_after:,} a minute, held {world.held:,}, limits {limits[:8]}\n"
    )


def test_a_burst_that_waits_for_half_a_day_never_comes_all_at_once() -> None:
    """50,000 in a minute, 13 h: no minute has more replays than the first have without a limit."""
    world = Outage(burst(50_000, 13 * HOUR)).run()
    without = Outage(replace(burst(50_000, 1200), has_breaker=False)).run()
    peaks = [max(outage.replays.values()) for outage in (world, without)]
    sys.stdout.write(f"\n50,000 in a minute, 13 h: peak {peaks[0]:,} a minute, not {peaks[1]:,}\n")

    assert peaks[0] <= peaks[1]


@pytest.mark.parametrize(
    ("poison_share", "rate", "outage_seconds", "hours_after"),
    [
        (0.05, 0.5, 540, 9),
        (0.1, 0.5, 1200, 9),
        (0.25, 0.3, 840, 9),
        (0.6, 0.3, 840, 9),
        (0.9, 0.3, 1200, 9),
        # So few that nothing tells the faulty ones from an outage, at times.
        (0.25, 1 / 300, 0, 100),
    ],
)
def test_faulty_messages_do_not_hold_up_healthy_ones(
    poison_share: float, rate: float, outage_seconds: int, hours_after: int
) -> None:
    faulty, healthy = faulty_and_healthy(poison_share, rate, outage_seconds, hours_after)
    sys.stdout.write(f"\n{poison_share:.0%} poison: parked after {faulty}, p95 {healthy} s\n")

    assert faulty[0] <= 1.05 * faulty[1]
    assert healthy[0] <= 1.1 * healthy[1]
