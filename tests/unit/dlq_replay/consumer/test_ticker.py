"""With real threads. Events order them; no test waits for a time to pass."""

import threading

import pytest

from dlq_replay.consumer.heartbeat import Ticker

PATIENCE_SECONDS = 30
NEVER = 3600.0


def wait(event: threading.Event) -> None:
    assert event.wait(PATIENCE_SECONDS)


def heartbeat_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "sqs-heartbeat"]


def test_tick_is_called_again_and_again_in_a_daemon_thread() -> None:
    third = threading.Event()
    threads = []

    def tick() -> float:
        threads.append(threading.current_thread())
        if len(threads) == 3:
            third.set()
        return 0.001

    ticker = Ticker()
    ticker.start(tick)
    wait(third)
    ticker.stop()

    assert threads[0].daemon
    assert not threads[0].is_alive()
    assert threads[0] is not threading.current_thread()


def test_stop_waits_for_a_step_in_progress() -> None:
    entered, leave = threading.Event(), threading.Event()
    ended = []

    def tick() -> float:
        entered.set()
        wait(leave)
        ended.append(True)
        return NEVER

    ticker = Ticker()
    ticker.start(tick)
    wait(entered)
    threading.Timer(0.05, leave.set).start()
    ticker.stop()

    assert ended == [True]


def test_wake_calls_the_step_before_its_time() -> None:
    called = [threading.Event(), threading.Event()]
    ticks = iter(called)

    def tick() -> float:
        next(ticks).set()
        return NEVER

    ticker = Ticker()
    ticker.start(tick)
    wait(called[0])
    ticker.wake()
    wait(called[1])
    ticker.stop()


def test_thread_ends_with_the_owner_that_never_stopped_it() -> None:
    begun = threading.Event()
    ticker = Ticker()

    def tick() -> float:
        begun.set()
        return 0.001

    owner = threading.Thread(target=lambda: ticker.start(tick))
    owner.start()
    owner.join()
    wait(begun)
    for thread in heartbeat_threads():
        thread.join(PATIENCE_SECONDS)

    assert heartbeat_threads() == []


def test_tick_that_fails_is_logged_and_does_not_end_the_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    second = threading.Event()
    ticks = iter([True, False])

    def tick() -> float:
        if next(ticks):
            ticker.wake()
            raise ZeroDivisionError
        second.set()
        return NEVER

    ticker = Ticker()
    ticker.start(tick)
    wait(second)
    ticker.stop()

    assert "the heartbeat failed" in caplog.text


def test_tick_may_stop_its_own_ticker() -> None:
    stopped = threading.Event()
    ticker = Ticker()

    def tick() -> float:
        ticker.stop()
        stopped.set()
        return NEVER

    ticker.start(tick)
    wait(stopped)
    ticker.stop()

    assert heartbeat_threads() == []
