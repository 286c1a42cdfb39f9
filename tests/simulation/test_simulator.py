"""The simulator against the product: the function on the model of SQS, message by message."""

import pytest

from dlq_cli.simulate.model import Scenario, simulate
from tests.simulation.outage import Scenario as MessageScenario
from tests.simulation.outage import World

OUTAGE_SECONDS = 1200


@pytest.mark.parametrize("has_breaker", [False, True])
def test_samples_and_messages_agree(*, has_breaker: bool) -> None:
    """Each sample stands for two messages."""
    rate = 3.0
    simulated = simulate(Scenario(OUTAGE_SECONDS, rate), has_breaker=has_breaker)
    world = World(
        MessageScenario(
            rate=rate,
            outage_seconds=OUTAGE_SECONDS,
            traffic_seconds=OUTAGE_SECONDS,
            has_breaker=has_breaker,
        )
    )
    for slot in range(world.began // 60 - 10, world.began // 60):
        world.deleted[slot] = round(60 * rate)
    world.run(3 * OUTAGE_SECONDS)

    assert simulated.arrived == simulated.recovered == len(world.handled)
    assert simulated.replays == pytest.approx(world.replays.total(), rel=0.05)
    assert simulated.held == pytest.approx(world.held, rel=0.1)
    assert simulated.failed_tries_of_replays == pytest.approx(world.tries, rel=0.15)
    last = max(world.done.values()) - OUTAGE_SECONDS
    assert simulated.last_through_seconds == pytest.approx(last, rel=0.25)
