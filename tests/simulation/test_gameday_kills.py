"""``dlq gameday``, killed or left without an answer at each of its calls."""

import pytest

from local_sqs.faults import Effect, Fault
from spark_reprocess.errors import InputError
from tests.gameday_world import (
    REAL_DEAD,
    REAL_PARKED,
    Died,
    World,
    busy,
    hidden_in,
    nothing_failed,
    real_messages_are_untouched,
    where_tests_are,
)


def calls_of_a_game_day(*, is_fifo: bool = False) -> int:
    with busy(is_fifo=is_fifo) as world:
        world.game_day(ring=True)
        return world.calls


CALLS = calls_of_a_game_day()
CALLS_ON_FIFO = calls_of_a_game_day(is_fifo=True)


def clean_after(world: World) -> None:
    """What a game day left is gone after the next one, and nothing real is."""
    world.lives()
    world.pass_time(30)
    nothing_failed(world.game_day())
    assert where_tests_are(world) == []
    assert {one.state for one in world.alarms.values()} == {"OK"}
    real_messages_are_untouched(world)


@pytest.mark.parametrize("at", range(1, CALLS + 1))
def test_killed_after_any_call_it_leaves_nothing_that_the_next_one_does_not_clean_up(
    at: int,
) -> None:
    """Killed before a call, it leaves what it leaves when it is killed after the call before."""
    with busy() as world:
        world.dies(at, after=True)
        with pytest.raises(Died):
            world.game_day(ring=True)

        clean_after(world)


@pytest.mark.parametrize("after", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("at", range(1, CALLS + 1))
def test_a_call_without_an_answer_loses_nothing(at: int, *, after: bool) -> None:
    with busy() as world:
        world.fail_at, world.dies_after = at, after
        try:
            world.game_day(ring=True)
        except InputError:
            assert at <= CALLS // 2

        clean_after(world)


@pytest.mark.parametrize("at", range(20, CALLS_ON_FIFO + 1, 3))
def test_killed_on_fifo_queues_it_leaves_nothing_either(at: int) -> None:
    with busy(is_fifo=True) as world:
        world.dies(at, after=True)
        with pytest.raises(Died):
            world.game_day(ring=True)

        clean_after(world)


def test_killed_while_replay_is_paused_it_is_removed_from_the_dlq() -> None:
    with busy() as world:

        def die() -> None:
            world.die_at = world.calls
            raise Died

        world.front.faults.add(Fault(Effect.CALL, "SendMessageBatch", after=True, callback=die))
        with pytest.raises(Died):
            world.game_day()
        world.front.faults.clear()
        world.mappings[0]["State"] = "Disabled"
        world.lives()
        assert where_tests_are(world) == ["DeadLetterQueue"]
        world.put(world.dlq, *REAL_DEAD)

        report = world.game_day()

        assert world.bodies(world.dlq) == REAL_DEAD
        assert hidden_in(world, world.dlq) == 0
        assert where_tests_are(world) == []
        assert "1 of an earlier game day" in report.joints[-1].observed
        real_messages_are_untouched(world)


@pytest.mark.parametrize("consumer", ["fails", "handles", None])
@pytest.mark.parametrize("at", range(19, 45, 3))
def test_killed_on_its_way_through_a_consumer_it_leaves_nothing(
    at: int, consumer: str | None
) -> None:
    with busy() as world:
        world.consumer = consumer
        world.dies(at, after=True)
        with pytest.raises(Died):
            world.game_day(through_consumer=True)
        world.lives()
        # With no consumer it waits for one.
        world.consumer = consumer or "fails"
        world.pass_time(400)
        report = world.game_day()

        assert not report.has_failed
        assert where_tests_are(world) == []
        assert set(REAL_PARKED) <= set(world.bodies(world.parked))
