"""The simulator against the function's own code, message by message."""

import pytest

from dlq_cli.simulation import Scenario, simulate
from tests.simulation.outage import Outage
from tests.simulation.outage import Scenario as MessageScenario

OUTAGE_SECONDS = 1200


@pytest.mark.parametrize("has_breaker", [False, True])
def test_samples_and_messages_agree(*, has_breaker: bool) -> None:
    """Each sample stands for two messages."""
    rate = 3.0
    simulated = simulate(Scenario(OUTAGE_SECONDS, rate), has_breaker=has_breaker)
    world = Outage(
        MessageScenario(
            rate=rate, outage_seconds=OUTAGE_SECONDS, after_seconds=0, has_breaker=has_breaker
        )
    ).run()

    assert simulated.arrived == simulated.recovered
    assert simulated.arrived == pytest.approx(len(world.letters), rel=0.05)
    assert simulated.replays == pytest.approx(world.replays.total(), rel=0.1)
    # Before the first replay, all fail five times but those of the last minutes.
    first = 5 * rate * OUTAGE_SECONDS - 10 * 30 * rate
    assert simulated.failed_tries - first == pytest.approx(world.failed_tries, rel=0.2)
    last = 60 * world.last_minutes
    assert simulated.last_through_seconds == pytest.approx(last, rel=0.25)
