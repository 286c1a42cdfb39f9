import pytest

from dlq_cli.simulate.jitter import MAX_PARTS, Jitter
from dlq_cli.simulate.scenario import policy_of
from dlq_cli.simulate.waits import waits_by_replay_count
from dlq_replay.decision import Replay, decide
from tests.builders import NOW, message

DAY = 86_400


@pytest.mark.parametrize("ceiling", [0, 1, 19, MAX_PARTS - 1, MAX_PARTS, 900, DAY])
def test_parts_hold_each_delay_once(ceiling: int) -> None:
    delays = {jitter: [d for part in jitter.parts(ceiling) for d in part] for jitter in Jitter}

    assert delays[Jitter.FULL] == list(range(ceiling + 1))
    assert delays[Jitter.EQUAL] == list(range(ceiling // 2, ceiling + 1))
    assert delays[Jitter.NONE] == [ceiling]
    assert len(Jitter.FULL.parts(ceiling)) <= MAX_PARTS


def test_the_table_ends_where_the_rules_park() -> None:
    table = waits_by_replay_count(policy_of(3, 2, 900), Jitter.FULL)

    assert [0, 0, 0, 1] == [waits.parked for waits in table]
    assert [4, 8, 16] == [max(waits.delays) for waits in table[:3]]


def test_every_delay_up_to_the_ceiling_has_the_same_share() -> None:
    table = waits_by_replay_count(policy_of(1, 2, 900), Jitter.FULL)

    assert table[0].delays == {seconds: pytest.approx(0.2) for seconds in range(5)}


def test_a_wait_within_the_message_timer_takes_one_look() -> None:
    table = waits_by_replay_count(policy_of(9, 10, 900), Jitter.FULL)

    assert all(waits.receives == {0: 1} for waits in table)


def test_a_longer_wait_is_looked_at_every_900_seconds() -> None:
    table = waits_by_replay_count(policy_of(1, 43_200, DAY), Jitter.NONE)

    assert table[0].delays == {DAY: 1}
    assert table[0].receives == {900 * hop: 1 for hop in range(96)}


def test_receives_of_a_long_wait_are_as_many_as_with_every_delay_computed() -> None:
    ceiling = 4000
    waits = waits_by_replay_count(policy_of(1, 2000, ceiling), Jitter.FULL)[0]
    hops_of_each = [max(0, -(-(delay - 900) // 900)) for delay in range(ceiling + 1)]
    expected = 1 + sum(hops_of_each) / (ceiling + 1)

    assert sum(waits.receives.values()) == pytest.approx(expected, rel=0.01)
    assert sum(waits.delays.values()) == pytest.approx(1)


def test_no_replays_parks_everything_at_once() -> None:
    (waits,) = waits_by_replay_count(policy_of(0, 10, 900), Jitter.FULL)

    assert waits.parked == 1
    assert not waits.delays
    assert waits.receives == {0: 1}


@pytest.mark.parametrize("draw", [0, 3, 20])
def test_the_draw_is_the_product_s_own(draw: int) -> None:
    rules = policy_of(9, 10, 900)
    waits = waits_by_replay_count(rules, Jitter.FULL)[0]

    assert decide(message("a"), rules, NOW, lambda _: draw) == Replay(1, draw)
    assert draw in waits.delays
