"""What goes wrong while the heartbeat runs, on the model's virtual clock."""

import logging
from typing import Any

import pytest
from botocore.exceptions import ClientError

from dlq_replay.consumer.errors import VisibilityLimitError, VisibilityLostError
from dlq_replay.consumer.heartbeat import Heartbeat, HeartbeatConfig
from local_sqs.faults import Effect
from tests.simulation.beating import EXTEND, Work

HOUR = 3600


def test_throttled_extension_is_repeated_before_the_timeout_ends() -> None:
    work = Work()
    with work.beat() as beat:
        work.fail(Effect.THROTTLE, times=8)
        work.ticker.pass_time(600)
        beat.check()

    assert work.queue.receive() == []
    assert not work.lost


def test_throttled_first_extension_is_repeated_before_the_receives_own_timeout_ends() -> None:
    work = Work()
    work.fail(Effect.THROTTLE, times=5)
    with work.beat() as beat:
        assert 0 < beat.seconds_left(work.ids[0]) <= 30
        work.ticker.pass_time(600)
        beat.check()


def test_denied_extensions_lose_the_message_when_its_timeout_ends_and_not_before() -> None:
    work = Work()
    with work.beat() as beat:

        def deny(**_: Any) -> None:
            error: Any = {"Error": {"Code": "AccessDenied", "Message": "no"}}
            raise ClientError(error, EXTEND)

        work.client.change_message_visibility_batch = deny  # type: ignore[method-assign,assignment]
        work.ticker.pass_time(119)
        beat.check()
        work.ticker.pass_time(2)
        with pytest.raises(VisibilityLostError, match="AccessDenied"):
            beat.check()

    assert [error.message_id for error in work.lost] == work.ids


def test_failed_entry_is_repeated_and_the_others_are_not() -> None:
    work = Work(count=3)
    with work.beat() as beat:
        work.fail(Effect.FAIL_ENTRIES, entries=(1,), nth=1)
        work.ticker.pass_time(119)
        assert all(beat.is_safe(one) for one in work.ids)

    counts = [one.entry_count for one in work.front.log.records(EXTEND)]
    assert counts[:3] == [3, 3, 1]


@pytest.mark.parametrize("effect", [Effect.LOSE, Effect.CLOSE, Effect.ERROR, Effect.UNAVAILABLE])
def test_extension_without_an_answer_is_repeated(effect: Effect) -> None:
    work = Work()
    with work.beat() as beat:
        work.fail(effect, times=3)
        work.ticker.pass_time(600)
        beat.check()


def test_extension_answered_after_the_timeout_is_reported_as_late() -> None:
    work = Work()
    with work.beat() as beat:
        work.fail(Effect.DELAY, seconds=61, nth=1)
        work.ticker.pass_time(60)
        with pytest.raises(VisibilityLostError):
            beat.check()

    assert len(work.lost) == 1


def test_deleted_message_is_lost_by_itself() -> None:
    work = Work(count=12)
    with work.beat() as beat:
        work.queue.delete(work.received[3])
        work.ticker.pass_time(600)

        with pytest.raises(VisibilityLostError, match="InvalidParameterValue"):
            beat.check(work.ids[3])
        for message_id in work.ids[:3] + work.ids[4:]:
            beat.check(message_id)
    assert [error.message_id for error in work.lost] == [work.ids[3]]


def test_suspended_machine_that_wakes_too_late_is_told_at_once() -> None:
    work = Work()
    with work.beat() as beat:
        work.ticker.pass_time(30)
        work.clock.advance(3600)
        assert not beat.is_safe(work.ids[0])
        with pytest.raises(VisibilityLostError):
            beat.check()
        (rival,) = work.queue.receive()
        work.ticker.pass_time(600)
        assert not beat.is_safe(work.ids[0])

    assert rival["MessageId"] == work.ids[0]
    assert len(work.lost) == 1


def test_suspended_machine_that_wakes_in_time_extends_at_once() -> None:
    work = Work()
    with work.beat() as beat:
        work.ticker.suspend(100)
        work.ticker.pass_time(600)
        beat.check()


