"""The simulator against the product: the use case on the model of SQS, message by message."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from dlq_cli.simulate.flow import simulate
from dlq_cli.simulate.scenario import Scenario, policy_of
from dlq_replay.breaker import BreakerRules
from dlq_replay.message import Message, SendEntry
from tests.simulation.event_source import EventSource, run
from tests.simulation.outage import Scenario as MessageScenario
from tests.simulation.outage import World
from tests.simulation.stack import Stack

RECEIVES = 2
TIMEOUT_SECONDS = 30


@dataclass
class Outage:
    """A consumer that fails on everything until a time, and counts."""

    stack: Stack
    ends_ms: int
    failed_tries: int = 0
    recovered: int = 0

    def consume(self, batch: Sequence[Message]) -> set[str]:
        if self.stack.clock.now_ms() < self.ends_ms:
            self.failed_tries += len(batch)
            return {one.message_id for one in batch}
        self.recovered += len(batch)
        return set()


def live_through(outage_seconds: int, count: int, stack: Stack) -> Outage:
    """Send *count* messages evenly over the outage, and let everything run to its end."""
    begin_ms = stack.clock.now_ms()
    outage = Outage(stack, begin_ms + 1000 * outage_seconds)
    sources = [EventSource(stack.main, outage.consume), stack.replay_source()]
    for index in range(count):
        run(stack.model, sources, until_ms=begin_ms + 1000 * outage_seconds * index // count)
        stack.main.send([SendEntry(str(index))])
    # Parked messages stay, and would keep the model's clock going until they expire.
    run(stack.model, sources, until_ms=begin_ms + 1000 * (outage_seconds + 20_000))
    return outage


@pytest.mark.parametrize(
    ("outage_seconds", "attempts", "rate_seconds", "cap_seconds"),
    [(600, 4, 10, 900), (900, 6, 5, 60), (1500, 3, 200, 900), (4000, 3, 500, 2400)],
)
def test_expectation_and_product_agree(
    outage_seconds: int, attempts: int, rate_seconds: float, cap_seconds: int
) -> None:
    count = 400
    stack = Stack(
        rate_seconds=rate_seconds,
        cap_seconds=cap_seconds,
        max_attempts=attempts,
        max_receive_count=RECEIVES,
        seed=7,
    )
    outage = live_through(outage_seconds, count, stack)
    expected = simulate(
        Scenario(
            outage_seconds,
            count / outage_seconds,
            policy=policy_of(attempts, rate_seconds, cap_seconds),
            visibility_timeout_seconds=TIMEOUT_SECONDS,
            max_receive_count=RECEIVES,
        )
    )
    parked = int(stack.parked.describe()["ApproximateNumberOfMessages"])

    assert outage.recovered + parked == count
    # Four standard deviations of so many messages, each parked or not.
    deviation = (count * expected.parked_share * (1 - expected.parked_share)) ** 0.5
    assert parked == pytest.approx(expected.parked, abs=4 * deviation + 2)
    assert len(stack.replayed) == pytest.approx(expected.replays, rel=0.05)
    assert outage.failed_tries == pytest.approx(expected.failed_tries, rel=0.05)
    looks = sum(len(one.outcomes) for one in stack.outcomes)
    assert looks == pytest.approx(expected.receives, rel=0.05)


def test_expectation_and_product_agree_with_a_breaker() -> None:
    """The tolerance of the times is a slot, because the outage may begin anywhere in one.

    Nearly all failed tries of replays are from before it opens, so they differ as its time does.
    """
    outage_seconds = 1200
    expected = simulate(Scenario(outage_seconds, 1.0), breaker=BreakerRules())
    world = World(
        MessageScenario(rate=1, outage_seconds=outage_seconds, traffic_seconds=outage_seconds)
    )
    for slot in range(world.began // 60 - 10, world.began // 60):
        world.deleted[slot] = 60
    world.run(3 * outage_seconds)
    opened, closed = (second for second, _ in world.events[:2])

    assert "opened" in world.events[0][1]
    assert "closed" in world.events[1][1]
    assert list(expected.opened_seconds) == pytest.approx([opened], abs=60)
    assert list(expected.closed_seconds) == pytest.approx([closed], abs=60)
    assert expected.held == pytest.approx(world.held, rel=0.05)
    assert expected.replays == pytest.approx(world.replays.total(), rel=0.05)
    assert expected.failed_tries_of_replays == pytest.approx(world.tries, rel=0.15)
    assert expected.peak_replays_per_second() == pytest.approx(
        world.peak_replays(outage_seconds, 60), rel=0.2
    )
    assert expected.recovered == pytest.approx(len(world.handled))
