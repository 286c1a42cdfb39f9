"""The worlds of the circuit breaker at full size: hours of ten messages a second. ``make outages``.

``tests/simulation/test_breaker_worlds.py`` has them small. The figures are printed; the bounds are
the promises of ``docs/breaker.md``.
"""

import sys

import pytest

from tests.simulation.outage import HOUR, Scenario, World

pytestmark = pytest.mark.timeout(4 * HOUR)

OUTAGES = {
    # world: (scenario, failed tries at most, last message's minutes at most)
    "1 h at 10/s": (Scenario(rate=10), 20_000, 31),
    "1 h at 10/s, a consumer of twice the load": (Scenario(rate=10, capacity=20), 12_000, 60),
    "4 h at 2/s": (Scenario(rate=2, outage_seconds=4 * HOUR), 20_000, 95),
    "4 h at 2/s, a consumer of 3 times the load": (
        Scenario(rate=2, outage_seconds=4 * HOUR, capacity=6),
        20_000,
        140,
    ),
    "10 h at 0.5/s, a consumer of 4 times the load": (
        Scenario(rate=0.5, outage_seconds=10 * HOUR, capacity=2),
        10_000,
        240,
    ),
    "8 h at 0.5/s, consumer off from 60 to 75": (
        Scenario(rate=0.5, outage_seconds=8 * HOUR, off=(HOUR, HOUR + 900)),
        10_000,
        160,
    ),
    "3,000 in a minute, 20 min": (
        Scenario(rate=0, burst=3000, outage_seconds=1200, after_seconds=0),
        30_000,
        28,
    ),
    "1 a minute, 11.5 h": (Scenario(rate=1 / 60, outage_seconds=int(11.5 * HOUR)), 6_000, 60),
    "90 % of the messages hit, 4 h": (
        Scenario(rate=2, tenant_share=0.9, outage_seconds=4 * HOUR),
        200_000,
        100,
    ),
    "5 % of tries succeed, 4 h": (
        Scenario(rate=2, failing_share=0.95, outage_seconds=4 * HOUR),
        200_000,
        140,
    ),
}


@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_of_the_consumer(name: str) -> None:
    scenario, most, last_minutes = OUTAGES[name]
    world = World(scenario).run()
    limits = [(round(second / 60, 1), limit) for second, limit in world.limits]
    sys.stdout.write(
        f"\n{name}: failed tries {world.failed_tries:,}, last {world.last_minutes} min, peak "
        f"{world.peak_after} a minute, held {world.held:,}, limits {limits[:8]}\n"
    )

    assert all(letter.done is not None for letter in world.letters)
    assert world.parked == 0
    assert world.failed_tries <= most
    assert world.last_minutes <= last_minutes
