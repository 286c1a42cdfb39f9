"""When a heartbeat extends, how long it calls a message safe, and its numbers."""

from itertools import pairwise
from typing import Any

import pytest

from dlq_replay.consumer.errors import VisibilityLimitError, VisibilityLostError
from dlq_replay.consumer.heartbeat import LIMIT_SECONDS, HeartbeatConfig
from dlq_replay.errors import SettingsError
from local_sqs.faults import Effect
from tests.simulation.beating import Work


class Calls:
    """When each extension was sent, and of what; every one fails if told so."""

    def __init__(self, work: Work, *, are_denied: bool) -> None:
        self.times: list[float] = []
        self.timeouts: list[int] = []
        self.handles: list[list[str]] = []
        send = work.client.change_message_visibility_batch

        def record(**request: Any) -> Any:
            self.times.append(work.clock.time())
            self.timeouts.append(request["Entries"][0]["VisibilityTimeout"])
            self.handles.append([entry["ReceiptHandle"] for entry in request["Entries"]])
            if are_denied:
                raise ConnectionError
            return send(**request)

        work.client.change_message_visibility_batch = record  # type: ignore[method-assign]


def test_message_is_safe_for_as_long_as_the_receive_hid_it_and_no_longer() -> None:
    work = Work()
    Calls(work, are_denied=True)
    with work.beat(config=HeartbeatConfig(received_timeout_seconds=30)) as beat:
        assert beat.seconds_left(work.ids[0]) == 30
        work.ticker.pass_time(29.9)
        assert beat.is_safe(work.ids[0])
        work.ticker.pass_time(0.1)
        assert not beat.is_safe(work.ids[0])
        with pytest.raises(VisibilityLostError) as raised:
            beat.check()

    assert type(raised.value) is VisibilityLostError
    assert raised.value.message_id == work.ids[0]


def test_confirmed_extension_counts_from_when_it_was_sent() -> None:
    work = Work()
    calls = Calls(work, are_denied=False)
    work.fail(Effect.DELAY, seconds=5)
    with work.beat() as beat:
        assert beat.seconds_left(work.ids[0]) == 115
        work.ticker.pass_time(60)

    assert [sent_at - calls.times[0] for sent_at in calls.times] == [0, 60]


def test_failed_extension_is_tried_again_sooner_and_sooner() -> None:
    work = Work()
    with work.beat() as beat:
        calls = Calls(work, are_denied=True)
        work.ticker.pass_time(120)
        with pytest.raises(VisibilityLostError, match="ConnectionError"):
            beat.check()

    pauses = [round(later - sooner, 3) for sooner, later in pairwise(calls.times)]
    assert pauses[0] == 15
    assert min(pauses) == 1
    assert pauses == sorted(pauses, reverse=True)
    assert 10 <= len(calls.times) <= 20


def test_most_urgent_messages_go_first_after_a_sleep() -> None:
    work = Work(count=12)
    with work.beat():
        # The second of two calls, which has the last two messages.
        work.fail(Effect.THROTTLE, nth=2)
        work.ticker.pass_time(60)
        calls = Calls(work, are_denied=False)
        work.ticker.suspend(55)

    last_two = [one["ReceiptHandle"] for one in work.received[10:]]
    assert [len(handles) for handles in calls.handles] == [10, 2]
    assert calls.handles[0][:2] == last_two


def test_receipt_that_was_replaced_is_extended_no_more() -> None:
    work = Work(count=12)
    old = work.received[11]
    with work.beat() as beat:
        # It waits for the second call while the first one is on its way.
        work.ticker.wake = lambda: None  # type: ignore[method-assign]
        work.fail(
            Effect.CALL, nth=1, callback=lambda: beat.replace_receipt(old["MessageId"], "new")
        )
        calls = Calls(work, are_denied=False)
        work.ticker.pass_time(60)

    assert [old["ReceiptHandle"] in handles for handles in calls.handles] == [False, False]


def test_block_that_ends_waits_for_one_call_and_not_for_the_next() -> None:
    work = Work(count=12)
    with work.beat() as beat:
        work.fail(Effect.CALL, nth=1, callback=lambda: beat.__exit__(None, None, None))
        calls = Calls(work, are_denied=False)
        work.ticker.pass_time(60)

    assert [len(handles) for handles in calls.handles] == [10]


def test_twelve_hours_are_counted_from_the_receive_even_if_it_hid_the_message_for_all() -> None:
    work = Work()
    beat = work.beat(config=HeartbeatConfig(received_timeout_seconds=LIMIT_SECONDS))

    assert LIMIT_SECONDS - 12 < beat.seconds_left(work.ids[0]) < LIMIT_SECONDS


def test_lost_answer_counts_for_the_shorter_of_two_timeouts() -> None:
    work = Work(VisibilityTimeout=5400)
    work.fail(Effect.LOSE)
    with work.beat(config=HeartbeatConfig(received_timeout_seconds=5400)) as beat:
        assert 0 < beat.seconds_left(work.ids[0]) <= 120


def test_loss_is_final_and_asks_nothing_more() -> None:
    work = Work()
    with work.beat() as beat:
        work.queue.delete(work.received[0])
        work.ticker.pass_time(60)
        extensions = work.extensions()
        work.ticker.pass_time(99_999)
        with pytest.raises(VisibilityLostError, match="InvalidParameterValue") as raised:
            beat.check()
        assert beat.seconds_left(work.ids[0]) == 0

    assert type(raised.value) is VisibilityLostError
    assert work.extensions() == extensions


def test_extensions_end_at_twelve_hours_and_never_ask_beyond() -> None:
    work = Work()
    received_at = work.clock.time()
    calls = Calls(work, are_denied=False)
    with work.beat() as beat:
        work.ticker.pass_time(LIMIT_SECONDS - 12)
        assert beat.is_safe(work.ids[0])
        work.ticker.pass_time(12)
        with pytest.raises(VisibilityLimitError):
            beat.check()

    ends = [sent_at + t for sent_at, t in zip(calls.times, calls.timeouts, strict=True)]
    assert max(ends) <= received_at + LIMIT_SECONDS


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": 43_201}, "timeout_seconds"),
        ({"timeout_seconds": 1.5}, "timeout_seconds"),
        ({"interval_seconds": 0}, "interval_seconds"),
        ({"interval_seconds": 61}, "interval_seconds"),
        ({"interval_seconds": float("nan")}, "interval_seconds"),
        ({"received_timeout_seconds": -1}, "received_timeout_seconds"),
        ({"received_timeout_seconds": 43_201}, "received_timeout_seconds"),
    ],
)
def test_number_out_of_range_is_refused_by_name(numbers: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingsError, match=f"^invalid configuration:\n  {name}: "):
        HeartbeatConfig(**numbers)


def test_faults_are_reported_together() -> None:
    with pytest.raises(SettingsError) as raised:
        HeartbeatConfig(timeout_seconds=0, received_timeout_seconds=-1)

    assert len(raised.value.faults) == 2