def test_lost_message_is_not_released_to_harm_its_new_owner() -> None:
    work = Work()

    def wake_too_late(beat: Heartbeat) -> None:
        with beat:
            work.clock.advance(3600)
            assert len(work.queue.receive()) == 1
            beat.check()

    with pytest.raises(VisibilityLostError):
        wake_too_late(work.beat())

    assert work.queue.receive() == []
    assert work.extensions() == 1


def test_new_receipt_takes_the_place_of_the_lost_one() -> None:
    work = Work()
    with work.beat() as beat:
        work.ticker.suspend(500)
        assert not beat.is_safe(work.ids[0])
        (again,) = work.queue.receive()
        assert beat.replace_receipt(again["MessageId"], again["ReceiptHandle"])
        assert beat.seconds_left(work.ids[0]) == 120
        for _ in range(20):
            work.ticker.pass_time(30)
            beat.check()
            assert work.queue.receive() == []


def test_answer_for_an_older_receipt_changes_nothing() -> None:
    work = Work()
    with work.beat() as beat:

        def redeliver() -> None:
            work.clock.advance(200)
            (again,) = work.queue.receive()
            beat.replace_receipt(again["MessageId"], again["ReceiptHandle"])

        # The redelivery comes while an extension of the first receive is on its way.
        work.ticker.is_frozen = True
        work.fail(Effect.CALL, nth=1, callback=redeliver)
        work.ticker.wake = lambda: None  # type: ignore[method-assign]
        work.clock.advance(60)
        work.ticker.is_frozen = False
        work.ticker.pass_time(0)
        work.ticker.pass_time(600)
        beat.check()

    assert not work.lost


def test_receipt_of_a_finished_message_is_not_taken() -> None:
    work = Work()
    with work.beat() as beat:
        beat.done(work.ids[0])

        assert not beat.replace_receipt(work.ids[0], "handle")


def test_twelve_hours_end_with_a_clear_error_while_the_message_is_hidden() -> None:
    work = Work()
    with work.beat(config=HeartbeatConfig(timeout_seconds=600, interval_seconds=300)) as beat:
        work.ticker.pass_time(12 * HOUR - 30)
        beat.check()
        work.ticker.pass_time(22)
        assert work.queue.receive() == []
        with pytest.raises(VisibilityLimitError):
            beat.check()

    assert [type(error) for error in work.lost] == [VisibilityLimitError]


def test_receive_that_lies_back_ends_its_twelve_hours_earlier() -> None:
    work = Work(VisibilityTimeout=7200)
    work.clock.advance(HOUR)
    config = HeartbeatConfig(600, 300, received_timeout_seconds=7200)
    with work.beat(config=config, received_seconds_ago=HOUR) as beat:
        work.ticker.pass_time(11 * HOUR - 30)
        beat.check()
        work.ticker.pass_time(30)
        with pytest.raises(VisibilityLimitError):
            beat.check()


def test_message_received_too_long_ago_is_lost_from_the_start() -> None:
    work = Work()
    work.clock.advance(31)
    with work.beat(received_seconds_ago=31) as beat:
        assert not beat.is_safe(work.ids[0])

    assert work.extensions() == 0
    assert len(work.lost) == 1


def test_callback_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(count=2)

    def fail(_: VisibilityLostError) -> None:
        raise ZeroDivisionError

    beat = Heartbeat(
        work.client,
        work.queue.url,
        work.received,
        on_lost=fail,
        now=work.clock.time,
        ticker=work.ticker,
    )
    with beat:
        work.queue.delete(work.received[0])
        work.ticker.pass_time(600)
        beat.check(work.ids[1])

    assert f"on_lost failed for message {work.ids[0]}" in caplog.text


def test_log_holds_neither_bodies_nor_receipt_handles(caplog: pytest.LogCaptureFixture) -> None:
    work = Work()
    with caplog.at_level(logging.DEBUG, "dlq_replay"), work.beat():
        work.queue.delete(work.received[0])
        work.ticker.pass_time(600)

    assert work.ids[0] in caplog.text
    assert work.received[0]["ReceiptHandle"] not in caplog.text
