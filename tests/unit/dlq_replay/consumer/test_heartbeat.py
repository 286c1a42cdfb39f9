"""On the model's virtual clock: real botocore, no thread, no waiting."""

import pytest

from dlq_replay.consumer.heartbeat import Heartbeat
from local_sqs.faults import Effect
from tests.simulation.beating import EXTEND, Work


def test_message_stays_hidden_for_as_long_as_the_block_runs() -> None:
    work = Work()
    with work.beat() as beat:
        for _ in range(100):
            work.ticker.pass_time(30)
            assert work.queue.receive() == []
            beat.check()

    assert not work.lost
    assert work.extensions() == 51


def test_message_is_left_hidden_when_the_block_ends_well() -> None:
    work = Work()
    with work.beat():
        work.ticker.pass_time(90)

    assert work.ticker.is_stopped
    assert work.queue.receive() == []
    work.clock.advance(120)
    assert len(work.queue.receive()) == 1


def test_every_message_is_visible_at_once_when_an_exception_leaves_the_block() -> None:
    work = Work(count=25)

    def fail(beat: Heartbeat) -> None:
        with beat:
            work.ticker.pass_time(90)
            beat.done(work.ids[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(work.beat())

    assert work.queue.counts() == (24, 1, 0)


def test_exception_that_ends_the_program_releases_too() -> None:
    work = Work()
    with pytest.raises(KeyboardInterrupt), work.beat():
        raise KeyboardInterrupt

    assert len(work.queue.receive()) == 1


def test_given_up_message_is_visible_at_once_and_the_others_stay_hidden() -> None:
    work = Work(count=3)
    with work.beat() as beat:
        assert beat.give_up(work.ids[1])
        assert [one["MessageId"] for one in work.queue.receive()] == [work.ids[1]]
        work.ticker.pass_time(600)
        assert beat.is_safe(work.ids[0])
        assert not beat.is_safe(work.ids[1])
        assert not beat.give_up(work.ids[1])


def test_giving_up_without_an_id_shows_all_that_are_not_done_ten_to_a_call() -> None:
    work = Work(count=25)
    with work.beat() as beat:
        beat.done(work.ids[3])
        assert beat.give_up()
        assert work.queue.counts() == (24, 1, 0)
        assert beat.give_up()

    assert [one.entry_count for one in work.front.log.records(EXTEND)] == [10, 10, 5, 10, 10, 4]


def test_giving_up_tells_what_sqs_did_not_confirm() -> None:
    work = Work(count=3)
    with work.beat() as beat:
        work.fail(Effect.FAIL_ENTRIES, entries=(1,), nth=1)
        assert not beat.give_up()
        assert work.queue.counts() == (2, 1, 0)


def test_done_message_stays_hidden_until_the_block_ends_and_nothing_shows_it() -> None:
    work = Work(count=2)
    with work.beat() as beat:
        beat.done(work.ids[0])
        beat.done(work.ids[0])
        work.ticker.pass_time(600)
        assert not beat.give_up(work.ids[0])
        assert beat.give_up()
        assert [one["MessageId"] for one in work.queue.receive()] == [work.ids[1]]
        assert not beat.is_safe(work.ids[0])
        with pytest.raises(KeyError):
            beat.check(work.ids[0])

    work.clock.advance(120)
    assert work.ids[0] in [one["MessageId"] for one in work.queue.receive()]


def test_done_message_that_its_owner_deletes_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(count=2)
    with work.beat() as beat:
        beat.done(work.ids[0])
        work.queue.delete(work.received[0])
        work.ticker.pass_time(600)
        beat.check()

    assert not work.lost
    assert not caplog.records


def test_done_message_that_cannot_be_extended_is_let_go() -> None:
    work = Work(count=2)
    with work.beat() as beat:
        beat.done(work.ids[0])
        work.clock.advance(3600)
        work.ticker.pass_time(600)

    assert [error.message_id for error in work.lost] == [work.ids[1]]
    assert work.extensions() == 1


def test_twenty_five_messages_are_extended_in_three_calls() -> None:
    work = Work(count=25)
    with work.beat() as beat:
        assert work.extensions() == 3
        work.ticker.pass_time(61)
        assert work.extensions() == 6
        assert all(beat.is_safe(one) for one in work.ids)

    assert [one.entry_count for one in work.front.log.records(EXTEND)] == [10, 10, 5] * 2
